-- Who may call the functions: nobody but those who are granted it. They work with the rights of their
-- owner, so that users of locks need none on the tables. A procedure has no rights, and is nobody's secret. A role that
-- may take locks may call what a later version adds, too. What it was refused stays refused.
DO $migration$
DECLARE
    ours regprocedure;
    granted oid;
    is_new boolean;
BEGIN
    FOR ours IN SELECT p.oid FROM pg_proc p
        WHERE p.pronamespace = to_regnamespace('"@schema@"') AND p.prokind = 'f'
        AND starts_with(p.proname, '@table@_v1_')
    LOOP
        is_new := (SELECT p.proacl IS NULL FROM pg_proc p WHERE p.oid = ours);
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', ours);
        FOR granted IN SELECT a.grantee FROM pg_proc p, aclexplode(p.proacl) a
            WHERE is_new AND p.oid IN (to_regproc('"@schema@"."@table@_v1_acquire"'),
                to_regproc('"@schema@"."@table@_v1_take"'))
            AND a.privilege_type = 'EXECUTE' AND a.grantee NOT IN (0, p.proowner)
        LOOP
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', ours, granted::regrole);
        END LOOP;
    END LOOP;
END
$migration$;
