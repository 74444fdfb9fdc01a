-- The functions of the locks.
--
-- Each function has as few statements as possible, the common case first: a statement costs a few microseconds,
-- and a call of another function costs more. Functions whose statements all have an index set `enable_seqscan =
-- off`, because the planner counts only live rows and takes a table for small that has many dead rows beside a
-- long transaction. A statement without an index would then be compiled first (JIT).
--
-- Each function that clients call has the settings that it needs, so that sessions keep theirs.

-- Makes sure that the lock has a row, and locks it.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_enter"(lock_name text) RETURNS void
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

-- Stores the grant `last` under a new token, and returns the token. On entry `last.token` is that of the grant
-- before. The new token is one more than the last that was granted or reserved, or the time in microseconds if
-- that is greater (C22). So while the clock is ahead of the last token, the token is the time of the grant (C45).
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_grant"(
    lock_name text, last "@schema@"."@table@_grants", clock_limit bigint
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
    -- A grant is on disk before the answer, whatever the session's default is.
    PERFORM "@schema@"."@table@_v1_durably"();
    -- The key changes with the token, so that the newest grant stands apart from its old versions.
    UPDATE "@schema@"."@table@_grants" g
        SET token = granted, reserved = 0, owner = last.owner, label = last.label,
            served = last.served, expires_at = last.expires_at, permits = last.permits,
            oldest = last.oldest
        WHERE g.name = lock_name AND g.token = last.token;
    IF NOT FOUND THEN
        INSERT INTO "@schema@"."@table@_grants"
            (name, token, owner, label, expires_at, permits, oldest)
            VALUES (lock_name, granted, last.owner, last.label, last.expires_at, last.permits,
                last.oldest);
    END IF;
    RETURN granted;
END
$$;

-- Grants the lock, whose newest grant is `last`, to a new owner: alone if `new_permits` is null, otherwise beside
-- the present holders, if any (C33).
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_grant_to"(
    lock_name text, INOUT last "@schema@"."@table@_grants", new_owner uuid, ttl_ms bigint,
    new_label text, new_permits bigint, new_slots bigint[], clock_limit bigint
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    until timestamptz := clock_timestamp() + ttl_ms * interval '1 millisecond';
BEGIN
    IF new_permits IS NULL OR last.owner IS NULL THEN
        last.owner := CASE WHEN new_permits IS NULL THEN new_owner
            ELSE '00000000-0000-0000-0000-000000000000' END;
        last.permits := new_permits;
        last.oldest := coalesce(last.token + last.reserved, 0) + 1;
        last.label := new_label;
        last.expires_at := until;
    END IF;
    last.expires_at := least(last.expires_at, until);
    last.token := "@schema@"."@table@_v1_grant"(lock_name, last, clock_limit);
    last.reserved := 0;
    IF new_permits IS NOT NULL THEN
        INSERT INTO "@schema@"."@table@_holders"
            (owner, name, token, slots, label, expires_at)
            VALUES (new_owner, lock_name, last.token, new_slots, new_label, until);
    END IF;
END
$$;
