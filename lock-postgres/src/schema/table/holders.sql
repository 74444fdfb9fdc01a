-- Holders of a lock beside each other (C33): their expiry, and the free slots.

-- Removes the holders whose TTL is over. Frees the lock if no holder is left. Waits for an extension in progress.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_expire"(
    lock_name text, INOUT last "@schema@"."@table@_grants"
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
BEGIN
    DELETE FROM "@schema@"."@table@_holders" h
        WHERE h.name = lock_name AND h.token >= last.oldest AND h.expires_at <= clock_timestamp();
    SELECT min(h.token), min(h.expires_at), (array_agg(h.label ORDER BY h.token))[1]
        INTO last.oldest, last.expires_at, last.label
        FROM "@schema@"."@table@_holders" h
        WHERE h.name = lock_name AND h.token >= last.oldest;
    IF last.oldest IS NULL THEN
        last.owner := NULL;
        last.permits := NULL;
        last.label := '';
        last.expires_at := '-infinity';
    END IF;
    UPDATE "@schema@"."@table@_grants" g
        SET owner = last.owner, permits = last.permits, oldest = last.oldest, label = last.label,
            expires_at = last.expires_at
        WHERE g.name = lock_name AND g.token = last.token;
END
$$;

-- Returns the slots for a request that fits beside the present holders; null if it does not fit (C33). A request
-- for permits gets the lowest free slots (C36); any other request gets no slots.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_slots"(
    lock_name text, last "@schema@"."@table@_grants", permits bigint, taken bigint
) RETURNS bigint[]
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    lowest bigint[];
BEGIN
    IF last.owner IS NOT NULL AND (permits IS NULL OR last.permits IS DISTINCT FROM permits) THEN
        RETURN NULL;
    END IF;
    SELECT coalesce(array_agg(free.slot ORDER BY free.slot), '{}') INTO lowest FROM (
        SELECT s.slot FROM generate_series(0, permits - 1) s (slot)
        EXCEPT SELECT unnest(h.slots) FROM "@schema@"."@table@_holders" h
            WHERE h.name = lock_name AND h.token >= last.oldest
        ORDER BY slot LIMIT taken) free;
    RETURN CASE WHEN cardinality(lowest) = taken THEN lowest END;
END
$$;
