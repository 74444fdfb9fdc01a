-- The format of the tables and functions. Clients read the number in the body when they connect, and never call the
-- function. The texts of the routines of a published format do not change: a change of one makes a new format, whose
-- routines have other names. The next format keeps the routines of this one as they are, so that clients at work go on
-- and others still connect. The format after the next one drops them.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_format"() RETURNS bigint
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$SELECT @format@$$;
REVOKE ALL ON FUNCTION "@schema@"."@table@_format" FROM PUBLIC;
