-- Who may call the functions: nobody but those who are granted it. They work with the rights of their
-- owner, so that users of locks need none on the tables. A procedure has no rights, and is nobody's secret. Whoever was
-- granted the table by an earlier version of this script keeps its use. A role that may take locks may call what a later
-- version adds, too. What it was refused stays refused.
DO $migration$
DECLARE
    ours regprocedure;
    granted oid;
    is_new boolean;
BEGIN
    FOR ours IN SELECT p.oid FROM pg_proc p
        WHERE p.pronamespace = to_regnamespace('"@schema@"') AND p.prokind = 'f'
        AND (starts_with(p.proname, '@table@_v1_') OR starts_with(p.proname, '@table@_v2_'))
    LOOP
        -- What is left of version 1 was open to names of the caller's search_path.
        IF EXISTS (SELECT FROM pg_proc p WHERE p.oid = ours AND p.proconfig IS NULL) THEN
            EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, pg_temp', ours);
        END IF;
        is_new := (SELECT p.proacl IS NULL FROM pg_proc p WHERE p.oid = ours);
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', ours);
        FOR granted IN SELECT a.grantee FROM pg_class c, aclexplode(c.relacl) a
            WHERE c.oid = to_regclass('"@schema@"."@table@"')
            AND a.privilege_type = 'UPDATE' AND a.grantee NOT IN (0, c.relowner)
            UNION SELECT a.grantee FROM pg_proc p, aclexplode(p.proacl) a
            WHERE is_new AND p.oid IN (to_regproc('"@schema@"."@table@_v2_acquire"'),
                to_regproc('"@schema@"."@table@_v2_take"'))
            AND a.privilege_type = 'EXECUTE' AND a.grantee NOT IN (0, p.proowner)
        LOOP
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', ours, granted::regrole);
        END LOOP;
    END LOOP;
END
$migration$;
