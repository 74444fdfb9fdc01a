-- The functions of the mode in which locks are rows of tables.
--
-- Each of them is as few statements as can be, and what is common stands first: a statement costs a few
-- microseconds, and a call of another function more. Where each statement has an index,
-- `enable_seqscan = off` lets it go by that: the server counts live rows alone, and so takes tables for small
-- that hold many dead ones beside a long transaction. Where a statement has none it would be compiled first.

-- Makes sure that the lock has a row, and locks it.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_enter"(lock_name text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
BEGIN
    LOOP
        PERFORM FROM "@schema@"."@table@" l WHERE l.name = lock_name FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO "@schema@"."@table@" (name) VALUES (lock_name) ON CONFLICT DO NOTHING;
    END LOOP;
END
$$;

-- Grants the lock, whose newest grant is `last`, and returns the new token: one more than the last that was
-- granted or reserved, or the time in microseconds, whichever is greater (C22). While the clock is ahead of the last token, the token is
-- therefore the time of the grant (C45).
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_grant"(
    lock_name text, last "@schema@"."@table@_grants", new_owner uuid, ttl_ms bigint,
    new_label text, clock_limit bigint
) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    now_us bigint := extract(epoch FROM clock_timestamp()) * 1000000;
    granted bigint := greatest(coalesce(last.token + last.reserved, 0) + 1, now_us);
BEGIN
    IF now_us > clock_limit THEN
        RAISE EXCEPTION USING ERRCODE = 'LH002',
            MESSAGE = 'the clock of the server is more than a day ahead of the client';
    END IF;
    -- A grant is on disk before it is told, whatever the session's default is.
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    -- The key changes with the token, so that the newest grant stands apart from its old versions.
    UPDATE "@schema@"."@table@_grants" g
        SET token = granted, reserved = 0, owner = new_owner, label = new_label, served = last.served,
            expires_at = clock_timestamp() + ttl_ms * interval '1 millisecond'
        WHERE g.name = lock_name AND g.token = last.token;
    IF NOT FOUND THEN
        INSERT INTO "@schema@"."@table@_grants" (name, token, owner, label, expires_at)
            VALUES (lock_name, granted, new_owner, new_label,
                clock_timestamp() + ttl_ms * interval '1 millisecond');
    END IF;
    RETURN granted;
END
$$;

-- The key of the advisory lock that stands for a channel. Anyone may see which keys are held, so the key is a
-- hash, which does not tell the channel.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_listener_key"(listener bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ('x' || encode(substr(
        sha256(convert_to('leasehold_' || to_hex(listener), 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint;
END
$$;

-- Grants the free lock to the first waiter that is alive (C27). `winner` is null if there is none. The waiter
-- `me` is not granted anything: it is only taken out of the queue. `message` is for the `channel` of the
-- winner's client, if it listens, once the grant is committed: a message within the commit would let no other transaction of
-- the cluster that notifies commit at the same time. A message that is lost so costs the waiter a poll.
--
-- A waiter is alive that was seen lately, and whose session, if it has one, still holds the advisory lock that
-- stands for its channel.
-- C28: a waiter whose session is gone is passed over. It keeps its place until it was not seen for too long,
-- since its client may only have lost a connection. A pushed grant is short until its holder renews it.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_hand_over"(
    lock_name text, INOUT last "@schema@"."@table@_grants", me uuid, clock_limit bigint,
    OUT winner uuid, OUT channel text, OUT message text
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    waiter "@schema@"."@table@_queue";
    looked_at bigint := coalesce(last.served, 0);
    passed_over bigint;
    ttl_ms bigint;
    now_us bigint;
BEGIN
    LOOP
        SELECT * INTO waiter FROM "@schema@"."@table@_queue" q
            WHERE q.name = lock_name AND q.place > looked_at ORDER BY q.place LIMIT 1;
        EXIT WHEN NOT FOUND;
        looked_at := waiter.place;
        IF waiter.owner IS DISTINCT FROM me AND waiter.listener IS NOT NULL
            AND waiter.seen_at > clock_timestamp() - interval '@waiter_liveness_ms@ milliseconds'
            AND pg_try_advisory_xact_lock_shared(
                "@schema@"."@table@_v2_listener_key"(waiter.listener))
        THEN
            passed_over := coalesce(passed_over, looked_at);
            CONTINUE;
        END IF;
        DELETE FROM "@schema@"."@table@_queue" q WHERE q.owner = waiter.owner;
        last.served := coalesce(passed_over - 1, looked_at);
        IF waiter.owner = me THEN
            winner := me;
            RETURN;
        END IF;
        IF waiter.seen_at > clock_timestamp() - interval '@waiter_liveness_ms@ milliseconds' THEN
            winner := waiter.owner;
            ttl_ms := least(waiter.ttl_ms, @unclaimed_grant_ttl_ms@);
            now_us := extract(epoch FROM clock_timestamp()) * 1000000;
            last.token := "@schema@"."@table@_v2_grant"(
                lock_name, last, winner, ttl_ms, waiter.label, clock_limit);
            IF waiter.listener IS NOT NULL THEN
                channel := 'leasehold_' || to_hex(waiter.listener);
                message := concat_ws(
                    ':', replace(winner::text, '-', ''), last.token, ttl_ms, now_us);
            END IF;
            RETURN;
        END IF;
    END LOOP;
END
$$;

-- Tries to take the lock. `token` is null if it is busy; then the rest says what is known.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_acquire"(
    lock_name text, me uuid, ttl_ms bigint, my_label text, queues boolean, my_listener bigint,
    clock_limit bigint,
    OUT token bigint, OUT now_us bigint, OUT left_us bigint, OUT holder text, OUT ahead bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    held "@schema@"."@table@_grants";
    turn record;
    winner uuid;
    my_place bigint;
BEGIN
    IF queues THEN
        SELECT * INTO held FROM "@schema@"."@table@_grants" g
            WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1;
        IF held.owner <> me AND held.expires_at > clock_timestamp() THEN
            -- Held by another. A claim that has a place does not need the row.
            UPDATE "@schema@"."@table@_queue" q
                SET seen_at = clock_timestamp(), listener = my_listener
                WHERE q.owner = me AND q.place > held.served RETURNING q.place INTO my_place;
        END IF;
    END IF;
    IF my_place IS NULL THEN
        PERFORM FROM "@schema@"."@table@" l WHERE l.name = lock_name FOR UPDATE;
        IF NOT FOUND THEN
            PERFORM "@schema@"."@table@_v2_enter"(lock_name);
        END IF;
        -- C19: a withdrawal marks its claim with the row locked. So the mark is there now, or the
        -- withdrawal comes later, and finds the grant.
        IF EXISTS (SELECT FROM "@schema@"."@table@_withdrawn" w WHERE w.owner = me) THEN
            RAISE EXCEPTION USING ERRCODE = 'LH001', MESSAGE = 'the claim was withdrawn';
        END IF;
        SELECT * INTO held FROM "@schema@"."@table@_grants" g
            WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1;
        IF held.owner = me OR held.expires_at <= clock_timestamp() THEN
            -- Its row as well, so that an extension under way is waited for. A lock that was released has
            -- none.
            IF held.owner IS NOT NULL THEN
                SELECT * INTO held FROM "@schema@"."@table@_grants" g
                    WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1 FOR UPDATE;
            END IF;
            IF held.owner = me AND held.expires_at > clock_timestamp() THEN
                now_us := extract(epoch FROM clock_timestamp()) * 1000000;
                IF current_setting('synchronous_commit') = 'off' THEN
                    PERFORM set_config('synchronous_commit', 'on', true);
                END IF;
                UPDATE "@schema@"."@table@_grants" g
                    SET expires_at = greatest(
                        g.expires_at, clock_timestamp() + ttl_ms * interval '1 millisecond')
                    WHERE g.name = lock_name AND g.token = held.token;
                token := held.token;
                RETURN;
            END IF;
        END IF;
        IF held.owner IS NULL OR held.expires_at <= clock_timestamp() THEN
            IF EXISTS (SELECT FROM "@schema@"."@table@_queue" q
                WHERE q.name = lock_name AND q.place > coalesce(held.served, 0))
            THEN
                SELECT * INTO turn
                    FROM "@schema@"."@table@_v2_hand_over"(lock_name, held, me, clock_limit);
                held := turn.last;
                winner := turn.winner;
            END IF;
            IF winner IS NULL OR winner = me THEN
                now_us := extract(epoch FROM clock_timestamp()) * 1000000;
                token := "@schema@"."@table@_v2_grant"(
                    lock_name, held, me, ttl_ms, my_label, clock_limit);
                RETURN;
            END IF;
            PERFORM pg_notify(turn.channel, turn.message) WHERE turn.message IS NOT NULL;
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

-- Answers for each hold 1 if it lasts that long from now, or 0 if it is over. It never shortens a hold.
-- Rows are taken in the order of their names, so that batches do not wait for each other in a circle.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_extend"(
    names text[], owners uuid[], tokens bigint[], ttls_ms bigint[]
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    answers text[] := array_fill('0'::text, ARRAY[cardinality(names)]);
    i bigint;
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
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

-- Reserves tokens for the hold of `me`, from `first` on: as many as are wanted, but none that is ahead of the clock.
-- `more` is 0 if there is none, if the hold is over, or if it yields to those who wait.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_reserve"(
    lock_name text, me uuid, wanted bigint, yields boolean,
    OUT first bigint, OUT more bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    held "@schema@"."@table@_grants";
    now_us bigint;
BEGIN
    more := 0;
    PERFORM FROM "@schema@"."@table@" l WHERE l.name = lock_name FOR UPDATE;
    SELECT * INTO held FROM "@schema@"."@table@_grants" g
        WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1 FOR UPDATE;
    first := held.token + held.reserved + 1;
    now_us := extract(epoch FROM clock_timestamp()) * 1000000;
    IF held.owner = me AND held.expires_at > clock_timestamp() AND first <= now_us
        AND NOT (yields AND EXISTS (SELECT FROM "@schema@"."@table@_queue" q
            WHERE q.name = lock_name AND q.place > held.served))
    THEN
        -- C22: the time stays ahead of them, and they are on disk before they are told.
        more := least(wanted, now_us - first + 1);
        IF current_setting('synchronous_commit') = 'off' THEN
            PERFORM set_config('synchronous_commit', 'on', true);
        END IF;
        UPDATE "@schema@"."@table@_grants" g SET reserved = first + more - 1 - held.token
            WHERE g.name = lock_name AND g.token = held.token;
    END IF;
END
$$;

-- Ends the hold of `me` and hands the lock over. `released` says whether it was held. If there is a `message`,
-- the waiter that was granted the lock is to be told it on its `channel`, once this is committed.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_release"(
    lock_name text, me uuid, clock_limit bigint,
    OUT released boolean, OUT channel text, OUT message text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    held "@schema@"."@table@_grants";
    turn record;
BEGIN
    PERFORM FROM "@schema@"."@table@" l WHERE l.name = lock_name FOR UPDATE;
    -- The row is locked, and only now the queue is looked at. A waiter that came before is seen, and one
    -- that comes after finds the lock free.
    SELECT * INTO held FROM "@schema@"."@table@_grants" g
        WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1 FOR UPDATE;
    released := coalesce(held.owner = me AND held.expires_at > clock_timestamp(), false);
    IF NOT released THEN
        RETURN;
    END IF;
    -- If the clock cannot be trusted with a token, nothing is handed over: the waiters find the lock free.
    IF EXISTS (SELECT FROM "@schema@"."@table@_queue" q
        WHERE q.name = lock_name AND q.place > held.served)
        AND extract(epoch FROM clock_timestamp()) * 1000000 <= clock_limit
    THEN
        SELECT * INTO turn
            FROM "@schema@"."@table@_v2_hand_over"(lock_name, held, NULL, clock_limit);
        IF turn.winner IS NOT NULL THEN
            channel := turn.channel;
            message := turn.message;
            RETURN;
        END IF;
    END IF;
    -- Nobody counts on it: if a crash forgets it, the lock is held until its TTL. So the commit does not wait
    -- for the disk.
    UPDATE "@schema@"."@table@_grants" g
        SET owner = NULL, label = '', expires_at = '-infinity'
        WHERE g.name = lock_name AND g.token = held.token;
    PERFORM set_config('synchronous_commit', 'off', true);
END
$$;

-- Ends a hold, and tells the next holder once that is committed, by one request. It may commit because it has
-- no rights of its own, nor settings: whoever calls it needs those of `release`.
CREATE OR REPLACE PROCEDURE "@schema@"."@table@_v2_release_and_tell"(
    lock_name text, me uuid, clock_limit bigint, INOUT released boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    ended pg_catalog.record;
BEGIN
    SELECT * INTO ended FROM "@schema@"."@table@_v2_release"(lock_name, me, clock_limit);
    released := ended.released;
    IF ended.message IS NOT NULL THEN
        COMMIT;
        PERFORM pg_catalog.pg_notify(ended.channel, ended.message);
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
    PERFORM pg_notify(ended.channel, ended.message) WHERE ended.message IS NOT NULL;
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
        PERFORM pg_notify(r.channel, r.message)
            FROM "@schema@"."@table@_v2_release"(lock_name, held_by, clock_limit) r
            WHERE r.message IS NOT NULL;
        RETURN NEXT;
    END LOOP;
END
$$;
