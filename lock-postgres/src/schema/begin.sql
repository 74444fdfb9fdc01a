-- Refuses a schema of a later format, and a table that has our table's name and other columns. Notes the routines
-- that exist before the script runs, for rights.sql.
DO $migration$
DECLARE
    found bigint;
BEGIN
    IF to_regproc('"@schema@"."@table@_format"') IS NOT NULL THEN
        EXECUTE 'SELECT "@schema@"."@table@_format"()' INTO found;
    END IF;
    IF found > @format@ THEN
        RAISE EXCEPTION USING ERRCODE = 'LH004',
            MESSAGE = 'the schema of the locks is of format ' || found ||
                ', and this script makes format @format@: use a newer version of leasehold';
    END IF;
    IF EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = to_regclass('"@schema@"."@table@"')
        AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> 'name')
    THEN
        RAISE EXCEPTION USING ERRCODE = 'LH004', MESSAGE = 'the table @schema@.@table@ is not one of leasehold: '
            'choose another `lock_schema` or `lock_table`';
    END IF;
    PERFORM set_config('leasehold.routines', ARRAY(SELECT p.oid FROM pg_proc p
        WHERE p.pronamespace = to_regnamespace('"@schema@"'))::text, true);
    PERFORM set_config('client_min_messages', 'warning', true);
END
$migration$;
