-- The functions of the mode in which locks are rows of this table.

-- Grants the free lock to the first waiter that is alive, and notifies it. The waiter `me` is not
-- granted anything: it is only taken out of the queue. Returns the waiter's owner, or null if nobody
-- waits (C27).
--
-- A waiter is alive that was seen lately, and whose listening session, if it has one, still holds the
-- advisory lock that stands for its channel. Anyone may see the keys of locks that are held, so a key
-- does not tell its channel. A pushed grant is short until its holder renews it (C28).
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_hand_over"(
    lock_name text, me uuid, clock_limit bigint
) RETURNS uuid
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    waiter "@schema@"."@table@_queue";
    channel text;
    now_us bigint;
    granted bigint;
    short_ms bigint;
BEGIN
    LOOP
        SELECT * INTO waiter FROM "@schema@"."@table@_queue" q
            WHERE q.name = lock_name ORDER BY q.place LIMIT 1;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        DELETE FROM "@schema@"."@table@_queue" q WHERE q.owner = waiter.owner;
        IF waiter.owner = me THEN
            RETURN me;
        END IF;
        channel := 'leasehold_' || to_hex(waiter.listener);
        IF waiter.seen_at > clock_timestamp() - interval '@waiter_liveness_ms@ milliseconds'
            AND (channel IS NULL OR NOT pg_try_advisory_xact_lock_shared(
                "@schema@"."@table@_v1_key"(convert_to(channel, 'UTF8'))))
        THEN
            now_us := "@schema@"."@table@_v1_now_us"();
            short_ms := least(waiter.ttl_ms, @unclaimed_grant_ttl_ms@);
            granted := "@schema@"."@table@_v1_grant"(
                lock_name, waiter.owner, short_ms, waiter.label, clock_limit);
            IF channel IS NOT NULL THEN
                PERFORM pg_notify(
                    channel,
                    concat_ws(':', replace(waiter.owner::text, '-', ''), granted, short_ms, now_us));
            END IF;
            RETURN waiter.owner;
        END IF;
    END LOOP;
END
$$;

-- Tries to take the lock. `token` is null if it is busy; then the rest says what is known.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_acquire"(
    lock_name text, me uuid, ttl_ms bigint, my_label text, queues boolean, my_listener bigint,
    clock_limit bigint,
    OUT token bigint, OUT now_us bigint, OUT left_us bigint, OUT holder text, OUT ahead bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held "@schema@"."@table@";
    winner uuid;
    my_place bigint;
BEGIN
    SELECT * INTO held FROM "@schema@"."@table@" l WHERE l.name = lock_name;
    IF held.owner <> me AND held.expires_at > clock_timestamp() THEN
        -- Held by another. A claim that does not queue, or has a place, does not need the row.
        IF queues THEN
            UPDATE "@schema@"."@table@_queue" q
                SET seen_at = clock_timestamp(), listener = my_listener
                WHERE q.owner = me RETURNING q.place INTO my_place;
        END IF;
    END IF;
    IF my_place IS NULL AND (queues OR held.owner IS NULL OR held.owner = me
        OR held.expires_at <= clock_timestamp())
    THEN
        PERFORM "@schema@"."@table@_v1_enter"(lock_name);
        -- C19: a withdrawal marks its claim with the row locked. So the mark is there now, or the
        -- withdrawal comes later, and finds the grant.
        IF EXISTS (SELECT FROM "@schema@"."@table@_withdrawn" w WHERE w.owner = me) THEN
            RAISE EXCEPTION USING ERRCODE = 'LH001', MESSAGE = 'the claim was withdrawn';
        END IF;
        SELECT * INTO held FROM "@schema@"."@table@" l WHERE l.name = lock_name;
        IF held.owner = me AND held.expires_at > clock_timestamp() THEN
            now_us := "@schema@"."@table@_v1_now_us"();
            PERFORM "@schema@"."@table@_v1_durably"();
            UPDATE "@schema@"."@table@" l
                SET expires_at = greatest(
                    l.expires_at, clock_timestamp() + ttl_ms * interval '1 millisecond')
                WHERE l.name = lock_name;
            token := held.token;
            RETURN;
        END IF;
        IF held.owner IS NULL OR held.expires_at <= clock_timestamp() THEN
            winner := "@schema@"."@table@_v1_hand_over"(lock_name, me, clock_limit);
            IF winner IS NULL OR winner = me THEN
                now_us := "@schema@"."@table@_v1_now_us"();
                token := "@schema@"."@table@_v1_grant"(lock_name, me, ttl_ms, my_label, clock_limit);
                RETURN;
            END IF;
            SELECT * INTO held FROM "@schema@"."@table@" l WHERE l.name = lock_name;
        END IF;
        IF queues THEN
            IF winner IS NULL THEN
                -- Nothing was granted, and a crash empties the queue anyway. So the commit does not wait
                -- for the disk, and the row is not kept from others for as long.
                PERFORM set_config('synchronous_commit', 'off', true);
            END IF;
            INSERT INTO "@schema@"."@table@_queue" AS q
                (owner, name, ttl_ms, label, listener, seen_at)
                VALUES (me, lock_name, ttl_ms, my_label, my_listener, clock_timestamp())
                ON CONFLICT (owner) DO UPDATE
                SET seen_at = excluded.seen_at, listener = excluded.listener
                RETURNING q.place INTO my_place;
        END IF;
    END IF;
    now_us := "@schema@"."@table@_v1_now_us"();
    left_us := greatest(
        0, (extract(epoch FROM held.expires_at - clock_timestamp()) * 1000000)::bigint);
    holder := held.label;
    IF my_place IS NOT NULL THEN
        SELECT count(*) INTO ahead FROM "@schema@"."@table@_queue" q
            WHERE q.name = lock_name AND q.place < my_place;
    END IF;
END
$$;

-- Answers for each hold 1 if it lasts that long from now, or 0 if it is over. It never shortens a hold.
-- Rows are taken in the order of their names, so that batches do not wait for each other in a circle.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_extend"(
    names text[], owners uuid[], tokens bigint[], ttls_ms bigint[]
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answers text[] := array_fill('0'::text, ARRAY[cardinality(names)]);
    i bigint;
BEGIN
    PERFORM "@schema@"."@table@_v1_durably"();
    FOR i IN SELECT a.n FROM unnest(names) WITH ORDINALITY AS a(name, n)
        ORDER BY a.name COLLATE "C"
    LOOP
        UPDATE "@schema@"."@table@" l
            SET expires_at = greatest(
                l.expires_at, clock_timestamp() + ttls_ms[i] * interval '1 millisecond')
            WHERE l.name = names[i] AND l.owner = owners[i] AND l.token = tokens[i]
                AND l.expires_at > clock_timestamp();
        IF FOUND THEN
            answers[i] := '1';
        END IF;
    END LOOP;
    RETURN array_to_string(answers, '');
END
$$;

-- Ends the hold of `me` and hands the lock over; true if it was held.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_release"(
    lock_name text, me uuid, clock_limit bigint
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE "@schema@"."@table@" l
        SET owner = NULL, label = '', expires_at = '-infinity'
        WHERE l.name = lock_name AND l.owner = me AND l.expires_at > clock_timestamp();
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- The update has locked the row, and only now the queue is looked at. A waiter that came before is
    -- seen, and one that comes after finds the lock free. If the clock cannot be trusted with a token,
    -- nothing is handed over: the waiters find the lock free.
    IF "@schema@"."@table@_v1_now_us"() <= clock_limit THEN
        PERFORM "@schema@"."@table@_v1_hand_over"(lock_name, NULL, clock_limit);
    END IF;
    RETURN true;
END
$$;

-- C19: takes back a grant and a place in the queue, and lets a request that is still on its way be
-- refused.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_withdraw"(
    lock_name text, me uuid, clock_limit bigint
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    released boolean;
BEGIN
    PERFORM "@schema@"."@table@_v1_enter"(lock_name);
    INSERT INTO "@schema@"."@table@_withdrawn" (owner, forget_at)
        VALUES (me, clock_timestamp() + interval '@withdrawal_remembered_ms@ milliseconds')
        ON CONFLICT (owner) DO UPDATE SET forget_at = excluded.forget_at;
    DELETE FROM "@schema@"."@table@_queue" q WHERE q.owner = me;
    released := "@schema@"."@table@_v1_release"(lock_name, me, clock_limit);
    -- What others left behind goes as well, except for rows that somebody else has locked. It goes last,
    -- since from here on rows of other locks are locked: two that then waited for each other's lock
    -- would never end.
    DELETE FROM "@schema@"."@table@_withdrawn" w WHERE w.owner IN (
        SELECT o.owner FROM "@schema@"."@table@_withdrawn" o
        WHERE o.forget_at < clock_timestamp() LIMIT 20 FOR UPDATE SKIP LOCKED);
    DELETE FROM "@schema@"."@table@_queue" q WHERE q.owner IN (
        SELECT o.owner FROM "@schema@"."@table@_queue" o
        WHERE o.seen_at < clock_timestamp() - interval '1 minute'
        LIMIT 20 FOR UPDATE SKIP LOCKED);
    RETURN released;
END
$$;

-- The locks that are held and whose names start with `prefix`, or the one lock called `prefix`. No more
-- than 8 digits of an owner are told.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_list"(
    prefix text, whole boolean, at_most bigint,
    OUT name text, OUT owner text, OUT token bigint, OUT left_us bigint, OUT label text,
    OUT waiters bigint
) RETURNS SETOF record
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT l.name, left(h.owner::text, 8), l.token,
        (extract(epoch FROM h.expires_at - clock_timestamp()) * 1000000)::bigint, l.label,
        (SELECT count(*) FROM "@schema@"."@table@_queue" q
            WHERE q.name = l.name
            AND q.seen_at > clock_timestamp() - interval '@waiter_liveness_ms@ milliseconds')
    FROM "@schema@"."@table@" l
    LEFT JOIN LATERAL (SELECT l.owner, l.expires_at
        WHERE l.owner IS NOT NULL AND l.expires_at > clock_timestamp()) h ON true
    WHERE CASE WHEN whole THEN l.name = prefix
        ELSE h.owner IS NOT NULL AND starts_with(l.name, prefix) END
    ORDER BY l.name LIMIT at_most
$$;

-- Ends the hold of any owner and hands the lock over. Returns no row if nobody held the lock.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_evict"(
    lock_name text, clock_limit bigint,
    OUT name text, OUT owner text, OUT token bigint, OUT left_us bigint, OUT label text,
    OUT waiters bigint
) RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held_by uuid;
BEGIN
    PERFORM FROM "@schema@"."@table@" l WHERE l.name = lock_name FOR UPDATE;
    SELECT l.owner INTO held_by FROM "@schema@"."@table@" l WHERE l.name = lock_name;
    FOR name, owner, token, left_us, label, waiters IN
        SELECT * FROM "@schema@"."@table@_v1_list"(lock_name, true, 1) s WHERE s.owner IS NOT NULL
    LOOP
        PERFORM "@schema@"."@table@_v1_release"(lock_name, held_by, clock_limit);
        RETURN NEXT;
    END LOOP;
END
$$;
