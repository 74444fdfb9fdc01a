-- Writes the format of the tables and functions, and each routine that this script made with its digest. The
-- format is the number in the body of this function; clients read it when they connect. A client refuses every
-- format but its own. A later format uses other function names and drops the earlier functions, so that clients
-- that run and know only the earlier format are refused. A client also refuses a schema in which a routine is
-- missing or changed.
DO $migration$
DECLARE
    routines text;
BEGIN
    SELECT string_agg(p.proname || ':' || @digest@, ' ' ORDER BY p.proname COLLATE "C") INTO routines
        FROM pg_proc p WHERE p.pronamespace = to_regnamespace('"@schema@"')
        AND starts_with(p.proname, '@table@_v1_');
    EXECUTE format('CREATE OR REPLACE FUNCTION "@schema@"."@table@_format"() RETURNS bigint '
        'LANGUAGE sql IMMUTABLE AS %L', 'SELECT @format@ /* ' || routines || ' */');
END
$migration$;
REVOKE ALL ON FUNCTION "@schema@"."@table@_format" FROM PUBLIC;
