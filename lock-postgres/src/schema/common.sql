-- Functions that the other functions use.

CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_now_us"() RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

-- Makes the commit of this transaction wait for the disk, whatever the session's default is.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_durably"() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;
