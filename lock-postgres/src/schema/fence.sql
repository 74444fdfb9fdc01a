-- Returns the greatest token that a resource has seen; null if it has seen none.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_seen"(of_resource text)
RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT f.seen FROM "@schema@"."@table@_fences" AS f WHERE f.resource = of_resource
$$;

-- Accepts a token that is not below the greatest seen, and stores it. A lower token is an error, so that the
-- whole transaction of the caller fails (C24).
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_advance"(of_resource text, token bigint)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    greatest_seen bigint;
BEGIN
    PERFORM "@schema@"."@table@_v1_durably"();
    INSERT INTO "@schema@"."@table@_fences" AS f (resource, seen) VALUES (of_resource, token)
        ON CONFLICT (resource) DO UPDATE SET seen = greatest(f.seen, excluded.seen)
        RETURNING f.seen INTO greatest_seen;
    IF greatest_seen > token THEN
        RAISE EXCEPTION USING ERRCODE = 'LH003',
            MESSAGE = 'the token is stale: the resource has seen ' || greatest_seen,
            DETAIL = greatest_seen::text;
    END IF;
END
$$;
