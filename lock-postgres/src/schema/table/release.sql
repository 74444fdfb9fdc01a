-- Ends the hold of `me`, and hands the lock over to all waiters that fit (C34). `released` is true if `me` held
-- the lock. After the commit the caller sends the `messages`, if any, to the `channels` of the new holders.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_release"(
    lock_name text, me uuid, clock_limit bigint,
    OUT released boolean, OUT channels text[], OUT messages text[]
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '750ms'
SET enable_seqscan = off AS $$
DECLARE
    held "@schema@"."@table@_grants";
    turn record;
    commit_waits text;
BEGIN
    PERFORM FROM "@schema@"."@table@" l WHERE l.name = lock_name FOR UPDATE;
    -- Reads the queue only now, with the row locked. An earlier waiter is seen; a later one finds the lock free.
    --
    -- The common case is one statement: an exclusive hold without waiters. The commit does not wait for the disk:
    -- if a crash loses the release, the lock is held until its TTL.
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
        -- One of several holders (C38).
        DELETE FROM "@schema@"."@table@_holders" h WHERE h.owner = me AND h.name = lock_name
            RETURNING h.expires_at > clock_timestamp() INTO released;
        released := coalesce(released, false);
        held := "@schema@"."@table@_v1_expire"(lock_name, held);
    END IF;
    -- With a clock that is too far off for a token nothing is handed over: the waiters find the lock free.
    IF EXISTS (SELECT FROM "@schema@"."@table@_queue" q
        WHERE q.name = lock_name AND q.place > held.served)
        AND extract(epoch FROM clock_timestamp()) * 1000000 <= clock_limit
    THEN
        SELECT * INTO turn
            FROM "@schema@"."@table@_v1_hand_over"(
                lock_name, held, NULL::uuid, clock_limit);
        IF turn.winners IS NOT NULL THEN
            channels := turn.channels;
            messages := turn.messages;
            RETURN;
        END IF;
    END IF;
    -- The commit does not wait for the disk: if a crash loses the release, the lock is held until its TTL.
    IF held.owner = me THEN
        UPDATE "@schema@"."@table@_grants" g
            SET owner = NULL, label = '', expires_at = '-infinity'
            WHERE g.name = lock_name AND g.token = held.token;
    END IF;
    PERFORM set_config('synchronous_commit', 'off', true);
END
$$;

-- Returns true if no time-out or cancel can have cut short a commit that began at `since` in the current
-- statement. Either ends the wait for synchronous standbys, and the server goes on as if they had the commit.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_is_surely_committed"(since timestamptz)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    time_out interval := current_setting('statement_timeout');
BEGIN
    RETURN clock_timestamp() - since < interval '500 milliseconds'
        AND (time_out = '0' OR clock_timestamp() - statement_timestamp() < time_out / 2);
END
$$;

-- Ends a hold, and notifies the next holders after the commit, in one request. A procedure may commit only
-- without rights and settings of its own, so its caller needs the right to call `release`.
--
-- P2: a hand-off that a standby may lack is not announced. The waiter asks again by itself. The commit of that
-- request waits for the standby, and no time-out ends it.
CREATE OR REPLACE PROCEDURE "@schema@"."@table@_v1_release_and_tell"(
    lock_name text, me uuid, clock_limit bigint, INOUT released boolean DEFAULT NULL
)
LANGUAGE plpgsql AS $$
DECLARE
    ended pg_catalog.record;
    since pg_catalog.timestamptz;
BEGIN
    -- An assignment: selecting from the function would cost one more statement.
    ended := "@schema@"."@table@_v1_release"(lock_name, me, clock_limit);
    released := ended.released;
    IF ended.messages IS NOT NULL THEN
        since := pg_catalog.clock_timestamp();
        COMMIT;
        IF "@schema@"."@table@_v1_is_surely_committed"(since) THEN
            PERFORM pg_catalog.pg_notify(t.channel, t.message)
                FROM unnest(ended.channels, ended.messages) t (channel, message);
        END IF;
    END IF;
END
$$;

-- C19: takes back grants and places in the queue, and marks the claims so that late requests are refused.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_withdraw"(
    lock_name text, owners uuid[], clock_limit bigint
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '750ms'
SET enable_seqscan = off AS $$
DECLARE
    me uuid;
    ended record;
    waits boolean := false;
BEGIN
    PERFORM "@schema@"."@table@_v1_enter"(lock_name);
    INSERT INTO "@schema@"."@table@_withdrawn" (owner, forget_at)
        SELECT DISTINCT o.owner, clock_timestamp() + interval '@withdrawal_remembered_ms@ milliseconds'
            FROM unnest(owners) o (owner)
        ON CONFLICT (owner) DO UPDATE SET forget_at = excluded.forget_at;
    DELETE FROM "@schema@"."@table@_queue" q WHERE q.owner = ANY (owners);
    FOREACH me IN ARRAY owners LOOP
        SELECT * INTO ended FROM "@schema@"."@table@_v1_release"(lock_name, me, clock_limit);
        PERFORM pg_notify(t.channel, t.message)
            FROM unnest(ended.channels, ended.messages) t (channel, message);
        waits := waits OR current_setting('synchronous_commit') <> 'off';
    END LOOP;
    IF waits THEN
        -- One claim may have let in a waiter, although the next needs no commit on disk.
        PERFORM "@schema@"."@table@_v1_durably"();
    END IF;
END
$$;
