-- Revokes the routines from everyone except the roles that were granted them, whatever the default rights of the
-- database are. Functions work with the rights of their owner, so users of locks need no rights on the tables. A
-- role that may call `acquire` is also granted each routine that a later script adds. A routine that was revoked
-- from it stays revoked.
DO $migration$
DECLARE
    ours regprocedure;
    granted oid;
BEGIN
    FOR ours IN SELECT p.oid FROM pg_proc p
        WHERE p.pronamespace = to_regnamespace('"@schema@"')
        AND starts_with(p.proname, '@table@_v1_')
    LOOP
        EXECUTE format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', ours);
        CONTINUE WHEN ours::oid = ANY (current_setting('leasehold.routines')::oid[]);
        FOR granted IN SELECT a.grantee FROM pg_proc p, aclexplode(p.proacl) a
            WHERE p.oid = to_regproc('"@schema@"."@table@_v1_acquire"')
            AND a.privilege_type = 'EXECUTE' AND a.grantee NOT IN (0, p.proowner)
        LOOP
            EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO %s', ours, granted::regrole);
        END LOOP;
    END LOOP;
END
$migration$;
