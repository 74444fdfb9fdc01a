-- Lists the holds of up to `at_most` locks whose names start with `prefix`; with `whole`, of the one lock called
-- `prefix`, held or not. Shows at most 8 digits of an owner. `left_us` is null if somebody else has written
-- a hold without an end.
--
-- C45: `granted_us` is the time of the grant, read from its token. It is null if the token is ahead of the clock,
-- as after the server's clock was set back.
--
-- JIT is off: each lock is found by its keys, and compiling the plan would take 30 times as long as running it.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_list"(
    prefix text, whole boolean, at_most bigint,
    OUT name text, OUT owner text, OUT token bigint, OUT left_us bigint, OUT label text,
    OUT granted_us bigint, OUT permits bigint, OUT slots bigint[], OUT waiters bigint,
    OUT counted bigint[]
) RETURNS SETOF record
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '750ms' SET jit = off AS $$
    SELECT n.name, left(h.owner::text, 8), h.token,
        (extract(epoch FROM nullif(h.expires_at, 'infinity') - clock_timestamp()) * 1000000)::bigint, h.label,
        CASE WHEN h.token <= "@schema@"."@table@_v1_now_us"() THEN h.token END, h.permits, h.slots,
        w.waiters, w.counted
    FROM (SELECT prefix COLLATE "C" WHERE whole UNION ALL (
        SELECT g.name FROM "@schema@"."@table@_grants" g
        WHERE NOT whole AND g.owner IS NOT NULL
            -- The names of a prefix follow each other, up to the prefix whose last character is the next one.
            AND starts_with(g.name, prefix) AND g.name >= prefix AND g.name <= CASE
                WHEN ascii(right(prefix, 1)) BETWEEN 32 AND 125
                THEN left(prefix, -1) || chr(ascii(right(prefix, 1)) + 1)
                ELSE (SELECT max(m.name) FROM "@schema@"."@table@_grants" m) END
            AND CASE WHEN g.permits IS NULL THEN g.expires_at > clock_timestamp()
                ELSE EXISTS (SELECT FROM "@schema@"."@table@_holders" o WHERE o.name = g.name
                    AND o.token >= g.oldest AND o.expires_at > clock_timestamp()) END
        ORDER BY g.name LIMIT at_most)) n (name)
    -- OFFSET keeps the planner from merging the view, so that each lock's holds are found by key.
    LEFT JOIN LATERAL (
        SELECT * FROM "@schema@"."@table@_holds" o WHERE o.name = n.name OFFSET 0
    ) h ON h.expires_at > clock_timestamp()
    CROSS JOIN LATERAL (
        SELECT count(*) AS waiters, array_agg(DISTINCT q.permits) FILTER (WHERE q.permits > 0) AS counted
        FROM "@schema@"."@table@_queue" q WHERE q.name = n.name
            AND q.place > coalesce((SELECT g.served FROM "@schema@"."@table@_grants" g
                WHERE g.name = n.name ORDER BY g.token DESC LIMIT 1), 0)
            AND q.seen_at > clock_timestamp() - interval '@waiter_liveness_ms@ milliseconds'
    ) w
    ORDER BY n.name, h.token
$$;

-- Ends the holds whose owner begins with `digits`, or all holds if `digits` is empty, and lets in the waiters
-- that then fit (C38). Returns the ended holds.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_evict"(
    lock_name text, digits text, clock_limit bigint,
    OUT name text, OUT owner text, OUT token bigint, OUT left_us bigint, OUT label text,
    OUT granted_us bigint, OUT permits bigint, OUT slots bigint[], OUT reserved bigint
) RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '750ms' AS $$
DECLARE
    owners uuid[];
BEGIN
    PERFORM FROM "@schema@"."@table@" l WHERE l.name = lock_name FOR UPDATE;
    owners := ARRAY(SELECT h.owner FROM "@schema@"."@table@_holds" h
        WHERE h.name = lock_name AND h.expires_at > clock_timestamp()
            AND left(h.owner::text, 8) = coalesce(digits, left(h.owner::text, 8)));
    IF owners = '{}' THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT lock_name, left(h.owner::text, 8), h.token,
            (extract(epoch FROM nullif(h.expires_at, 'infinity') - clock_timestamp()) * 1000000)::bigint, h.label,
            CASE WHEN h.token <= "@schema@"."@table@_v1_now_us"() THEN h.token END, h.permits, h.slots,
            (SELECT g.token + g.reserved FROM "@schema@"."@table@_grants" g
                WHERE g.name = lock_name AND g.token = h.token)
        FROM "@schema@"."@table@_holds" h WHERE h.name = lock_name AND h.owner = ANY (owners)
        ORDER BY h.token;
    -- All holds end before a waiter is let in: releasing the last one removes the expired ones.
    UPDATE "@schema@"."@table@_holders" h SET expires_at = '-infinity'
        WHERE h.name = lock_name AND h.owner = ANY (owners[:cardinality(owners) - 1]);
    PERFORM pg_notify(t.channel, t.message)
        FROM "@schema@"."@table@_v1_release"(lock_name, owners[cardinality(owners)], clock_limit) r,
        unnest(r.channels, r.messages) t (channel, message);
    -- The eviction is on disk before the answer, also if no waiter was let in.
    PERFORM "@schema@"."@table@_v1_durably"();
END
$$;

-- Forgets what nobody needs: marks of withdrawn claims, records of runs, waiters that died, and some locks that nobody
-- has used for a week. Rows that are locked stay for a later call.
--
-- The next token of a forgotten lock starts from the time, which is greater than a token of a week ago. A lock whose
-- token is ahead of the clock is kept. Marks and records are found by their time, which is in a variable: the planner
-- uses no index for a time that may change within the statement. Waiters and locks are read from one random page of
-- their table each. So the cost does not grow with the number of locks. JIT is off, since compiling a plan would take a
-- second.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_forget_unused"() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '750ms'
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    now_ts timestamptz := clock_timestamp();
    unused text[];
    cut_off bigint := "@schema@"."@table@_v1_now_us"() - 7 * 86400000000;
    a_page float8 := 100.0 * current_setting('block_size')::bigint;
    of_locks float8 := least(100, a_page / greatest(1, pg_relation_size('"@schema@"."@table@"')));
    of_queue float8 := least(100, a_page / greatest(1, pg_relation_size('"@schema@"."@table@_queue"')));
BEGIN
    DELETE FROM "@schema@"."@table@_withdrawn" w WHERE w.ctid = ANY (ARRAY(
        SELECT o.ctid FROM "@schema@"."@table@_withdrawn" o WHERE o.forget_at < now_ts
        ORDER BY o.forget_at LIMIT 1000 FOR UPDATE SKIP LOCKED));
    DELETE FROM "@schema@"."@table@_runs" r WHERE r.ctid = ANY (ARRAY(
        SELECT o.ctid FROM "@schema@"."@table@_runs" o WHERE o.forget_at < now_ts
        ORDER BY o.forget_at LIMIT 1000 FOR UPDATE SKIP LOCKED));
    DELETE FROM "@schema@"."@table@_queue" q WHERE q.ctid = ANY (ARRAY(
        SELECT o.ctid FROM "@schema@"."@table@_queue" o TABLESAMPLE SYSTEM (of_queue)
        WHERE o.seen_at < now_ts - interval '1 minute' FOR UPDATE SKIP LOCKED));
    unused := ARRAY(SELECT l.name FROM "@schema@"."@table@" l TABLESAMPLE SYSTEM (of_locks) WHERE NOT EXISTS (
            SELECT FROM "@schema@"."@table@_grants" g WHERE g.name = l.name AND (
                g.token > cut_off
                OR (g.owner IS NOT NULL AND g.expires_at > clock_timestamp())))
        AND NOT EXISTS (SELECT FROM "@schema@"."@table@_holders" h
            WHERE h.name = l.name AND h.expires_at > clock_timestamp())
        AND NOT EXISTS (SELECT FROM "@schema@"."@table@_queue" q WHERE q.name = l.name)
        FOR UPDATE OF l SKIP LOCKED);
    -- Checks again with the rows locked: a request may just have used one of them.
    DELETE FROM "@schema@"."@table@_holders" h
        WHERE h.name = ANY (unused) AND h.expires_at <= clock_timestamp();
    DELETE FROM "@schema@"."@table@_grants" g WHERE g.name = ANY (unused) AND NOT (
        g.token > cut_off
        OR (g.owner IS NOT NULL AND g.expires_at > clock_timestamp())
        OR EXISTS (SELECT FROM "@schema@"."@table@_holders" h WHERE h.name = g.name));
    DELETE FROM "@schema@"."@table@" l WHERE l.name = ANY (unused) AND NOT EXISTS (
        SELECT FROM "@schema@"."@table@_grants" g WHERE g.name = l.name);
    -- The commit does not wait for the disk: if a crash undoes it, the locks are forgotten later.
    PERFORM set_config('synchronous_commit', 'off', true);
END
$$;

-- Returns true if the next place in a queue would not be above the greatest one served. Logical replication
-- carries rows and no sequences.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_places_are_behind"() RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(max(g.served), 0) > coalesce(pg_sequence_last_value(
        pg_get_serial_sequence('"@schema@"."@table@_queue"', 'place')::regclass), 0)
        FROM "@schema@"."@table@_grants" g
$$;
