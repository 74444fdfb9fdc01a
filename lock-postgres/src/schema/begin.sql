-- Notes the check for what others made, and the routines that exist before the script runs, for rights.sql.
DO $migration$
BEGIN
    PERFORM set_config('leasehold.routines', ARRAY(SELECT p.oid FROM pg_proc p
        WHERE p.pronamespace = to_regnamespace('"@schema@"'))::text, true);
    PERFORM set_config('client_min_messages', 'warning', true);
    PERFORM set_config('leasehold.check', $check$
@check@$check$, true);
END
$migration$;
