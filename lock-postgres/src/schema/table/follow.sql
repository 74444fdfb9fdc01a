-- Waits of a waiter that is far from its turn.
--
-- Until version 19 the server wakes every session of a database that listens, whatever it listens to. So only the
-- first waiters of a lock listen. Each other one waits for a lock of the server's own, which the session of a waiter
-- some places before it holds until that one has its turn:
--
--   place   1   2   3   4   5   6   7   8
--           +-- listen ---+   +-- wait ---+
--           ^                 | in the server, each for the one four places before it
--           +-----------------+
--
-- A wait that ends too early makes one more session listen, and nothing worse. A wait that ends too late costs a poll
-- (C28), since each waiter also looks at the lock once a second.

-- Stops to listen until the waiter that stands `places` before `me` has its turn, and listens again. `my_key` is the
-- key that stands for the claim, or null if this session has it already. `listens` is false if that took too long;
-- then it is to be called again, so that no old snapshot is kept. `message` tells of a grant that was made meanwhile.
-- It may commit because it has no rights of its own, nor settings.
CREATE OR REPLACE PROCEDURE "@schema@"."@table@_v1_follow"(
    lock_name text, me uuid, my_key bigint, my_listener bigint, places bigint,
    INOUT listens boolean, INOUT message text
)
LANGUAGE plpgsql AS $$
DECLARE
    key_ahead bigint := "@schema@"."@table@_v1_key_ahead"(lock_name, me, places);
BEGIN
    PERFORM pg_catalog.pg_advisory_lock(my_key);
    IF key_ahead IS NOT NULL THEN
        UNLISTEN *;
        COMMIT;
        BEGIN
            PERFORM pg_catalog.pg_advisory_xact_lock_shared(key_ahead);
        EXCEPTION WHEN lock_not_available THEN
            listens := false;
            RETURN;
        END;
    END IF;
    EXECUTE pg_catalog.format('LISTEN %I', 'leasehold_' || pg_catalog.to_hex(my_listener));
    COMMIT;
    -- Messages before that were not heard.
    listens := true;
    message := "@schema@"."@table@_v1_message"(lock_name, me);
END
$$;

-- Returns the message to `me` of its grant, if it has one.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_message"(lock_name text, me uuid) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    held "@schema@"."@table@_grants";
BEGIN
    SELECT * INTO held FROM "@schema@"."@table@_grants" g
        WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1;
    IF held.owner = me AND held.expires_at > clock_timestamp() THEN
        RETURN concat_ws(':', replace(me::text, '-', ''), held.token,
            floor(extract(epoch FROM held.expires_at - clock_timestamp()) * 1000)::bigint,
            greatest(held.token, floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint));
    END IF;
    RETURN NULL;
END
$$;

-- The key of the claim that waits so many places before that of `me`; null if there is none. Anyone may see which keys
-- are held, so it is a hash of the owner.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_key_ahead"(lock_name text, me uuid, places bigint)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
BEGIN
    RETURN (SELECT ('x' || encode(substr(sha256(convert_to(
            replace(q.owner::text, '-', ''), 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint
        FROM "@schema@"."@table@_queue" q
        WHERE q.name = lock_name
        AND q.place < (SELECT m.place FROM "@schema@"."@table@_queue" m WHERE m.owner = me)
        ORDER BY q.place DESC OFFSET places - 1 LIMIT 1);
END
$$;
