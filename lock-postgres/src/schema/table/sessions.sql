-- Holds that end with the connection of their client: each such client keeps a session that has an advisory lock. Its
-- key stands beside the hold.

-- Refuses a client whose session is not there: it has ended, or is at another server. Such a hold would end at once.
-- Strict, so that it does nothing where holds do not end with a session.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_refuse_if_gone"(my_session bigint) RETURNS void
LANGUAGE plpgsql STRICT
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_try_advisory_xact_lock_shared(my_session) THEN
        RAISE EXCEPTION USING ERRCODE = 'LH005', MESSAGE = 'the session of the client is gone';
    END IF;
END
$$;

-- Lets a hold end soon whose client's session is gone, and returns its end; for those who hold the lock beside each
-- other, the time before which the hold of none of them is over. The row of the lock is locked.
--
-- P2: the holder may believe until it has noticed, so the hold lasts for a while yet.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_end_of"(
    lock_name text, last "@schema@"."@table@_grants"
) RETURNS timestamptz
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    until timestamptz := clock_timestamp() + interval '@session_grace_ms@ milliseconds';
    ends_at timestamptz;
BEGIN
    IF last.permits IS NULL THEN
        IF pg_try_advisory_xact_lock_shared(last.session) THEN
            UPDATE "@schema@"."@table@_grants" g
                SET expires_at = least(g.expires_at, until), session = NULL
                WHERE g.name = lock_name AND g.token = last.token AND g.session = last.session
                RETURNING g.expires_at INTO ends_at;
        END IF;
        RETURN coalesce(ends_at, last.expires_at);
    END IF;
    UPDATE "@schema@"."@table@_holders" h
        SET expires_at = least(h.expires_at, until), session = NULL
        WHERE h.name = lock_name AND h.token >= last.oldest
            AND CASE WHEN h.session IS NOT NULL
                THEN pg_try_advisory_xact_lock_shared(h.session) ELSE false END;
    IF FOUND THEN
        UPDATE "@schema@"."@table@_grants" g SET expires_at = least(g.expires_at, until)
            WHERE g.name = lock_name AND g.token = last.token
            RETURNING g.expires_at INTO ends_at;
    END IF;
    RETURN coalesce(ends_at, last.expires_at);
END
$$;
