-- The functions of the mode in which locks are advisory locks of sessions.
--
-- The lock itself is the server's. A row tells of it: token, owner, label, and the process of the server
-- whose session holds it. It is written by that session alone, so it never names another's process.

-- Makes sure that the lock has a row, and locks it.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_enter"(lock_name text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM "@schema@"."@table@" l WHERE l.name = lock_name FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO "@schema@"."@table@" (name, token) VALUES (lock_name, 0)
            ON CONFLICT DO NOTHING;
        PERFORM FROM "@schema@"."@table@" l WHERE l.name = lock_name FOR UPDATE;
    END IF;
END
$$;

-- Grants the lock, and returns the new token: one more than the last, or the time in microseconds,
-- whichever is greater (C22). While the clock is ahead of the last token, the token is therefore the
-- time of the grant (C45).
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_grant"(
    lock_name text, new_owner uuid, ttl_ms bigint, new_label text, clock_limit bigint,
    new_process integer
) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    now_us bigint := "@schema@"."@table@_v2_now_us"();
    granted bigint;
BEGIN
    IF now_us > clock_limit THEN
        RAISE EXCEPTION USING ERRCODE = 'LH002',
            MESSAGE = 'the clock of the server is more than a day ahead of the client';
    END IF;
    PERFORM "@schema@"."@table@_v2_durably"();
    UPDATE "@schema@"."@table@" l
        SET token = greatest(l.token + 1, now_us), owner = new_owner, label = new_label,
            expires_at = clock_timestamp() + ttl_ms * interval '1 millisecond',
            process = new_process
        WHERE l.name = lock_name
        RETURNING l.token INTO granted;
    RETURN granted;
END
$$;

-- The key of the advisory lock: that of the name space, a zero byte and the name.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_lock_key"(lock_name text) RETURNS bigint
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT "@schema@"."@table@_v2_key"(
        convert_to('@schema@.@table@', 'UTF8') || '\x00'::bytea || convert_to(lock_name, 'UTF8'))
$$;

-- The sessions that hold the lock, or wait for it.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_sessions"(
    lock_name text, OUT process integer, OUT holds boolean
) RETURNS SETOF record
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT k.pid, k.granted FROM pg_locks k
    WHERE k.locktype = 'advisory' AND k.objsubid = 1
    AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    AND (k.classid::bigint << 32 | k.objid::bigint) = "@schema@"."@table@_v2_lock_key"(lock_name)
$$;

-- Whether a row says the truth: the process that it names holds the lock right now. If another process
-- holds it, that one is about to write its own grant, and the hold of the row is over.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_lives"(lock_name text, of_process integer)
RETURNS boolean
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM "@schema@"."@table@_v2_sessions"(lock_name) s
        WHERE s.process = of_process AND s.holds)
$$;

-- The server ends a session that is silent for so long: its process is stopped, or its machine is gone.
-- Servers before 14 cannot. Zero is without end.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_bear_silence"(ms bigint) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('server_version_num')::int >= 140000 THEN
        PERFORM set_config('idle_session_timeout', ms::text, false);
    END IF;
END
$$;

-- Writes the hold of this session, which has the advisory lock, into its row. A row that somebody keeps is
-- waited for no longer than by any other request.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_hold"(
    lock_name text, me uuid, ttl_ms bigint, my_label text, clock_limit bigint,
    OUT now_us bigint, OUT token bigint
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
BEGIN
    PERFORM "@schema@"."@table@_v2_enter"(lock_name);
    now_us := "@schema@"."@table@_v2_now_us"();
    token := "@schema@"."@table@_v2_grant"(
        lock_name, me, ttl_ms, my_label, clock_limit, pg_backend_pid());
    PERFORM "@schema@"."@table@_v2_bear_silence"(ttl_ms + 1000);
END
$$;

-- Takes the lock if it is free. `token` is null if it is not; then the rest says what is known.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_take"(
    lock_name text, me uuid, ttl_ms bigint, my_label text, clock_limit bigint,
    OUT process integer, OUT token bigint, OUT now_us bigint, OUT left_us bigint, OUT holder text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    process := pg_backend_pid();
    IF pg_is_in_recovery() THEN
        RAISE EXCEPTION USING ERRCODE = 'read_only_sql_transaction',
            MESSAGE = 'the server is a standby, whose advisory locks are its own';
    END IF;
    IF pg_try_advisory_lock("@schema@"."@table@_v2_lock_key"(lock_name)) THEN
        SELECT h.now_us, h.token INTO now_us, token FROM "@schema@"."@table@_v2_hold"(
            lock_name, me, ttl_ms, my_label, clock_limit) h;
    ELSE
        SELECT s.now_us, s.left_us, s.holder INTO now_us, left_us, holder
            FROM "@schema@"."@table@_v2_look"(lock_name, process) s;
    END IF;
END
$$;

-- Waits for the lock, first come, first served, and takes it. A time-out could leave it taken, so there is
-- none: a wait is given up by `leave`, and the connection is then closed.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_wait"(
    lock_name text, me uuid, ttl_ms bigint, my_label text, clock_limit bigint,
    OUT process integer, OUT token bigint, OUT now_us bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = 0 AS $$
BEGIN
    process := pg_backend_pid();
    PERFORM pg_advisory_lock("@schema@"."@table@_v2_lock_key"(lock_name));
    SELECT h.now_us, h.token INTO now_us, token FROM "@schema@"."@table@_v2_hold"(
        lock_name, me, ttl_ms, my_label, clock_limit) h;
END
$$;

-- Has a session of the caller's own give up its wait for the lock.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_leave"(lock_name text, of_process bigint)
RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_cancel_backend(s.process) FROM "@schema@"."@table@_v2_sessions"(lock_name) s
        WHERE s.process = of_process AND NOT s.holds
$$;

-- What is known of the holder, and whether the session still waits for the lock, or has it.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_look"(
    lock_name text, of_process bigint,
    OUT now_us bigint, OUT left_us bigint, OUT holder text, OUT is_there boolean
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    now_us := "@schema@"."@table@_v2_now_us"();
    SELECT l.label, (extract(epoch FROM l.expires_at - clock_timestamp()) * 1000000)::bigint
        INTO holder, left_us FROM "@schema@"."@table@" l
        WHERE l.name = lock_name AND l.owner IS NOT NULL AND l.expires_at > clock_timestamp();
    is_there := EXISTS (SELECT FROM "@schema@"."@table@_v2_sessions"(lock_name) s
        WHERE s.process = of_process);
END
$$;

-- Extends a hold that lives, from its own session or another; false if it is over.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_extend"(
    lock_name text, me uuid, of_token bigint, ttl_ms bigint
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held_by integer;
BEGIN
    -- A crash of the server ends the hold in any case.
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE "@schema@"."@table@" l
        SET expires_at = greatest(
            l.expires_at, clock_timestamp() + ttl_ms * interval '1 millisecond')
        WHERE l.name = lock_name AND l.owner = me AND l.token = of_token
            AND l.expires_at > clock_timestamp()
            AND (l.process = pg_backend_pid() OR "@schema@"."@table@_v2_lives"(l.name, l.process))
        RETURNING l.process INTO held_by;
    IF held_by = pg_backend_pid() THEN
        PERFORM "@schema@"."@table@_v2_bear_silence"(ttl_ms + 1000);
    END IF;
    RETURN held_by IS NOT NULL;
END
$$;

-- How long the hold of a row lasts, in microseconds, and whether its session holds the lock; no row if
-- the hold is over.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_left"(
    lock_name text, me uuid, of_token bigint, OUT left_us bigint, OUT holds boolean
) RETURNS SETOF record
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT (extract(epoch FROM l.expires_at - clock_timestamp()) * 1000000)::bigint,
        "@schema@"."@table@_v2_lives"(l.name, l.process)
    FROM "@schema@"."@table@" l
    WHERE l.name = lock_name AND l.owner = me AND l.token = of_token
        AND l.expires_at > clock_timestamp()
$$;

-- Ends the hold of this session; true if it had the lock. The next one writes its grant once this is
-- committed, since both write the row.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_release"(
    lock_name text, me uuid, of_token bigint
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE "@schema@"."@table@" l SET owner = NULL, label = '', expires_at = '-infinity'
        WHERE l.name = lock_name AND l.owner = me AND l.token = of_token;
    PERFORM "@schema@"."@table@_v2_bear_silence"(0);
    RETURN pg_advisory_unlock("@schema@"."@table@_v2_lock_key"(lock_name));
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
    SELECT n.name, left(l.owner::text, 8), l.token,
        greatest(0, (extract(epoch FROM l.expires_at - clock_timestamp()) * 1000000)::bigint),
        l.label,
        (SELECT count(*) FROM "@schema@"."@table@_v2_sessions"(n.name) s WHERE NOT s.holds)
    FROM (SELECT prefix WHERE whole
        UNION ALL SELECT t.name FROM "@schema@"."@table@" t
        WHERE NOT whole AND t.owner IS NOT NULL AND starts_with(t.name, prefix)) n (name)
    LEFT JOIN "@schema@"."@table@" l ON l.name = n.name AND l.owner IS NOT NULL
        AND "@schema@"."@table@_v2_lives"(l.name, l.process)
    WHERE whole OR l.name IS NOT NULL
    ORDER BY n.name COLLATE "C" LIMIT at_most
$$;

-- Ends the hold of `me`, or of anybody if that is null, in its row, and notes for its holder that it was
-- ended so. Returns whose it was, and the process whose session the caller is to end. The row stays locked
-- until the caller's statement is done, so that the session cannot come to hold something else before.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_end"(
    lock_name text, me uuid,
    OUT name text, OUT owner text, OUT token bigint, OUT left_us bigint, OUT label text,
    OUT process integer
) RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held "@schema@"."@table@";
BEGIN
    PERFORM FROM "@schema@"."@table@" l WHERE l.name = lock_name FOR UPDATE;
    SELECT * INTO held FROM "@schema@"."@table@" l
        WHERE l.name = lock_name AND l.owner IS NOT NULL AND (me IS NULL OR l.owner = me)
        AND "@schema@"."@table@_v2_lives"(l.name, l.process);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    DELETE FROM "@schema@"."@table@_withdrawn" w WHERE w.forget_at < clock_timestamp();
    INSERT INTO "@schema@"."@table@_withdrawn" (owner, forget_at)
        VALUES (held.owner, clock_timestamp() + interval '@withdrawal_remembered_ms@ milliseconds')
        ON CONFLICT DO NOTHING;
    UPDATE "@schema@"."@table@" l SET owner = NULL, label = '', expires_at = '-infinity'
        WHERE l.name = lock_name;
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
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v2_was_ended"(lock_name text, me uuid)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM "@schema@"."@table@" l WHERE l.name = lock_name FOR SHARE;
    RETURN EXISTS (SELECT FROM "@schema@"."@table@_withdrawn" w WHERE w.owner = me);
END
$$;
