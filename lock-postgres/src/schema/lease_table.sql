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

-- Grants the lock, whose newest grant is `last`, until then, and returns the new token: one more than the last
-- that was granted or reserved, or the time in microseconds, whichever is greater (C22). While the clock is
-- ahead of the last token, the token is therefore the time of the grant (C45).
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_grant"(
    lock_name text, last "@schema@"."@table@_grants", new_owner uuid, until timestamptz,
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
            expires_at = until, permits = last.permits, oldest = last.oldest
        WHERE g.name = lock_name AND g.token = last.token;
    IF NOT FOUND THEN
        INSERT INTO "@schema@"."@table@_grants"
            (name, token, owner, label, expires_at, permits, oldest)
            VALUES (lock_name, granted, new_owner, new_label, until, last.permits, last.oldest);
    END IF;
    RETURN granted;
END
$$;

-- C33: grants the lock beside those who hold it, if anybody does.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_grant_beside"(
    lock_name text, INOUT last "@schema@"."@table@_grants", new_owner uuid, ttl_ms bigint,
    new_label text, new_permits bigint, new_slots bigint[], clock_limit bigint
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    until timestamptz := clock_timestamp() + ttl_ms * interval '1 millisecond';
BEGIN
    IF last.owner IS NULL THEN
        last.owner := '00000000-0000-0000-0000-000000000000';
        last.permits := new_permits;
        last.oldest := coalesce(last.token + last.reserved, 0) + 1;
        last.label := new_label;
        last.expires_at := until;
    END IF;
    last.expires_at := least(last.expires_at, until);
    last.token := "@schema@"."@table@_v2_grant"(
        lock_name, last, last.owner, last.expires_at, last.label, clock_limit);
    last.reserved := 0;
    INSERT INTO "@schema@"."@table@_holders" (owner, name, token, slots, label, expires_at)
        VALUES (new_owner, lock_name, last.token, new_slots, new_label, until);
END
$$;

-- Takes out those whose time is over, of those who hold the lock beside each other. It is free if nobody is left.
-- An extension under way is waited for.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_expire"(
    lock_name text, INOUT last "@schema@"."@table@_grants"
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
BEGIN
    DELETE FROM "@schema@"."@table@_holders" h
        WHERE h.name = lock_name AND h.token >= last.oldest AND h.expires_at <= clock_timestamp();
    SELECT min(h.token), min(h.expires_at), (array_agg(h.label ORDER BY h.token))[1]
        INTO last.oldest, last.expires_at, last.label
        FROM "@schema@"."@table@_holders" h
        WHERE h.name = lock_name AND h.token >= last.oldest;
    IF last.oldest IS NULL THEN
        last.owner := NULL;
        last.permits := NULL;
        last.label := '';
        last.expires_at := '-infinity';
    END IF;
    UPDATE "@schema@"."@table@_grants" g
        SET owner = last.owner, permits = last.permits, oldest = last.oldest, label = last.label,
            expires_at = last.expires_at
        WHERE g.name = lock_name AND g.token = last.token;
END
$$;

-- The slots of a request that fits beside those who hold the lock, if anybody does; null if it does not fit
-- (C33). One of n has the lowest slots that are free (C36), any other none.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_slots"(
    lock_name text, last "@schema@"."@table@_grants", permits bigint, taken bigint
) RETURNS bigint[]
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    lowest bigint[];
BEGIN
    IF last.owner IS NOT NULL AND (permits IS NULL OR last.permits IS DISTINCT FROM permits) THEN
        RETURN NULL;
    END IF;
    SELECT coalesce(array_agg(free.slot ORDER BY free.slot), '{}') INTO lowest FROM (
        SELECT s.slot FROM generate_series(0, permits - 1) s (slot)
        EXCEPT SELECT unnest(h.slots) FROM "@schema@"."@table@_holders" h
            WHERE h.name = lock_name AND h.token >= last.oldest
        ORDER BY slot LIMIT taken) free;
    RETURN CASE WHEN cardinality(lowest) = taken THEN lowest END;
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

-- Grants the lock to the first waiter that is alive (C27), and to all who follow and fit beside it and those
-- who hold the lock beside each other (C34). An exclusive hold is over, or about to be. `winners` is null if
-- there is none, and `is_blocked` says whether one that is alive waits on. `messages` are for the `channels` of
-- the winners' clients that listen, once the grants are committed: a message within the commit would let no
-- other transaction of the cluster that notifies commit at the same time. A message that is lost so costs the
-- waiter a poll. The waiter `me`, who asks, is told nothing, and is granted its whole TTL.
--
-- A waiter is alive that was seen lately, and whose session, if it has one, still holds the advisory lock that
-- stands for its channel.
-- C28: a waiter whose session is gone is passed over. It keeps its place until it was not seen for too long,
-- since its client may only have lost a connection. A pushed grant is short until its holder renews it.
-- C33: a waiter for another number of permits than the lock has is taken out. It learns why when it looks.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_hand_over"(
    lock_name text, INOUT last "@schema@"."@table@_grants", me uuid, clock_limit bigint,
    OUT winners uuid[], OUT is_blocked boolean, OUT channels text[], OUT messages text[]
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    waiter "@schema@"."@table@_queue";
    looked_at bigint := coalesce(last.served, 0);
    passed_over bigint;
    is_alive boolean;
    slots bigint[];
    ttl_ms bigint;
    now_us bigint;
BEGIN
    is_blocked := false;
    IF last.permits IS NULL THEN
        last.owner := NULL;
    END IF;
    LOOP
        SELECT * INTO waiter FROM "@schema@"."@table@_queue" q
            WHERE q.name = lock_name AND q.place > looked_at ORDER BY q.place LIMIT 1;
        EXIT WHEN NOT FOUND;
        looked_at := waiter.place;
        is_alive := waiter.owner IS NOT DISTINCT FROM me
            OR waiter.seen_at > clock_timestamp() - interval '@waiter_liveness_ms@ milliseconds';
        IF waiter.owner IS DISTINCT FROM me AND is_alive AND waiter.listener IS NOT NULL
            AND pg_try_advisory_xact_lock_shared(
                "@schema@"."@table@_v2_listener_key"(waiter.listener))
        THEN
            passed_over := coalesce(passed_over, looked_at);
            CONTINUE;
        END IF;
        slots := CASE
            WHEN waiter.permits IS NOT NULL THEN "@schema@"."@table@_v2_slots"(
                lock_name, last, waiter.permits, waiter.taken)
            WHEN last.owner IS NULL THEN '{}' END;
        IF slots IS NULL AND is_alive AND NOT coalesce(
            least(last.permits, waiter.permits) > 0 AND last.permits <> waiter.permits, false)
        THEN
            is_blocked := true;
            RETURN;
        END IF;
        DELETE FROM "@schema@"."@table@_queue" q WHERE q.owner = waiter.owner;
        last.served := coalesce(passed_over - 1, looked_at);
        CONTINUE WHEN NOT is_alive OR slots IS NULL;
        winners := winners || waiter.owner;
        ttl_ms := CASE WHEN waiter.owner IS DISTINCT FROM me
            THEN least(waiter.ttl_ms, @unclaimed_grant_ttl_ms@) ELSE waiter.ttl_ms END;
        now_us := extract(epoch FROM clock_timestamp()) * 1000000;
        IF waiter.permits IS NULL THEN
            last.owner := waiter.owner;
            last.token := "@schema@"."@table@_v2_grant"(
                lock_name, last, waiter.owner,
                clock_timestamp() + ttl_ms * interval '1 millisecond', waiter.label, clock_limit);
        ELSE
            last := "@schema@"."@table@_v2_grant_beside"(
                lock_name, last, waiter.owner, ttl_ms, waiter.label, waiter.permits, slots,
                clock_limit);
        END IF;
        IF waiter.owner IS DISTINCT FROM me AND waiter.listener IS NOT NULL THEN
            channels := channels || ('leasehold_' || to_hex(waiter.listener));
            messages := messages || concat_ws(
                ':', replace(waiter.owner::text, '-', ''), last.token, ttl_ms, now_us,
                nullif(array_to_string(slots, ','), ''));
        END IF;
        EXIT WHEN waiter.permits IS NULL;
    END LOOP;
END
$$;

-- Tries to take the lock for an exclusive hold. `token` is null if it is busy; then the rest says what is known.
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
    winners uuid[];
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
        IF held.owner IS NULL THEN
            -- The common case is one statement: it was released, nobody waits, and nothing is against a grant. All
            -- else goes on below.
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
            now_us := extract(epoch FROM clock_timestamp()) * 1000000;
            IF held.permits IS NOT NULL THEN
                held := "@schema@"."@table@_v2_expire"(lock_name, held);
            END IF;
            IF EXISTS (SELECT FROM "@schema@"."@table@_queue" q
                WHERE q.name = lock_name AND q.place > coalesce(held.served, 0))
            THEN
                SELECT * INTO turn
                    FROM "@schema@"."@table@_v2_hand_over"(lock_name, held, me, clock_limit);
                held := turn.last;
                winners := turn.winners;
            END IF;
            IF winners IS NULL AND held.permits IS NULL THEN
                token := "@schema@"."@table@_v2_grant"(
                    lock_name, held, me, clock_timestamp() + ttl_ms * interval '1 millisecond',
                    my_label, clock_limit);
                RETURN;
            END IF;
            IF held.owner = me THEN
                token := held.token;
                RETURN;
            END IF;
            IF winners IS NOT NULL THEN
                PERFORM pg_notify(t.channel, t.message)
                    FROM unnest(turn.channels, turn.messages) t (channel, message);
                SELECT * INTO held FROM "@schema@"."@table@_grants" g
                    WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1;
            END IF;
        END IF;
        IF queues THEN
            IF winners IS NULL THEN
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

-- Takes the lock for a shared hold (`my_permits` is 0), or for one of n, of which `wanted` are asked for, if it
-- fits and nobody waits before. `lets_in` says whether others were granted the lock, and `conflict` is the
-- number of permits that the lock has if it has another number.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_take_beside"(
    lock_name text, me uuid, ttl_ms bigint, my_label text, my_permits bigint, wanted bigint,
    clock_limit bigint,
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
    now_us := extract(epoch FROM clock_timestamp()) * 1000000;
    IF held.permits IS NULL THEN
        IF held.expires_at <= clock_timestamp() THEN
            held.owner := NULL;
        END IF;
    ELSE
        -- C16: its own hold, with the same slots.
        UPDATE "@schema@"."@table@_holders" h
            SET expires_at = greatest(
                h.expires_at, clock_timestamp() + ttl_ms * interval '1 millisecond')
            WHERE h.owner = me AND h.name = lock_name AND h.expires_at > clock_timestamp()
            RETURNING h.token, h.slots INTO token, slots;
        IF FOUND THEN
            PERFORM "@schema@"."@table@_v2_durably"();
            RETURN;
        END IF;
        IF held.expires_at <= clock_timestamp() THEN
            held := "@schema@"."@table@_v2_expire"(lock_name, held);
        END IF;
    END IF;
    -- Those who wait go first. One of them may have come back to its place, or be gone from it, since the last
    -- release.
    IF (held.owner IS NULL OR held.permits IS NOT NULL) AND EXISTS (
        SELECT FROM "@schema@"."@table@_queue" q
        WHERE q.name = lock_name AND q.place > coalesce(held.served, 0))
    THEN
        SELECT * INTO turn
            FROM "@schema@"."@table@_v2_hand_over"(lock_name, held, me, clock_limit);
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
        slots := "@schema@"."@table@_v2_slots"(lock_name, held, my_permits, wanted);
        IF slots IS NOT NULL THEN
            held := "@schema@"."@table@_v2_grant_beside"(
                lock_name, held, me, ttl_ms, my_label, my_permits, slots, clock_limit);
            token := held.token;
        END IF;
    END IF;
END
$$;

-- Tries to take the lock for a hold of another kind than exclusive. It answers as `acquire` does, and beside the
-- token which `slots` the hold has; neither if there is a `conflict`, as with `take_beside` (C33).
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_acquire_beside"(
    lock_name text, me uuid, ttl_ms bigint, my_label text, my_permits bigint, wanted bigint,
    queues boolean, my_listener bigint, clock_limit bigint,
    OUT token bigint, OUT now_us bigint, OUT left_us bigint, OUT holder text, OUT ahead bigint,
    OUT slots bigint[], OUT conflict bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    held "@schema@"."@table@_grants";
    tried record;
    my_place bigint;
BEGIN
    IF queues THEN
        SELECT * INTO held FROM "@schema@"."@table@_grants" g
            WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1;
        IF held.permits IS NULL AND held.expires_at > clock_timestamp() THEN
            -- Held exclusively. A claim that has a place does not need the row.
            UPDATE "@schema@"."@table@_queue" q
                SET seen_at = clock_timestamp(), listener = my_listener
                WHERE q.owner = me AND q.place > held.served RETURNING q.place INTO my_place;
        END IF;
    END IF;
    IF my_place IS NULL THEN
        PERFORM "@schema@"."@table@_v2_enter"(lock_name);
        -- C19: as in `acquire`.
        IF EXISTS (SELECT FROM "@schema@"."@table@_withdrawn" w WHERE w.owner = me) THEN
            RAISE EXCEPTION USING ERRCODE = 'LH001', MESSAGE = 'the claim was withdrawn';
        END IF;
        SELECT * INTO tried FROM "@schema@"."@table@_v2_take_beside"(
            lock_name, me, ttl_ms, my_label, my_permits, wanted, clock_limit);
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
                (owner, name, ttl_ms, label, listener, seen_at, permits, taken)
                VALUES (me, lock_name, ttl_ms, my_label, my_listener, clock_timestamp(),
                    my_permits, wanted)
                ON CONFLICT (owner) DO UPDATE
                SET seen_at = excluded.seen_at, listener = excluded.listener
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
        ORDER BY a.name COLLATE "C", tokens[a.n]
    LOOP
        UPDATE "@schema@"."@table@_grants" g
            SET expires_at = greatest(
                g.expires_at, clock_timestamp() + ttls_ms[i] * interval '1 millisecond')
            WHERE g.name = names[i] AND g.token = tokens[i] AND g.owner = owners[i]
                AND g.expires_at > clock_timestamp();
        IF NOT FOUND THEN
            UPDATE "@schema@"."@table@_holders" h
                SET expires_at = greatest(
                    h.expires_at, clock_timestamp() + ttls_ms[i] * interval '1 millisecond')
                WHERE h.owner = owners[i] AND h.name = names[i] AND h.token = tokens[i]
                    AND h.expires_at > clock_timestamp();
        END IF;
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

-- Ends the hold of `me`, of those who hold the lock beside each other (C38). `released` says whether it was held, and
-- `last` what is left.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_leave"(
    lock_name text, INOUT last "@schema@"."@table@_grants", me uuid, OUT released boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
BEGIN
    DELETE FROM "@schema@"."@table@_holders" h WHERE h.owner = me AND h.name = lock_name
        RETURNING h.expires_at > clock_timestamp() INTO released;
    released := coalesce(released, false);
    last := "@schema@"."@table@_v2_expire"(lock_name, last);
END
$$;

-- Ends the hold of `me` and hands the lock over, to all who fit then (C34). `released` says whether it was held. If
-- there are `messages`, the waiters that were granted the lock are to be told them on their `channels`, once this is
-- committed.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_release"(
    lock_name text, me uuid, clock_limit bigint,
    OUT released boolean, OUT channels text[], OUT messages text[]
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    held "@schema@"."@table@_grants";
    turn record;
    commit_waits text;
BEGIN
    PERFORM FROM "@schema@"."@table@" l WHERE l.name = lock_name FOR UPDATE;
    -- The row is locked, and only now the queue is looked at. A waiter that came before is seen, and one
    -- that comes after finds the lock free.
    --
    -- The common case is one statement: an exclusive hold, for which nobody waits. Nobody counts on it: if a crash
    -- forgets it, the lock is held until its TTL. So the commit does not wait for the disk.
    UPDATE "@schema@"."@table@_grants" g
        SET owner = NULL, label = '', expires_at = '-infinity'
        WHERE g.name = lock_name AND g.token = (
            SELECT t.token FROM "@schema@"."@table@_grants" t
            WHERE t.name = lock_name ORDER BY t.token DESC LIMIT 1)
        AND g.owner = me AND g.expires_at > clock_timestamp()
        AND NOT EXISTS (SELECT FROM "@schema@"."@table@_queue" q
            WHERE q.name = lock_name AND q.place > g.served);
    IF FOUND THEN
        released := true;
        commit_waits := set_config('synchronous_commit', 'off', true);
        RETURN;
    END IF;
    SELECT * INTO held FROM "@schema@"."@table@_grants" g
        WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1 FOR UPDATE;
    released := coalesce(held.owner = me AND held.expires_at > clock_timestamp(), false);
    IF NOT released THEN
        IF held.permits IS NULL THEN
            RETURN;
        END IF;
        SELECT * INTO turn FROM "@schema@"."@table@_v2_leave"(lock_name, held, me);
        released := turn.released;
        held := turn.last;
    END IF;
    -- If the clock cannot be trusted with a token, nothing is handed over: the waiters find the lock free.
    IF EXISTS (SELECT FROM "@schema@"."@table@_queue" q
        WHERE q.name = lock_name AND q.place > held.served)
        AND extract(epoch FROM clock_timestamp()) * 1000000 <= clock_limit
    THEN
        SELECT * INTO turn
            FROM "@schema@"."@table@_v2_hand_over"(lock_name, held, NULL, clock_limit);
        IF turn.winners IS NOT NULL THEN
            channels := turn.channels;
            messages := turn.messages;
            RETURN;
        END IF;
    END IF;
    -- Nobody counts on it: if a crash forgets it, the lock is held until its TTL. So the commit does not wait
    -- for the disk.
    IF held.owner = me THEN
        UPDATE "@schema@"."@table@_grants" g
            SET owner = NULL, label = '', expires_at = '-infinity'
            WHERE g.name = lock_name AND g.token = held.token;
    END IF;
    PERFORM set_config('synchronous_commit', 'off', true);
END
$$;

-- Ends a hold, and tells those who hold it next once that is committed, by one request. It may commit because it has
-- no rights of its own, nor settings: whoever calls it needs those of `release`.
CREATE OR REPLACE PROCEDURE "@schema@"."@table@_v2_release_and_tell"(
    lock_name text, me uuid, clock_limit bigint, INOUT released boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    ended pg_catalog.record;
BEGIN
    -- As a value: to select from a function costs a statement more.
    ended := "@schema@"."@table@_v2_release"(lock_name, me, clock_limit);
    released := ended.released;
    IF ended.messages IS NOT NULL THEN
        COMMIT;
        PERFORM pg_catalog.pg_notify(t.channel, t.message)
            FROM unnest(ended.channels, ended.messages) t (channel, message);
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
    PERFORM pg_notify(t.channel, t.message)
        FROM unnest(ended.channels, ended.messages) t (channel, message);
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
        AND NOT EXISTS (SELECT FROM "@schema@"."@table@_holders" h
            WHERE h.name = l.name AND h.expires_at > clock_timestamp())
        AND NOT EXISTS (SELECT FROM "@schema@"."@table@_queue" q WHERE q.name = l.name)
        LIMIT 1000 FOR UPDATE OF l SKIP LOCKED
    LOOP
        -- With the row locked it is looked at once more: somebody may just have been here.
        DELETE FROM "@schema@"."@table@_holders" h
            WHERE h.name = unused AND h.expires_at <= clock_timestamp();
        DELETE FROM "@schema@"."@table@_grants" g WHERE g.name = unused AND NOT (
            g.token > "@schema@"."@table@_v2_now_us"() - 7 * 86400000000
            OR (g.owner IS NOT NULL AND g.expires_at > clock_timestamp())
            OR EXISTS (SELECT FROM "@schema@"."@table@_holders" h WHERE h.name = unused));
        DELETE FROM "@schema@"."@table@" l WHERE l.name = unused AND NOT EXISTS (
            SELECT FROM "@schema@"."@table@_grants" g WHERE g.name = unused);
        forgotten := forgotten + 1;
    END LOOP;
    RETURN forgotten;
END
$$;

-- The holds of the locks whose names start with `prefix`, `at_most` as many locks, or of the one lock called
-- `prefix`, held or not. No more than 8 digits of an owner are told.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_list"(
    prefix text, whole boolean, at_most bigint,
    OUT name text, OUT owner text, OUT token bigint, OUT left_us bigint, OUT label text,
    OUT permits bigint, OUT slots bigint[], OUT waiters bigint
) RETURNS SETOF record
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT n.name, left(h.owner::text, 8), h.token,
        (extract(epoch FROM h.expires_at - clock_timestamp()) * 1000000)::bigint, h.label,
        h.permits, h.slots,
        (SELECT count(*) FROM "@schema@"."@table@_queue" q WHERE q.name = n.name
            AND q.place > coalesce((SELECT g.served FROM "@schema@"."@table@_grants" g
                WHERE g.name = n.name ORDER BY g.token DESC LIMIT 1), 0)
            AND q.seen_at > clock_timestamp() - interval '@waiter_liveness_ms@ milliseconds')
    FROM (SELECT prefix COLLATE "C" WHERE whole UNION ALL (
        SELECT g.name FROM "@schema@"."@table@_grants" g
        WHERE NOT whole AND starts_with(g.name, prefix) AND g.owner IS NOT NULL
            AND CASE WHEN g.permits IS NULL THEN g.expires_at > clock_timestamp()
                ELSE EXISTS (SELECT FROM "@schema@"."@table@_holders" o WHERE o.name = g.name
                    AND o.token >= g.oldest AND o.expires_at > clock_timestamp()) END
        ORDER BY g.name LIMIT at_most)) n (name)
    -- As in the view, of each lock by its key.
    LEFT JOIN LATERAL (
        SELECT g.owner, g.token, g.permits, NULL::bigint[] AS slots, g.label, g.expires_at
            FROM "@schema@"."@table@_grants" g
            WHERE g.name = n.name AND g.owner IS NOT NULL AND g.permits IS NULL
        UNION ALL
        SELECT o.owner, o.token, g.permits, o.slots, o.label, o.expires_at
            FROM "@schema@"."@table@_grants" g JOIN "@schema@"."@table@_holders" o
            ON o.name = g.name AND o.token >= g.oldest
            WHERE g.name = n.name AND g.permits IS NOT NULL
    ) h ON h.expires_at > clock_timestamp()
    ORDER BY n.name, h.token
$$;

-- Ends the holds of those whose owner begins with these 8 digits, or of all if there are none, and lets in the
-- waiters who fit then (C38). Returns whose they were.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_evict"(
    lock_name text, digits text, clock_limit bigint,
    OUT name text, OUT owner text, OUT token bigint, OUT left_us bigint, OUT label text,
    OUT permits bigint, OUT slots bigint[]
) RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    hold "@schema@"."@table@_holds";
BEGIN
    PERFORM FROM "@schema@"."@table@" l WHERE l.name = lock_name FOR UPDATE;
    name := lock_name;
    FOR hold IN SELECT * FROM "@schema@"."@table@_holds" h
        WHERE h.name = lock_name AND h.expires_at > clock_timestamp()
            AND left(h.owner::text, 8) = coalesce(digits, left(h.owner::text, 8))
        ORDER BY h.token
    LOOP
        owner := left(hold.owner::text, 8);
        token := hold.token;
        left_us := (extract(epoch FROM hold.expires_at - clock_timestamp()) * 1000000)::bigint;
        label := hold.label;
        permits := hold.permits;
        slots := hold.slots;
        RETURN NEXT;
        PERFORM pg_notify(t.channel, t.message)
            FROM "@schema@"."@table@_v2_release"(lock_name, hold.owner, clock_limit) r,
            unnest(r.channels, r.messages) t (channel, message);
    END LOOP;
    -- The end of one hold may have been granted to a waiter, and that of the next to nobody.
    PERFORM "@schema@"."@table@_v2_durably"();
END
$$;
