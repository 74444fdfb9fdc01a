-- The format of the tables and functions, and the routines that this script made, each with a digest of it. The format of
-- a set of locks is the number in the body of this function, which clients read when they connect. A client connects to
-- no other format than its own. A later format has functions of other names and drops those of the earlier one, so that
-- clients at work that know the earlier one alone are refused. Nor does a client connect where a routine is missing or is
-- not as it was made.
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
