-- The places of the waiters.
DO $migration$
DECLARE
    places regclass;
    greatest_served bigint;
BEGIN
    -- A crash or a failover empties the queue, but the places must go on: a place that is not above the last one
    -- served is not in the queue. From Postgres 15 on, the sequence of an unlogged table would restart.
    places := pg_get_serial_sequence('"@schema@"."@table@_queue"', 'place');
    IF (SELECT c.relpersistence = 'u' FROM pg_class c WHERE c.oid = places) THEN
        EXECUTE format('ALTER SEQUENCE %s SET LOGGED', places);
    END IF;
    -- Logical replication carries rows and no sequences, so after a switchover the places would restart too.
    SELECT max(g.served) INTO greatest_served FROM "@schema@"."@table@_grants" g;
    IF greatest_served >= nextval(places) THEN
        PERFORM setval(places, greatest_served);
    END IF;
END
$migration$;
