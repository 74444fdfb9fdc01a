-- Refuses objects of others, and objects that are not as this script makes them.
DO $migration$
DECLARE
    seen text;
BEGIN
    EXECUTE current_setting('leasehold.check') INTO seen;
    IF seen <> '' THEN
        RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'the schema @schema@ cannot be trusted with locks: ' || seen ||
            ': drop it, or run the script as its owner';
    END IF;
END
$migration$;
