-- The functions of the mode in which locks are advisory locks of sessions.
--
-- A row tells of a grant: token, owner, label, and the process of the server whose session holds the lock. It
-- is written by that session, in the request that took the lock. `lock_key` is the key of the advisory lock,
-- which the client makes of the name.
--
-- A function is called in an assignment, where its answer is of no use too: as a statement it would cost several times
-- as much.

-- Reserves tokens, up to a second ahead of one that is wanted, and returns the last of them. After a crash the floor is
-- all that were reserved before, and so all that were told (C22). This goes on once the clock has passed those, unless
-- the clock was set back: so no token is ahead of a clock that is right, and what a failover forgets is behind the clock
-- as ever.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_reserve"(wanted bigint) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before bigint := coalesce(
        (SELECT max(t.reserved) FROM "@schema@"."@table@_tokens" t), 0);
    ahead bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM "@schema@"."@table@_grants" g WHERE g.name = '') THEN
        INSERT INTO "@schema@"."@table@_grants" (name, token) VALUES ('', before)
            ON CONFLICT DO NOTHING;
        IF before - wanted BETWEEN 0 AND 1000000 THEN
            PERFORM pg_sleep((before - wanted) / 1000000.0);
        END IF;
    END IF;
    ahead := wanted + 1000000;
    -- Others see it once it is on disk.
    PERFORM "@schema@"."@table@_v1_durably"();
    INSERT INTO "@schema@"."@table@_tokens" VALUES (ahead) ON CONFLICT DO NOTHING;
    DELETE FROM "@schema@"."@table@_tokens" t WHERE t.reserved < ahead;
    RETURN ahead;
END
$$;

-- What this transaction writes is in no log, so that its commit need wait for no disk and no standby. It would
-- wait all the same if the server logs something of its own in it, such as a page of its catalogue that it
-- tidies up on the way.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_hastily"() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    done text := set_config('synchronous_commit', 'off', true);
BEGIN
END
$$;

-- The server ends a session that is silent for so long: its process is stopped, or its machine is gone.
-- Servers before 14 cannot. Zero is without end.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_bear_silence"(ms bigint) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    done text;
BEGIN
    IF current_setting('server_version_num')::int >= 140000 THEN
        done := set_config('idle_session_timeout', ms::text, false);
    END IF;
END
$$;

-- Writes the grant of this session, which has the advisory lock. The token is one more than the last, or the
-- time in microseconds, whichever is greater (C22). While the clock is ahead of the last token, the token is
-- therefore the time of the grant (C45). A table that somebody keeps is waited for no longer than by any other
-- request.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_grant"(
    lock_name text, lock_key bigint, me uuid, ttl_ms bigint, my_label text, clock_limit bigint,
    OUT token bigint, OUT now_us bigint
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    granted_at timestamptz := clock_timestamp();
    is_reserved boolean := false;
    done text;
BEGIN
    now_us := extract(epoch FROM granted_at) * 1000000;
    IF now_us > clock_limit THEN
        RAISE EXCEPTION USING ERRCODE = 'LH002',
            MESSAGE = 'the clock of the server is more than a day ahead of the client';
    END IF;
    LOOP
        -- One statement, so that a last token that is forgotten is found in the floor. It grants nothing if there is
        -- no floor, or if the token is not reserved.
        INSERT INTO "@schema@"."@table@_grants" AS g
            (name, token, owner, label, expires_at, lock_key, process)
            SELECT lock_name, n.token, me, my_label,
                granted_at + ttl_ms * interval '1 millisecond', lock_key, pg_backend_pid()
            FROM (SELECT greatest(now_us, lowest.token + 1, (
                    SELECT l.token + 1 FROM "@schema@"."@table@_grants" l
                    WHERE l.name = lock_name ORDER BY l.token DESC LIMIT 1)) AS token
                FROM (SELECT f.token FROM "@schema@"."@table@_grants" f
                    WHERE f.name = '' ORDER BY f.token DESC LIMIT 1) lowest) n
            WHERE n.token <= (SELECT t.reserved FROM "@schema@"."@table@_tokens" t
                ORDER BY t.reserved DESC LIMIT 1)
            RETURNING g.token INTO token;
        EXIT WHEN FOUND;
        is_reserved := true;
        PERFORM "@schema@"."@table@_v1_reserve"(greatest(now_us, (
            SELECT g.token + 1 FROM "@schema@"."@table@_grants" g
            WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1), (
            SELECT g.token + 1 FROM "@schema@"."@table@_grants" g
            WHERE g.name = '' ORDER BY g.token DESC LIMIT 1)));
    END LOOP;
    IF NOT is_reserved THEN
        done := "@schema@"."@table@_v1_hastily"();
    END IF;
END
$$;

-- Takes the lock if it is free. `token` is null if it is not; then the rest says what is known.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_take"(
    lock_name text, lock_key bigint, me uuid, ttl_ms bigint, my_label text, clock_limit bigint,
    waits boolean,
    OUT process integer, OUT token bigint, OUT now_us bigint, OUT left_us bigint, OUT holder text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    granted record;
    until timestamptz;
    done text;
BEGIN
    process := pg_backend_pid();
    IF pg_is_in_recovery() THEN
        RAISE EXCEPTION USING ERRCODE = 'read_only_sql_transaction',
            MESSAGE = 'the server is a standby, whose advisory locks are its own';
    END IF;
    IF pg_try_advisory_lock(lock_key) THEN
        until := "@schema@"."@table@_v1_believed_until"(lock_name, me);
        IF until IS NULL THEN
            granted := "@schema@"."@table@_v1_grant"(
                lock_name, lock_key, me, ttl_ms, my_label, clock_limit);
            token := granted.token;
            now_us := granted.now_us;
            done := "@schema@"."@table@_v1_bear_silence"(ttl_ms + 1000);
        ELSIF NOT waits THEN
            -- Whoever tries next waits from now on, and not once more. Who waits keeps no row meanwhile.
            UPDATE "@schema@"."@table@_grants" g SET expires_at = until WHERE g.name = lock_name
                AND g.token = (SELECT t.token FROM "@schema@"."@table@_grants" t
                    WHERE t.name = lock_name ORDER BY t.token DESC LIMIT 1);
            done := "@schema@"."@table@_v1_hastily"();
        END IF;
    END IF;
    IF token IS NULL THEN
        IF until IS NOT NULL THEN
            done := pg_advisory_unlock(lock_key);
        END IF;
        SELECT s.now_us, s.left_us, s.holder INTO now_us, left_us, holder
            FROM "@schema@"."@table@_v1_look"(lock_name, lock_key, NULL) s;
    END IF;
END
$$;

-- Waits for the lock, first come, first served, and takes it; no row if `take`, which is called before in the
-- same statement, has taken it. A time-out could leave it taken, so there is none: a wait is given up by
-- `leave`, and the connection is then closed. What need not be done between the release of another and this
-- grant is done before.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_wait"(
    lock_name text, lock_key bigint, me uuid, ttl_ms bigint, my_label text, clock_limit bigint,
    waits boolean,
    OUT process integer, OUT token bigint, OUT now_us bigint, OUT left_us bigint, OUT holder text
) RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = 0 AS $$
DECLARE
    granted record;
    done text;
BEGIN
    process := pg_backend_pid();
    IF EXISTS (SELECT FROM (SELECT * FROM "@schema@"."@table@_grants" t
            WHERE t.name = lock_name ORDER BY t.token DESC LIMIT 1) g
        WHERE g.owner = me AND g.process = pg_backend_pid())
    THEN
        RETURN;
    END IF;
    done := "@schema@"."@table@_v1_bear_silence"(ttl_ms + 1000);
    -- A message is sent at once, and with it the answer of `take`: that the lock is busy.
    RAISE DEBUG 'waiting';
    done := pg_advisory_lock(lock_key);
    done := pg_sleep(coalesce(extract(epoch FROM "@schema@"."@table@_v1_believed_until"(
        lock_name, me) - clock_timestamp()), 0));
    granted := "@schema@"."@table@_v1_grant"(
        lock_name, lock_key, me, ttl_ms, my_label, clock_limit);
    token := granted.token;
    now_us := granted.now_us;
    RETURN NEXT;
END
$$;

-- Until when the last holder may believe that it holds the lock, for one who has the advisory lock; null if it does not. A
-- hold that was released or evicted is over in its row. Else its session was killed or cut, and its holder hears of
-- that at once, or notices the silence. A release whose commit is under way is waited for. An owner has one hold at a time.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_believed_until"(lock_name text, me uuid)
RETURNS timestamptz
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held "@schema@"."@table@_grants";
BEGIN
    SELECT * INTO held FROM "@schema@"."@table@_grants" g
        WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1;
    IF held.owner <> me AND held.expires_at > clock_timestamp() THEN
        SELECT * INTO held FROM "@schema@"."@table@_grants" g
            WHERE g.name = lock_name AND g.token = held.token FOR SHARE;
        IF held.owner IS NOT NULL THEN
            RETURN least(held.expires_at,
                clock_timestamp() + interval '@session_grace_ms@ milliseconds');
        END IF;
    END IF;
    RETURN NULL;
END
$$;

-- The sessions that hold the lock, or wait for it.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_sessions"(
    lock_key bigint, OUT process integer, OUT holds boolean
) RETURNS SETOF record
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT k.pid, k.granted FROM pg_locks k
    WHERE k.locktype = 'advisory' AND k.objsubid = 1
    AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    AND (k.classid::bigint << 32 | k.objid::bigint) = lock_key
$$;

-- The grant of the lock, if it is in force: the newest one, if the process that it names holds the lock right
-- now. If another process holds the lock, that one is about to write its own grant.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_held"(lock_name text)
RETURNS SETOF "@schema@"."@table@_grants"
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT g.* FROM (SELECT * FROM "@schema@"."@table@_grants" t
        WHERE t.name = lock_name ORDER BY t.token DESC LIMIT 1) g
    WHERE g.owner IS NOT NULL AND EXISTS (
        SELECT FROM "@schema@"."@table@_v1_sessions"(g.lock_key) s
        WHERE s.process = g.process AND s.holds)
$$;

-- What is known of the holder, and whether the session of this process still waits for the lock, or has it. One that
-- was told that the lock is busy may be about to wait.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_look"(
    lock_name text, lock_key bigint, of_process bigint,
    OUT now_us bigint, OUT left_us bigint, OUT holder text, OUT is_there boolean
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
BEGIN
    is_there := false;
    FOR looks IN 1..200 LOOP
        EXIT WHEN of_process IS NULL;
        is_there := EXISTS (
            SELECT FROM "@schema@"."@table@_v1_sessions"(lock_key) s WHERE s.process = of_process);
        PERFORM pg_stat_clear_snapshot();
        EXIT WHEN is_there
            OR NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = of_process);
        PERFORM pg_sleep(0.005);
    END LOOP;
    now_us := "@schema@"."@table@_v1_now_us"();
    SELECT g.label, (extract(epoch FROM g.expires_at - clock_timestamp()) * 1000000)::bigint
        INTO holder, left_us FROM (SELECT * FROM "@schema@"."@table@_grants" t
            WHERE t.name = lock_name ORDER BY t.token DESC LIMIT 1) g
        WHERE g.owner IS NOT NULL AND g.expires_at > clock_timestamp();
END
$$;

-- Ends a hold in its row of which its client knows that nobody believes in it.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_forgo"(lock_name text, me uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    done text := "@schema@"."@table@_v1_hastily"();
BEGIN
    UPDATE "@schema@"."@table@_grants" g SET owner = NULL, label = '', expires_at = '-infinity'
        WHERE g.name = lock_name AND g.owner = me;
END
$$;

-- Ends a session of the caller's own that waits for the lock, or is about to: it may have been told that the lock is
-- busy, and not wait yet. Returns once it has left the queue, and what it may just have been granted is over.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_leave"(
    lock_name text, lock_key bigint, me uuid, of_process bigint
) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    FOR looks IN 1..200 LOOP
        -- Before its session ends: the next one looks at the row, and waits for this.
        PERFORM "@schema@"."@table@_v1_forgo"(lock_name, me);
        PERFORM pg_stat_clear_snapshot();
        IF NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = of_process
                AND strpos(a.query, '@table@_v1_take') > 0)
            AND NOT EXISTS (SELECT FROM "@schema@"."@table@_v1_sessions"(lock_key) s
                WHERE s.process = of_process)
        THEN
            RETURN true;
        END IF;
        PERFORM pg_terminate_backend(of_process::integer);
        PERFORM pg_sleep(0.005);
    END LOOP;
    RETURN false;
END
$$;

-- Extends a hold that lives, from its own session or another; false if it is over.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_extend"(
    lock_name text, me uuid, of_token bigint, ttl_ms bigint
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    held_by integer;
BEGIN
    UPDATE "@schema@"."@table@_grants" g
        SET expires_at = greatest(
            g.expires_at, clock_timestamp() + ttl_ms * interval '1 millisecond')
        WHERE g.name = lock_name AND g.token = of_token AND g.owner = me
            AND g.expires_at > clock_timestamp()
            AND (g.process = pg_backend_pid() OR EXISTS (
                SELECT FROM "@schema@"."@table@_v1_held"(lock_name) h WHERE h.token = of_token))
        RETURNING g.process INTO held_by;
    IF held_by = pg_backend_pid() THEN
        PERFORM "@schema@"."@table@_v1_bear_silence"(ttl_ms + 1000);
    END IF;
    RETURN held_by IS NOT NULL;
END
$$;

-- How long a hold lasts, in microseconds, and whether its session holds the lock; no row if the hold is over.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_left"(
    lock_name text, me uuid, of_token bigint, OUT left_us bigint, OUT holds boolean
) RETURNS SETOF record
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
    SELECT (extract(epoch FROM g.expires_at - clock_timestamp()) * 1000000)::bigint,
        EXISTS (SELECT FROM "@schema@"."@table@_v1_held"(lock_name) h WHERE h.token = of_token)
    FROM "@schema@"."@table@_grants" g
    WHERE g.name = lock_name AND g.token = of_token AND g.owner = me
        AND g.expires_at > clock_timestamp()
$$;

-- Ends the hold of this session; true if it had the lock. Its row is over first, so that the next one sees that its holder
-- let go. The lock is free next, so that the next one need not wait for the rest.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_release"(
    lock_name text, lock_key bigint, of_token bigint
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    released boolean;
    done text := "@schema@"."@table@_v1_hastily"();
BEGIN
    UPDATE "@schema@"."@table@_grants" g
        SET owner = NULL, label = '', expires_at = '-infinity'
        WHERE g.name = lock_name AND g.token = of_token;
    released := pg_advisory_unlock(lock_key);
    DELETE FROM "@schema@"."@table@_grants" g WHERE g.name = lock_name AND g.token = (
        SELECT b.token FROM "@schema@"."@table@_grants" b
        WHERE b.name = lock_name AND b.token < of_token ORDER BY b.token DESC LIMIT 1);
    done := "@schema@"."@table@_v1_bear_silence"(0);
    RETURN released;
END
$$;

-- Forgets some locks that nobody has used for a week. Their tokens are below the floor from then on. It looks at a few
-- pages of the table at random, so that it takes as long however many locks there are.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_forget"() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    cut_off bigint := "@schema@"."@table@_v1_now_us"() - 7 * 86400000000;
    part float8 := least(100, 400.0 * current_setting('block_size')::bigint
        / greatest(1, pg_relation_size('"@schema@"."@table@_grants"')));
BEGIN
    WITH forgotten AS (
        DELETE FROM "@schema@"."@table@_grants" g
        USING "@schema@"."@table@_grants" o TABLESAMPLE SYSTEM (part)
        WHERE o.token < cut_off AND o.name <> '' AND g.name = o.name AND g.token = o.token
            AND NOT (g.owner IS NOT NULL AND g.expires_at > clock_timestamp())
        RETURNING g.token)
    INSERT INTO "@schema@"."@table@_grants" (name, token)
        SELECT '', max(f.token) FROM forgotten f HAVING count(*) > 0
        ON CONFLICT DO NOTHING;
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
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
    SELECT h.name, left(h.owner::text, 8), h.token,
        greatest(0, (extract(epoch FROM h.expires_at - clock_timestamp()) * 1000000)::bigint),
        h.label,
        (SELECT count(*) FROM "@schema@"."@table@_v1_sessions"(h.lock_key) s WHERE NOT s.holds)
    FROM (SELECT prefix WHERE whole
        UNION SELECT t.name FROM "@schema@"."@table@_grants" t
        WHERE NOT whole AND t.owner IS NOT NULL AND starts_with(t.name, prefix)) n (name),
    LATERAL (SELECT * FROM "@schema@"."@table@_v1_held"(n.name)) h
    ORDER BY h.name COLLATE "C" LIMIT at_most
$$;

-- Ends the hold of `me`, or of anybody if that is null, in its row, and notes for its holder that it was
-- ended so. Returns whose it was, and the process whose session the caller is to end. The row stays locked
-- until the caller's statement is done. So a release of that session is not done before, and the session
-- cannot come to hold something else.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_end"(
    lock_name text, me uuid, digits text,
    OUT name text, OUT owner text, OUT token bigint, OUT left_us bigint, OUT label text,
    OUT process integer
) RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    held "@schema@"."@table@_grants";
BEGIN
    UPDATE "@schema@"."@table@_grants" g
        SET owner = NULL, label = '', expires_at = '-infinity'
        FROM "@schema@"."@table@_v1_held"(lock_name) h
        WHERE g.name = h.name AND g.token = h.token AND g.owner = h.owner
            AND h.owner = coalesce(me, h.owner)
            AND left(h.owner::text, 8) = coalesce(digits, left(h.owner::text, 8))
        RETURNING h.* INTO held;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    DELETE FROM "@schema@"."@table@_withdrawn" w WHERE w.forget_at < clock_timestamp();
    INSERT INTO "@schema@"."@table@_withdrawn" (owner, forget_at)
        VALUES (held.owner, clock_timestamp() + interval '@withdrawal_remembered_ms@ milliseconds')
        ON CONFLICT DO NOTHING;
    name := held.name;
    owner := left(held.owner::text, 8);
    token := held.token;
    label := held.label;
    process := held.process;
    left_us := greatest(
        0, (extract(epoch FROM held.expires_at - clock_timestamp()) * 1000000)::bigint);
    RETURN NEXT;
END
$$;

-- Whether somebody ended the hold of `me`. One who is about to is waited for.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_was_ended"(
    lock_name text, me uuid, of_token bigint
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
BEGIN
    PERFORM FROM "@schema@"."@table@_grants" g
        WHERE g.name = lock_name AND g.token = of_token FOR SHARE;
    RETURN EXISTS (SELECT FROM "@schema@"."@table@_withdrawn" w WHERE w.owner = me);
END
$$;
