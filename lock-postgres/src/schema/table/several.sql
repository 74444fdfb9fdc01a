-- Several locks in one transaction (C39).

-- Takes the locks for these claims, in their order, and stops before the first that is not free. All are of one kind:
-- `my_permits` is null for exclusive holds. There is a row for each lock that was granted: its token, and as from
-- `acquire_beside` the slots.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_acquire_while_free"(
    names text[], owners uuid[], ttls_ms bigint[], labels text[], my_permits bigint, wanted bigint,
    my_session bigint, clock_limit bigint,
    OUT token bigint, OUT now_us bigint, OUT slots bigint[]
) RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s'
SET enable_seqscan = off AS $$
BEGIN
    FOR i IN 1 .. cardinality(names) LOOP
        -- C19: a lock whose row somebody else has is not free now. To wait for it would keep the rows of the locks
        -- before it from others.
        PERFORM FROM "@schema@"."@table@" l WHERE l.name = names[i] FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            INSERT INTO "@schema@"."@table@" (name) VALUES (names[i]) ON CONFLICT DO NOTHING;
            EXIT WHEN NOT FOUND;
        END IF;
        IF my_permits IS NULL THEN
            SELECT a.token, a.now_us INTO token, now_us FROM "@schema@"."@table@_v1_acquire"(
                names[i], owners[i], ttls_ms[i], labels[i], false, NULL, my_session,
                clock_limit) a;
        ELSE
            SELECT a.token, a.now_us, a.slots INTO token, now_us, slots
                FROM "@schema@"."@table@_v1_acquire_beside"(
                    names[i], owners[i], ttls_ms[i], labels[i], my_permits, wanted, false, NULL,
                    my_session, clock_limit) a;
        END IF;
        EXIT WHEN token IS NULL;
        RETURN NEXT;
    END LOOP;
END
$$;
