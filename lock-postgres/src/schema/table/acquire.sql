-- Tries to take the lock. `my_permits` is null for an exclusive hold, 0 for a shared one, or n for `wanted` of n
-- permits. `token` is null if the lock is busy; the other columns then describe the contention. `slots` are the
-- slots of a hold of permits. `counted` is the number of permits that the holders count (C33), or -1 if the claim was
-- withdrawn: the server writes no error to its log for that. `first_counts` is the number of the first waiter with
-- `first_label`, unless this is `me`. `left_us` is null if somebody else has written a hold without an end.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_acquire"(
    lock_name text, me uuid, ttl_ms bigint, my_label text, my_permits bigint, wanted bigint,
    queues boolean, my_listener bigint, clock_limit bigint,
    OUT token bigint, OUT now_us bigint, OUT left_us bigint, OUT holder text, OUT ahead bigint,
    OUT slots bigint[], OUT counted bigint, OUT first_counts bigint, OUT first_label text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '750ms'
SET enable_seqscan = off AS $$
DECLARE
    held "@schema@"."@table@_grants";
    turn record;
    was_over boolean;
    lets_in boolean := false;
    is_blocked boolean := false;
    my_place bigint;
BEGIN
    IF queues THEN
        SELECT * INTO held FROM "@schema@"."@table@_grants" g
            WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1;
        IF held.owner <> me AND held.expires_at > clock_timestamp()
            AND (my_permits IS NULL OR held.permits IS NULL)
        THEN
            -- Another owner holds the lock until its TTL. A claim that has a place does not need the row of the
            -- lock.
            UPDATE "@schema@"."@table@_queue" q
                SET seen_at = clock_timestamp(), listener = my_listener
                WHERE q.owner = me AND q.place > held.served RETURNING q.place INTO my_place;
        END IF;
    END IF;
    IF my_place IS NULL THEN
        PERFORM FROM "@schema@"."@table@" l WHERE l.name = lock_name FOR UPDATE;
        IF NOT FOUND THEN
            PERFORM "@schema@"."@table@_v1_enter"(lock_name);
        END IF;
        IF my_permits IS NULL AND held.owner IS NULL THEN
            -- The common case is one statement: the lock was released, has no waiters, and nothing forbids the
            -- grant. All other cases follow below.
            now_us := extract(epoch FROM clock_timestamp()) * 1000000;
            UPDATE "@schema@"."@table@_grants" g
                SET token = greatest(g.token + g.reserved + 1, now_us), reserved = 0,
                    owner = me, label = my_label,
                    expires_at = clock_timestamp() + ttl_ms * interval '1 millisecond'
                WHERE g.name = lock_name AND g.token = (
                    SELECT t.token FROM "@schema@"."@table@_grants" t
                    WHERE t.name = lock_name ORDER BY t.token DESC LIMIT 1)
                AND g.owner IS NULL AND g.permits IS NULL AND now_us <= clock_limit
                AND NOT EXISTS (SELECT FROM "@schema@"."@table@_withdrawn" w WHERE w.owner = me)
                AND NOT EXISTS (SELECT FROM "@schema@"."@table@_queue" q
                    WHERE q.name = lock_name AND q.place > g.served)
                RETURNING g.token INTO token;
            IF FOUND THEN
                IF current_setting('synchronous_commit') = 'off' THEN
                    PERFORM set_config('synchronous_commit', 'on', true);
                END IF;
                RETURN;
            END IF;
        END IF;
        -- C19: a withdrawal marks its claim with the row locked. So either the mark is visible now, or the
        -- withdrawal comes later and finds the grant.
        IF EXISTS (SELECT FROM "@schema@"."@table@_withdrawn" w WHERE w.owner = me) THEN
            counted := -1;
            RETURN;
        END IF;
        SELECT * INTO held FROM "@schema@"."@table@_grants" g
            WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1;
        IF held.owner IS NOT NULL AND (held.owner = me OR held.expires_at <= clock_timestamp()) THEN
            -- Locks the row of the grant too, to wait for an extension in progress.
            SELECT * INTO held FROM "@schema@"."@table@_grants" g
                WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1 FOR UPDATE;
        END IF;
        now_us := extract(epoch FROM clock_timestamp()) * 1000000;
        -- C16: a repeated claim finds its own hold, with the same slots.
        IF held.owner = me OR held.permits IS NOT NULL THEN
            SELECT h.token, h.slots INTO token, slots FROM "@schema@"."@table@_holds" h
                WHERE h.name = lock_name AND h.owner = me;
            IF "@schema@"."@table@_v1_extend"(
                ARRAY[lock_name], ARRAY[me], ARRAY[token], ARRAY[ttl_ms]) = '1'
            THEN
                RETURN;
            END IF;
            token := NULL;
        END IF;
        was_over := held.expires_at <= clock_timestamp();
        IF was_over AND held.permits IS NULL THEN
            held.owner := NULL;
        ELSIF was_over THEN
            held := "@schema@"."@table@_v1_expire"(lock_name, held);
        END IF;
        -- Waiters go first if the lock is free or has room beside its holders. A waiter may have returned to its
        -- place, or left it, since the last release.
        IF (held.owner IS NULL OR was_over OR held.permits IS NOT NULL AND my_permits IS NOT NULL)
            AND EXISTS (SELECT FROM "@schema@"."@table@_queue" q
                WHERE q.name = lock_name AND q.place > coalesce(held.served, 0))
        THEN
            SELECT * INTO turn FROM "@schema@"."@table@_v1_hand_over"(
                lock_name, held, me, clock_limit);
            held := turn.last;
            is_blocked := turn.is_blocked;
            first_counts := turn.blocker_counts;
            first_label := turn.blocker_label;
            lets_in := turn.winners IS NOT NULL;
            PERFORM pg_notify(t.channel, t.message)
                FROM unnest(turn.channels, turn.messages) t (channel, message);
            IF me = ANY (turn.winners) THEN
                token := held.token;
                IF my_permits IS NOT NULL THEN
                    SELECT h.token, h.slots INTO token, slots
                        FROM "@schema@"."@table@_holders" h WHERE h.owner = me;
                END IF;
                RETURN;
            END IF;
        END IF;
        IF NOT is_blocked THEN
            slots := CASE
                WHEN my_permits IS NOT NULL THEN "@schema@"."@table@_v1_slots"(
                    lock_name, held, my_permits, wanted)
                WHEN held.owner IS NULL THEN '{}' END;
            IF slots IS NOT NULL THEN
                held := "@schema@"."@table@_v1_grant_to"(
                    lock_name, held, me, ttl_ms, my_label, my_permits, slots, clock_limit);
                token := held.token;
                RETURN;
            END IF;
        END IF;
        IF queues THEN
            IF NOT lets_in THEN
                -- Nothing was granted, and a crash empties the queue anyway. So the commit does not wait for the
                -- disk, and unlocks the row sooner.
                PERFORM set_config('synchronous_commit', 'off', true);
            END IF;
            INSERT INTO "@schema@"."@table@_queue" AS q
                (owner, name, ttl_ms, label, listener, seen_at, permits, taken)
                VALUES (me, lock_name, ttl_ms, my_label, my_listener,
                    clock_timestamp(), my_permits, wanted)
                ON CONFLICT (owner) DO UPDATE
                SET seen_at = excluded.seen_at, listener = excluded.listener
                RETURNING q.place INTO my_place;
        END IF;
    END IF;
    -- P2: every grant before this answer was made before `now_us`, even if the clock stepped back since then,
    -- because a token is never below the time of its grant.
    now_us := greatest(held.token + 1, extract(epoch FROM clock_timestamp()) * 1000000);
    IF held.expires_at IS DISTINCT FROM 'infinity' THEN
        left_us := greatest(
            0, (extract(epoch FROM held.expires_at - clock_timestamp()) * 1000000)::bigint);
    END IF;
    holder := held.label;
    counted := held.permits;
    IF my_place IS NOT NULL THEN
        SELECT count(*) INTO ahead FROM "@schema@"."@table@_queue" q
            WHERE q.name = lock_name AND q.place > held.served AND q.place < my_place
                AND q.seen_at > clock_timestamp() - interval '@waiter_liveness_ms@ milliseconds';
    END IF;
END
$$;
