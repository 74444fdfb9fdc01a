-- What a grant takes, in both modes.

CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_now_us"() RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

-- The key of the advisory lock that stands for something: the first 8 bytes of its SHA-256.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_key"(something bytea) RETURNS bigint
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT ('x' || encode(substr(sha256(something), 1, 8), 'hex'))::bit(64)::bigint
$$;

-- Lets the commit of this transaction wait for the disk, whatever the session's default is.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_durably"() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;

-- Makes sure that the lock has a row, and locks it.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_enter"(lock_name text) RETURNS void
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
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_grant"(
    lock_name text, new_owner uuid, ttl_ms bigint, new_label text, clock_limit bigint,
    new_process bigint DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    now_us bigint := "@schema@"."@table@_v1_now_us"();
    granted bigint;
BEGIN
    IF now_us > clock_limit THEN
        RAISE EXCEPTION USING ERRCODE = 'LH002',
            MESSAGE = 'the clock of the server is more than a day ahead of the client';
    END IF;
    PERFORM "@schema@"."@table@_v1_durably"();
    UPDATE "@schema@"."@table@" l
        SET token = greatest(l.token + 1, now_us), owner = new_owner, label = new_label,
            expires_at = clock_timestamp() + ttl_ms * interval '1 millisecond',
            process = new_process
        WHERE l.name = lock_name
        RETURNING l.token INTO granted;
    RETURN granted;
END
$$;
