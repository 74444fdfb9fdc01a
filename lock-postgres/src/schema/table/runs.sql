-- The runs that ended well (C42).

CREATE TABLE IF NOT EXISTS "@schema@"."@table@_runs" (
    name text COLLATE "C" NOT NULL,
    occurrence text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    forget_at timestamptz NOT NULL,
    PRIMARY KEY (name, occurrence),
    -- An index that is made with the table: CREATE INDEX waits for everyone who writes, also where it is there already.
    UNIQUE (forget_at, name, occurrence)
);

-- Ends the hold of `me` for its owner, and keeps everybody out for `delay_ms`, under an owner that nobody is
-- (C41). True if it was held, or was released so before. It is on disk before it is told: a crash would else end
-- the hold with its TTL, which may be earlier.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_release_after"(
    lock_name text, me uuid, retired uuid, delay_ms bigint
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s'
SET enable_seqscan = off AS $$
BEGIN
    PERFORM "@schema@"."@table@_v1_durably"();
    PERFORM FROM "@schema@"."@table@" l WHERE l.name = lock_name FOR UPDATE;
    UPDATE "@schema@"."@table@_grants" g
        SET owner = retired, expires_at = clock_timestamp() + delay_ms * interval '1 millisecond'
        WHERE g.name = lock_name AND g.owner IN (me, retired)
            AND g.expires_at > clock_timestamp();
    RETURN FOUND;
END
$$;

-- Records a run, if the hold of `me` under this token is in force; false if it is over. The row of the lock is
-- locked from the check to the commit, so that nobody is granted the lock in between. Its statements go by costs: with
-- `enable_seqscan = off` the last one would be compiled first, which takes longer than a request may.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_record"(
    lock_name text, me uuid, of_token bigint, of_occurrence text, remember_ms bigint
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
BEGIN
    PERFORM "@schema@"."@table@_v1_durably"();
    PERFORM FROM "@schema@"."@table@" l WHERE l.name = lock_name FOR UPDATE;
    PERFORM FROM "@schema@"."@table@_grants" g
        WHERE g.name = lock_name AND g.token = of_token AND g.owner = me
            AND g.expires_at > clock_timestamp() FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO "@schema@"."@table@_runs" AS r (name, occurrence, token, forget_at)
        VALUES (lock_name, of_occurrence, of_token,
            clock_timestamp() + remember_ms * interval '1 millisecond')
        ON CONFLICT (name, occurrence)
        DO UPDATE SET token = excluded.token, forget_at = excluded.forget_at;
    -- Outdated records go as well, except for rows that somebody else has locked.
    DELETE FROM "@schema@"."@table@_runs" r WHERE (r.name, r.occurrence) IN (
        SELECT o.name, o.occurrence FROM "@schema@"."@table@_runs" o
        WHERE o.forget_at < clock_timestamp() LIMIT 20 FOR UPDATE SKIP LOCKED);
    RETURN true;
END
$$;

-- The runs of a lock that are recorded, or only that of an occurrence.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_runs"(lock_name text, of_occurrence text)
RETURNS TABLE (occurrence text, token bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s'
SET enable_seqscan = off AS $$
BEGIN
    RETURN QUERY SELECT r.occurrence, r.token FROM "@schema@"."@table@_runs" r
        WHERE r.name = lock_name AND r.occurrence = coalesce(of_occurrence, r.occurrence)
            AND r.forget_at > clock_timestamp();
END
$$;

-- Forgets a run; true if it was recorded.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_forget"(lock_name text, of_occurrence text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s'
SET enable_seqscan = off AS $$
BEGIN
    PERFORM "@schema@"."@table@_v1_durably"();
    DELETE FROM "@schema@"."@table@_runs" r
        WHERE r.name = lock_name AND r.occurrence = of_occurrence
            AND r.forget_at > clock_timestamp();
    RETURN FOUND;
END
$$;
