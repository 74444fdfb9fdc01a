-- Requests of many callers of one client, in one transaction.
--
-- Only the common case is carried out; each other request is left, and its caller sends it alone. A lock whose
-- row another transaction has locked is left too: waiting for it would keep the rows of the other locks. Two
-- waits cannot be avoided: for a name that another transaction inserts or deletes, and for a grant that is being
-- extended. `lock_timeout` bounds both. After it nothing is carried out, and each request is sent alone (C19).
--
-- Locks are taken in the order of their names, as in a batch of extensions. So two batches for the same locks
-- never wait for each other in a circle.

-- Grants each lock that is free and has no waiters. Returns a row for each grant: its position in the request,
-- its token, and the time. All claims are exclusive.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_acquire_together"(
    names text[], owners uuid[], ttls_ms bigint[], labels text[], clock_limit bigint,
    OUT part bigint, OUT token bigint, OUT now_us bigint
) RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET lock_timeout = '20ms' AS $$
DECLARE
    -- Only locks that look free: the row of a held lock would stay locked until the grants are on disk.
    ours text[] := ARRAY(SELECT l.name FROM "@schema@"."@table@" l
        WHERE l.name = ANY (names) AND (
            SELECT g.owner FROM "@schema@"."@table@_grants" g
            WHERE g.name = l.name ORDER BY g.token DESC LIMIT 1) IS NULL
        FOR UPDATE OF l SKIP LOCKED);
    new_ones text[];
    is_one_granted boolean := false;
    i bigint;
BEGIN
    IF cardinality(ours) < cardinality(names) THEN
        WITH made AS (
            INSERT INTO "@schema@"."@table@" AS l (name)
                SELECT n.name FROM unnest(names) n (name)
                WHERE NOT EXISTS (SELECT FROM "@schema@"."@table@" l2 WHERE l2.name = n.name)
                ORDER BY n.name COLLATE "C"
                ON CONFLICT DO NOTHING RETURNING l.name)
            SELECT array_agg(m.name) INTO new_ones FROM made m;
    END IF;
    -- With the rows locked, reads what belongs to the locks, as in `acquire` (C19).
    FOR i IN SELECT a.n FROM unnest(names) WITH ORDINALITY AS a (name, n) ORDER BY a.name COLLATE "C"
    LOOP
        part := i;
        IF names[i] = ANY (new_ones) THEN
            SELECT a.token, a.now_us INTO token, now_us FROM "@schema@"."@table@_v1_acquire"(
                names[i], owners[i], ttls_ms[i], labels[i], NULL::bigint, 0, false,
                NULL::bigint, clock_limit) a;
        ELSIF names[i] = ANY (ours) THEN
            now_us := extract(epoch FROM clock_timestamp()) * 1000000;
            UPDATE "@schema@"."@table@_grants" g
                SET token = greatest(g.token + g.reserved + 1, now_us), reserved = 0,
                    owner = owners[i], label = labels[i],
                    expires_at = clock_timestamp() + ttls_ms[i] * interval '1 millisecond'
                WHERE g.name = names[i] AND g.token = (
                    SELECT t.token FROM "@schema@"."@table@_grants" t
                    WHERE t.name = names[i] ORDER BY t.token DESC LIMIT 1)
                AND g.owner IS NULL AND g.permits IS NULL AND now_us <= clock_limit
                AND NOT EXISTS (SELECT FROM "@schema@"."@table@_withdrawn" w
                    WHERE w.owner = owners[i])
                AND NOT EXISTS (SELECT FROM "@schema@"."@table@_queue" q
                    WHERE q.name = names[i] AND q.place > g.served)
                RETURNING g.token INTO token;
        ELSE
            token := NULL;
        END IF;
        IF token IS NOT NULL THEN
            is_one_granted := true;
            RETURN NEXT;
        END IF;
    END LOOP;
    IF is_one_granted THEN
        PERFORM "@schema@"."@table@_v1_durably"();
    ELSIF new_ones IS NULL THEN
        -- Nothing was written that must be on disk.
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
END
$$;

-- Ends each hold that is exclusive and has no waiters. Returns the position in the request of each hold that it
-- ended. As in `release`, the commit does not wait for the disk.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_release_together"(names text[], owners uuid[])
RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET lock_timeout = '20ms' AS $$
DECLARE
    ours text[] := ARRAY(SELECT l.name FROM "@schema@"."@table@" l
        WHERE l.name = ANY (names) FOR UPDATE SKIP LOCKED);
    i bigint;
BEGIN
    FOR i IN SELECT a.n FROM unnest(names) WITH ORDINALITY AS a (name, n)
        WHERE a.name = ANY (ours) ORDER BY a.name COLLATE "C"
    LOOP
        UPDATE "@schema@"."@table@_grants" g
            SET owner = NULL, label = '', expires_at = '-infinity'
            WHERE g.name = names[i] AND g.token = (
                SELECT t.token FROM "@schema@"."@table@_grants" t
                WHERE t.name = names[i] ORDER BY t.token DESC LIMIT 1)
            AND g.owner = owners[i] AND g.expires_at > clock_timestamp()
            AND NOT EXISTS (SELECT FROM "@schema@"."@table@_queue" q
                WHERE q.name = names[i] AND q.place > g.served);
        IF FOUND THEN
            RETURN NEXT i;
        END IF;
    END LOOP;
    PERFORM set_config('synchronous_commit', 'off', true);
END
$$;
