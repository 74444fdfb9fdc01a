-- Refuses a schema of a later format, and a table that has our table's name and other columns. Calls no routine of the
-- schema.
DO $migration$
DECLARE
    found bigint := (SELECT coalesce(substring(p.prosrc FROM '^SELECT ([0-9]+)')::bigint, @format@ + 1)
        FROM pg_proc p WHERE p.pronamespace = to_regnamespace('"@schema@"') AND p.proname = '@table@_format'
        ORDER BY 1 DESC LIMIT 1);
BEGIN
    IF found > @format@ THEN
        RAISE EXCEPTION USING ERRCODE = 'LH004',
            MESSAGE = 'the schema of the locks is of format ' || found ||
                ', and this script makes format @format@: use a newer version of leasehold';
    END IF;
    IF EXISTS (SELECT FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relnamespace = to_regnamespace('"@schema@"') AND c.relname = '@table@'
        AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> 'name')
    THEN
        RAISE EXCEPTION USING ERRCODE = 'LH004', MESSAGE = 'the table @schema@.@table@ is not one of leasehold: '
            'choose another `lock_schema` or `lock_table`';
    END IF;
END
$migration$;
