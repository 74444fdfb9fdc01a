-- The functions of the mode in which locks are rows of tables.

-- Makes sure that the lock has a row, and locks it.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_enter"(lock_name text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    LOOP
        PERFORM FROM "@schema@"."@table@" l WHERE l.name = lock_name FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO "@schema@"."@table@" (name) VALUES (lock_name) ON CONFLICT DO NOTHING;
    END LOOP;
END
$$;

-- Grants the lock, whose newest grant is `last`, and returns the new token: one more than the last, or the
-- time in microseconds, whichever is greater (C22). While the clock is ahead of the last token, the token is
-- therefore the time of the grant (C45).
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_grant"(
    lock_name text, last "@schema@"."@table@_grants", new_owner uuid, ttl_ms bigint,
    new_label text, clock_limit bigint, told_at bigint DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    now_us bigint := "@schema@"."@table@_v2_now_us"();
    granted bigint := greatest(coalesce(last.token, 0) + 1, now_us);
BEGIN
    IF now_us > clock_limit THEN
        RAISE EXCEPTION USING ERRCODE = 'LH002',
            MESSAGE = 'the clock of the server is more than a day ahead of the client';
    END IF;
    -- A grant is on disk before it is told, whatever the session's default is.
    PERFORM "@schema@"."@table@_v2_durably"();
    INSERT INTO "@schema@"."@table@_grants"
        (name, token, owner, label, expires_at, served, listener, short_ms, granted_us)
        VALUES (lock_name, granted, new_owner, new_label,
            clock_timestamp() + ttl_ms * interval '1 millisecond',
            coalesce(last.served, 0), told_at, ttl_ms, now_us);
    DELETE FROM "@schema@"."@table@_grants" g WHERE g.name = lock_name AND g.token = last.token;
    RETURN granted;
END
$$;

-- Grants the free lock to the first waiter that is alive. The waiter `me` is not granted anything: it is
-- only taken out of the queue. Returns the waiter's owner, or null if nobody waits (C27).
--
-- A waiter is alive that was seen lately, and whose listening session, if it has one, still holds the
-- advisory lock that stands for its channel. Anyone may see the keys of locks that are held, so a key
-- does not tell its channel. A pushed grant is short until its holder renews it (C28).
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_hand_over"(
    lock_name text, last "@schema@"."@table@_grants", me uuid, clock_limit bigint
) RETURNS uuid
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    waiter "@schema@"."@table@_queue";
BEGIN
    LOOP
        SELECT * INTO waiter FROM "@schema@"."@table@_queue" q
            WHERE q.name = lock_name AND q.place > coalesce(last.served, 0)
            ORDER BY q.place LIMIT 1;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        DELETE FROM "@schema@"."@table@_queue" q WHERE q.owner = waiter.owner;
        IF waiter.owner = me THEN
            RETURN me;
        END IF;
        last.served := waiter.place;
        IF waiter.seen_at > clock_timestamp() - interval '@waiter_liveness_ms@ milliseconds'
            AND (waiter.listener IS NULL OR NOT pg_try_advisory_xact_lock_shared(
                "@schema@"."@table@_v2_key"(
                    convert_to('leasehold_' || to_hex(waiter.listener), 'UTF8'))))
        THEN
            PERFORM "@schema@"."@table@_v2_grant"(
                lock_name, last, waiter.owner, least(waiter.ttl_ms, @unclaimed_grant_ttl_ms@),
                waiter.label, clock_limit, waiter.listener);
            RETURN waiter.owner;
        END IF;
    END LOOP;
END
$$;

-- Tells the waiter that was granted the lock. It is asked for after the commit of the grant: within, the
-- server would let no other transaction of the cluster that notifies commit at the same time. A message
-- that is lost so costs the waiter a poll.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_tell"(lock_name text) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_notify('leasehold_' || to_hex(g.listener), concat_ws(
        ':', replace(g.owner::text, '-', ''), g.token, g.short_ms, g.granted_us))
    FROM (SELECT * FROM "@schema@"."@table@_grants" t
        WHERE t.name = lock_name ORDER BY t.token DESC LIMIT 1) g
    WHERE g.listener IS NOT NULL AND g.owner IS NOT NULL
$$;

-- Tries to take the lock. `token` is null if it is busy; then the rest says what is known.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_acquire"(
    lock_name text, me uuid, ttl_ms bigint, my_label text, queues boolean, my_listener bigint,
    clock_limit bigint,
    OUT token bigint, OUT now_us bigint, OUT left_us bigint, OUT holder text, OUT ahead bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held "@schema@"."@table@_grants";
    winner uuid;
    my_place bigint;
BEGIN
    SELECT * INTO held FROM "@schema@"."@table@_grants" g
        WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1;
    IF queues AND held.owner <> me AND held.expires_at > clock_timestamp() THEN
        -- Held by another. A claim that has a place does not need the row.
        UPDATE "@schema@"."@table@_queue" q
            SET seen_at = clock_timestamp(), listener = my_listener
            WHERE q.owner = me AND q.place > held.served RETURNING q.place INTO my_place;
    END IF;
    IF my_place IS NULL AND (queues OR held.owner IS NULL OR held.owner = me
        OR held.expires_at <= clock_timestamp())
    THEN
        PERFORM "@schema@"."@table@_v2_enter"(lock_name);
        -- C19: a withdrawal marks its claim with the row locked. So the mark is there now, or the
        -- withdrawal comes later, and finds the grant.
        IF EXISTS (SELECT FROM "@schema@"."@table@_withdrawn" w WHERE w.owner = me) THEN
            RAISE EXCEPTION USING ERRCODE = 'LH001', MESSAGE = 'the claim was withdrawn';
        END IF;
        -- Its row as well, so that an extension under way is waited for.
        SELECT * INTO held FROM "@schema@"."@table@_grants" g
            WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1 FOR UPDATE;
        IF held.owner = me AND held.expires_at > clock_timestamp() THEN
            now_us := "@schema@"."@table@_v2_now_us"();
            PERFORM "@schema@"."@table@_v2_durably"();
            UPDATE "@schema@"."@table@_grants" g
                SET expires_at = greatest(
                    g.expires_at, clock_timestamp() + ttl_ms * interval '1 millisecond')
                WHERE g.name = lock_name AND g.token = held.token;
            token := held.token;
            RETURN;
        END IF;
        IF held.owner IS NULL OR held.expires_at <= clock_timestamp() THEN
            winner := "@schema@"."@table@_v2_hand_over"(lock_name, held, me, clock_limit);
            IF winner IS NULL OR winner = me THEN
                now_us := "@schema@"."@table@_v2_now_us"();
                token := "@schema@"."@table@_v2_grant"(
                    lock_name, held, me, ttl_ms, my_label, clock_limit);
                RETURN;
            END IF;
            PERFORM "@schema@"."@table@_v2_tell"(lock_name);
            SELECT * INTO held FROM "@schema@"."@table@_grants" g
                WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1;
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
    now_us := "@schema@"."@table@_v2_now_us"();
    left_us := greatest(
        0, (extract(epoch FROM held.expires_at - clock_timestamp()) * 1000000)::bigint);
    holder := held.label;
    IF my_place IS NOT NULL THEN
        SELECT count(*) INTO ahead FROM "@schema@"."@table@_queue" q
            WHERE q.name = lock_name AND q.place > held.served AND q.place < my_place;
    END IF;
END
$$;

-- Answers for each hold 1 if it lasts that long from now, or 0 if it is over. It never shortens a hold.
-- Rows are taken in the order of their names, so that batches do not wait for each other in a circle.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_extend"(
    names text[], owners uuid[], tokens bigint[], ttls_ms bigint[]
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answers text[] := array_fill('0'::text, ARRAY[cardinality(names)]);
    i bigint;
BEGIN
    PERFORM "@schema@"."@table@_v2_durably"();
    FOR i IN SELECT a.n FROM unnest(names) WITH ORDINALITY AS a(name, n)
        ORDER BY a.name COLLATE "C"
    LOOP
        UPDATE "@schema@"."@table@_grants" g
            SET expires_at = greatest(
                g.expires_at, clock_timestamp() + ttls_ms[i] * interval '1 millisecond')
            WHERE g.name = names[i] AND g.token = tokens[i] AND g.owner = owners[i]
                AND g.expires_at > clock_timestamp();
        IF FOUND THEN
            answers[i] := '1';
        END IF;
    END LOOP;
    RETURN array_to_string(answers, '');
END
$$;

-- Ends the hold of `me` and hands the lock over. `released` says whether it was held, `tells` whether a waiter
-- is to be told of its grant, once this is committed.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_release"(
    lock_name text, me uuid, clock_limit bigint, OUT released boolean, OUT tells boolean
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held "@schema@"."@table@_grants";
    winner uuid;
BEGIN
    tells := false;
    PERFORM FROM "@schema@"."@table@" l WHERE l.name = lock_name FOR UPDATE;
    SELECT * INTO held FROM "@schema@"."@table@_grants" g
        WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1 FOR UPDATE;
    released := coalesce(held.owner = me AND held.expires_at > clock_timestamp(), false);
    IF NOT released THEN
        RETURN;
    END IF;
    -- The row is locked, and only now the queue is looked at. A waiter that came before is seen, and one
    -- that comes after finds the lock free. If the clock cannot be trusted with a token, nothing is handed
    -- over: the waiters find the lock free.
    IF "@schema@"."@table@_v2_now_us"() <= clock_limit THEN
        winner := "@schema@"."@table@_v2_hand_over"(lock_name, held, NULL, clock_limit);
    END IF;
    tells := winner IS NOT NULL;
    IF winner IS NULL THEN
        -- Nobody counts on it: if a crash forgets it, the lock is held until its TTL. So the commit does not
        -- wait for the disk.
        UPDATE "@schema@"."@table@_grants" g
            SET owner = NULL, label = '', expires_at = '-infinity', listener = NULL
            WHERE g.name = lock_name AND g.token = held.token;
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
END
$$;

-- C19: takes back a grant and a place in the queue, and lets a request that is still on its way be
-- refused.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_withdraw"(
    lock_name text, me uuid, clock_limit bigint
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ended record;
BEGIN
    PERFORM "@schema@"."@table@_v2_enter"(lock_name);
    INSERT INTO "@schema@"."@table@_withdrawn" (owner, forget_at)
        VALUES (me, clock_timestamp() + interval '@withdrawal_remembered_ms@ milliseconds')
        ON CONFLICT (owner) DO UPDATE SET forget_at = excluded.forget_at;
    DELETE FROM "@schema@"."@table@_queue" q WHERE q.owner = me;
    SELECT * INTO ended FROM "@schema@"."@table@_v2_release"(lock_name, me, clock_limit);
    IF ended.tells THEN
        PERFORM "@schema@"."@table@_v2_tell"(lock_name);
    END IF;
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
    RETURN ended.released;
END
$$;

-- Forgets some locks that nobody has used for a week. Their next tokens start from the time, which is
-- greater than a token of a week ago. A token that is ahead of the clock is kept.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_forget"() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    unused text;
    forgotten bigint := 0;
BEGIN
    FOR unused IN SELECT l.name FROM "@schema@"."@table@" l WHERE NOT EXISTS (
            SELECT FROM "@schema@"."@table@_grants" g WHERE g.name = l.name AND (
                g.token > "@schema@"."@table@_v2_now_us"() - 7 * 86400000000
                OR (g.owner IS NOT NULL AND g.expires_at > clock_timestamp())))
        AND NOT EXISTS (SELECT FROM "@schema@"."@table@_queue" q WHERE q.name = l.name)
        LIMIT 1000 FOR UPDATE OF l SKIP LOCKED
    LOOP
        -- With the row locked it is looked at once more: somebody may just have been here.
        DELETE FROM "@schema@"."@table@_grants" g WHERE g.name = unused AND NOT (
            g.token > "@schema@"."@table@_v2_now_us"() - 7 * 86400000000
            OR (g.owner IS NOT NULL AND g.expires_at > clock_timestamp()));
        DELETE FROM "@schema@"."@table@" l WHERE l.name = unused AND NOT EXISTS (
            SELECT FROM "@schema@"."@table@_grants" g WHERE g.name = unused);
        forgotten := forgotten + 1;
    END LOOP;
    RETURN forgotten;
END
$$;

-- The locks that are held and whose names start with `prefix`, or the one lock called `prefix`. No more
-- than 8 digits of an owner are told.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_list"(
    prefix text, whole boolean, at_most bigint,
    OUT name text, OUT owner text, OUT token bigint, OUT left_us bigint, OUT label text,
    OUT waiters bigint
) RETURNS SETOF record
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT l.name, left(h.owner::text, 8), l.token,
        (extract(epoch FROM h.expires_at - clock_timestamp()) * 1000000)::bigint, l.label,
        (SELECT count(*) FROM "@schema@"."@table@_queue" q
            WHERE q.name = l.name AND q.place > l.served
            AND q.seen_at > clock_timestamp() - interval '@waiter_liveness_ms@ milliseconds')
    FROM "@schema@"."@table@_grants" l
    LEFT JOIN LATERAL (SELECT l.owner, l.expires_at
        WHERE l.owner IS NOT NULL AND l.expires_at > clock_timestamp()) h ON true
    WHERE CASE WHEN whole THEN l.name = prefix
        ELSE h.owner IS NOT NULL AND starts_with(l.name, prefix) END
    ORDER BY l.name LIMIT at_most
$$;

-- Ends the hold of any owner and hands the lock over. Returns no row if nobody held the lock.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_evict"(
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
    SELECT g.owner INTO held_by FROM "@schema@"."@table@_grants" g
        WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1;
    FOR name, owner, token, left_us, label, waiters IN
        SELECT * FROM "@schema@"."@table@_v2_list"(lock_name, true, 1) s WHERE s.owner IS NOT NULL
    LOOP
        PERFORM "@schema@"."@table@_v2_release"(lock_name, held_by, clock_limit);
        PERFORM "@schema@"."@table@_v2_tell"(lock_name);
        RETURN NEXT;
    END LOOP;
END
$$;
