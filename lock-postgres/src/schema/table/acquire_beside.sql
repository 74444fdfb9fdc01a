-- Takes the lock for a shared hold (`my_permits` is 0), or for one of n, of which `wanted` are asked for, if it
-- fits and nobody waits before. `lets_in` says whether others were granted the lock, and `conflict` is the
-- number of permits that the lock has if it has another number.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_take_beside"(
    lock_name text, me uuid, ttl_ms bigint, my_label text, my_permits bigint, wanted bigint,
    my_session bigint, clock_limit bigint,
    OUT token bigint, OUT now_us bigint, OUT slots bigint[], OUT conflict bigint,
    OUT lets_in boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    held "@schema@"."@table@_grants";
    turn record;
    is_blocked boolean := false;
BEGIN
    lets_in := false;
    SELECT * INTO held FROM "@schema@"."@table@_grants" g
        WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1 FOR UPDATE;
    IF held.owner <> me AND held.session IS NOT NULL THEN
        held.expires_at := "@schema@"."@table@_v1_end_of"(lock_name, held);
    END IF;
    now_us := extract(epoch FROM clock_timestamp()) * 1000000;
    IF held.permits IS NULL THEN
        IF held.expires_at <= clock_timestamp() THEN
            held.owner := NULL;
        END IF;
    ELSE
        -- C16: its own hold, with the same slots.
        UPDATE "@schema@"."@table@_holders" h
            SET expires_at = greatest(
                h.expires_at, clock_timestamp() + ttl_ms * interval '1 millisecond'),
                session = my_session
            WHERE h.owner = me AND h.name = lock_name AND h.expires_at > clock_timestamp()
            RETURNING h.token, h.slots INTO token, slots;
        IF FOUND THEN
            PERFORM "@schema@"."@table@_v1_durably"();
            RETURN;
        END IF;
        IF held.expires_at <= clock_timestamp() THEN
            held := "@schema@"."@table@_v1_expire"(lock_name, held);
        END IF;
    END IF;
    -- Those who wait go first. One of them may have come back to its place, or be gone from it, since the last
    -- release.
    IF (held.owner IS NULL OR held.permits IS NOT NULL) AND EXISTS (
        SELECT FROM "@schema@"."@table@_queue" q
        WHERE q.name = lock_name AND q.place > coalesce(held.served, 0))
    THEN
        SELECT * INTO turn
            FROM "@schema@"."@table@_v1_hand_over"(
                lock_name, held, me, my_session, clock_limit);
        held := turn.last;
        is_blocked := turn.is_blocked;
        lets_in := turn.winners IS NOT NULL;
        PERFORM pg_notify(t.channel, t.message)
            FROM unnest(turn.channels, turn.messages) t (channel, message);
        IF me = ANY (turn.winners) THEN
            SELECT h.token, h.slots INTO token, slots
                FROM "@schema@"."@table@_holders" h WHERE h.owner = me;
            RETURN;
        END IF;
    END IF;
    IF least(held.permits, my_permits) > 0 AND held.permits <> my_permits THEN
        conflict := held.permits;
    ELSIF NOT is_blocked THEN
        slots := "@schema@"."@table@_v1_slots"(lock_name, held, my_permits, wanted);
        IF slots IS NOT NULL THEN
            held := "@schema@"."@table@_v1_grant_beside"(
                lock_name, held, me, ttl_ms, my_label, my_permits, slots, my_session,
                clock_limit);
            token := held.token;
        END IF;
    END IF;
END
$$;

-- Tries to take the lock for a hold of another kind than exclusive. It answers as `acquire` does, and beside the
-- token which `slots` the hold has; neither if there is a `conflict`, as with `take_beside` (C33).
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_acquire_beside"(
    lock_name text, me uuid, ttl_ms bigint, my_label text, my_permits bigint, wanted bigint,
    queues boolean, my_listener bigint, my_session bigint, clock_limit bigint,
    OUT token bigint, OUT now_us bigint, OUT left_us bigint, OUT holder text, OUT ahead bigint,
    OUT slots bigint[], OUT conflict bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s'
SET enable_seqscan = off AS $$
DECLARE
    held "@schema@"."@table@_grants";
    tried record;
    my_place bigint;
BEGIN
    IF my_session IS NOT NULL THEN
        PERFORM "@schema@"."@table@_v1_refuse_if_gone"(my_session);
    END IF;
    IF queues THEN
        SELECT * INTO held FROM "@schema@"."@table@_grants" g
            WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1;
        IF held.permits IS NULL AND held.expires_at > clock_timestamp() AND (held.session IS NULL
            OR NOT "@schema@"."@table@_v1_is_left_behind"(lock_name, held))
        THEN
            -- Held exclusively. A claim that has a place does not need the row.
            UPDATE "@schema@"."@table@_queue" q
                SET seen_at = clock_timestamp(), listener = my_listener, session = my_session
                WHERE q.owner = me AND q.place > held.served RETURNING q.place INTO my_place;
        END IF;
    END IF;
    IF my_place IS NULL THEN
        PERFORM "@schema@"."@table@_v1_enter"(lock_name);
        -- C19: as in `acquire`.
        IF EXISTS (SELECT FROM "@schema@"."@table@_withdrawn" w WHERE w.owner = me) THEN
            RAISE EXCEPTION USING ERRCODE = 'LH001', MESSAGE = 'the claim was withdrawn';
        END IF;
        SELECT * INTO tried FROM "@schema@"."@table@_v1_take_beside"(
            lock_name, me, ttl_ms, my_label, my_permits, wanted, my_session,
            clock_limit);
        token := tried.token;
        now_us := tried.now_us;
        slots := tried.slots;
        conflict := tried.conflict;
        IF conflict IS NOT NULL THEN
            DELETE FROM "@schema@"."@table@_queue" q WHERE q.owner = me;
        END IF;
        IF token IS NOT NULL OR conflict IS NOT NULL THEN
            RETURN;
        END IF;
        IF queues THEN
            IF NOT tried.lets_in THEN
                -- As in `acquire`.
                PERFORM set_config('synchronous_commit', 'off', true);
            END IF;
            INSERT INTO "@schema@"."@table@_queue" AS q
                (owner, name, ttl_ms, label, listener, session, seen_at, permits, taken)
                VALUES (me, lock_name, ttl_ms, my_label, my_listener, my_session,
                    clock_timestamp(), my_permits, wanted)
                ON CONFLICT (owner) DO UPDATE
                SET seen_at = excluded.seen_at, listener = excluded.listener,
                    session = excluded.session
                RETURNING q.place INTO my_place;
        END IF;
        SELECT * INTO held FROM "@schema@"."@table@_grants" g
            WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1;
    END IF;
    now_us := extract(epoch FROM clock_timestamp()) * 1000000;
    left_us := greatest(
        0, (extract(epoch FROM held.expires_at - clock_timestamp()) * 1000000)::bigint);
    holder := held.label;
    IF my_place IS NOT NULL THEN
        SELECT count(*) INTO ahead FROM "@schema@"."@table@_queue" q
            WHERE q.name = lock_name AND q.place > held.served AND q.place < my_place;
    END IF;
END
$$;
