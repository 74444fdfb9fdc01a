-- Runs that succeeded (C42).

-- Records a run if `me` holds the lock under this token; returns false if the hold is over. The row of the lock
-- stays locked from the check to the commit, so that nobody is granted the lock in between.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_record"(
    lock_name text, me uuid, of_token bigint, of_occurrence text, remember_ms bigint
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '750ms'
SET enable_seqscan = off AS $$
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
    RETURN true;
END
$$;

-- Returns the recorded runs of a lock, or only that of one occurrence.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_runs"(lock_name text, of_occurrence text)
RETURNS TABLE (occurrence text, token bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '750ms'
SET enable_seqscan = off AS $$
BEGIN
    RETURN QUERY SELECT r.occurrence, r.token FROM "@schema@"."@table@_runs" r
        WHERE r.name = lock_name AND r.occurrence = coalesce(of_occurrence, r.occurrence)
            AND r.forget_at > clock_timestamp();
END
$$;

-- Forgets a run; returns true if it was recorded.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_forget"(lock_name text, of_occurrence text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '750ms'
SET enable_seqscan = off AS $$
BEGIN
    PERFORM "@schema@"."@table@_v1_durably"();
    DELETE FROM "@schema@"."@table@_runs" r
        WHERE r.name = lock_name AND r.occurrence = of_occurrence
            AND r.forget_at > clock_timestamp();
    RETURN FOUND;
END
$$;
