-- Holds that end with the connection of their client. Each such client keeps a session with an advisory lock,
-- whose key stands beside the hold.

-- Refuses a client whose session has ended or is at another server, since its hold would end at once. STRICT:
-- does nothing if holds do not end with a session.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_refuse_if_gone"(my_session bigint) RETURNS void
LANGUAGE plpgsql STRICT
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_try_advisory_xact_lock_shared(my_session) THEN
        RAISE EXCEPTION USING ERRCODE = 'LH005', MESSAGE = 'the session of the client is gone';
    END IF;
END
$$;

-- Shortens a hold whose session is gone, and returns its end. For holders beside each other, returns the time
-- before which no hold expires. The caller has locked the row of the lock.
--
-- P2: the holder may believe in its hold until it notices, so the hold lasts for a grace period.
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
