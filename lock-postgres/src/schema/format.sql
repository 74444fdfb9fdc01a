-- Which format the tables and functions have. The format of a set of locks is the number in the body of this function,
-- which clients read when they connect. A client connects to no other format than its own. A later format has functions
-- of other names and drops those of the earlier one, so that clients at work that know the earlier one alone are refused.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_format"() RETURNS bigint
LANGUAGE sql IMMUTABLE AS 'SELECT @format@';
REVOKE ALL ON FUNCTION "@schema@"."@table@_format" FROM PUBLIC;
