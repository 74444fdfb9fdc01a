-- Key of the advisory lock that stands for a channel. Everyone may see which keys are held, so the key is a hash,
-- which does not reveal the channel.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_listener_key"(listener bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ('x' || encode(substr(
        sha256(convert_to('leasehold_' || to_hex(listener), 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint;
END
$$;

-- Makes the session listen on the channel of its client, and take the advisory lock that stands for the channel. No text of
-- a request names the channel, of which the server would keep statistics.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_listen"(listener bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE 'LISTEN leasehold_' || to_hex(listener);
    PERFORM pg_try_advisory_lock("@schema@"."@table@_v1_listener_key"(listener));
END
$$;

-- Grants the lock to the first waiter that is alive (C27), and to all that follow and fit beside it and beside
-- the present holders (C34). An exclusive hold has ended, or is about to. `winners` is null if no waiter was
-- granted. `is_blocked` is true if a living waiter still waits: the first of them counts `blocker_counts` permits, and
-- has `blocker_label`, both null if it is `me`. `messages` go to the `channels` of the winners'
-- clients after the commit: NOTIFY within the commit would keep every other transaction of the cluster that
-- notifies from committing at the same time. So a lost message costs the waiter a poll. The waiter `me`, which
-- sent this request, gets no message and its whole TTL.
--
-- A waiter is alive if it was seen lately and its session, if any, still holds the advisory lock of its channel.
-- C28: a waiter whose session is gone is passed over. It keeps its place until it was not seen for too long,
-- since its client may only have lost a connection. The first waiter that was not seen for too long is removed with all
-- such waiters behind it. A pushed grant is short until its holder renews it.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_hand_over"(
    lock_name text, INOUT last "@schema@"."@table@_grants", me uuid, clock_limit bigint,
    OUT winners uuid[], OUT is_blocked boolean, OUT channels text[], OUT messages text[],
    OUT blocker_counts bigint, OUT blocker_label text
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    waiter "@schema@"."@table@_queue";
    looked_at bigint := coalesce(last.served, 0);
    passed_over bigint;
    cut_off timestamptz := clock_timestamp() - interval '@waiter_liveness_ms@ milliseconds';
    slots bigint[];
    ttl_ms bigint;
BEGIN
    is_blocked := false;
    IF last.permits IS NULL THEN
        last.owner := NULL;
    END IF;
    LOOP
        SELECT * INTO waiter FROM "@schema@"."@table@_queue" q
            WHERE q.name = lock_name AND q.place > looked_at ORDER BY q.place LIMIT 1;
        EXIT WHEN NOT FOUND;
        IF waiter.seen_at <= cut_off AND waiter.owner IS DISTINCT FROM me THEN
            DELETE FROM "@schema@"."@table@_queue" q WHERE q.name = lock_name AND q.place > looked_at
                AND q.seen_at <= cut_off AND q.owner IS DISTINCT FROM me;
            CONTINUE;
        END IF;
        looked_at := waiter.place;
        IF waiter.owner IS DISTINCT FROM me AND waiter.listener IS NOT NULL
            AND pg_try_advisory_xact_lock_shared(
                "@schema@"."@table@_v1_listener_key"(waiter.listener))
        THEN
            passed_over := coalesce(passed_over, looked_at);
            CONTINUE;
        END IF;
        slots := CASE
            WHEN waiter.permits IS NOT NULL THEN "@schema@"."@table@_v1_slots"(
                lock_name, last, waiter.permits, waiter.taken)
            WHEN last.owner IS NULL THEN '{}' END;
        IF slots IS NULL THEN
            is_blocked := true;
            IF waiter.owner IS DISTINCT FROM me THEN
                blocker_counts := waiter.permits;
                blocker_label := waiter.label;
            END IF;
            RETURN;
        END IF;
        DELETE FROM "@schema@"."@table@_queue" q WHERE q.owner = waiter.owner;
        last.served := coalesce(passed_over - 1, looked_at);
        winners := winners || waiter.owner;
        ttl_ms := CASE WHEN waiter.owner IS DISTINCT FROM me
            THEN least(waiter.ttl_ms, @unclaimed_grant_ttl_ms@) ELSE waiter.ttl_ms END;
        last := "@schema@"."@table@_v1_grant_to"(
            lock_name, last, waiter.owner, ttl_ms, waiter.label, waiter.permits, slots,
            clock_limit);
        IF waiter.owner IS DISTINCT FROM me AND waiter.listener IS NOT NULL THEN
            channels := channels || ('leasehold_' || to_hex(waiter.listener));
            -- P2: the time of the grant is its token, which is never below that time.
            messages := messages || concat_ws(
                ':', replace(waiter.owner::text, '-', ''), last.token, ttl_ms, last.token,
                nullif(array_to_string(slots, ','), ''));
        END IF;
        EXIT WHEN waiter.permits IS NULL;
    END LOOP;
END
$$;
