-- The tables of the locks and of those who hold them or wait.

-- One row a name that is in use. Its only purpose is to be locked: each function locks it first, and only
-- then looks at what belongs to the lock. It is never changed, so it has no old versions.
CREATE TABLE IF NOT EXISTS "@schema@"."@table@" (
    name text COLLATE "C" PRIMARY KEY
);

-- The grants. A new grant is a new row in place of the one before it, with another key. So the newest is found by
-- its key, however many old versions a long transaction of somebody else makes the server keep. A lock is free if its
-- newest grant has no owner or its time is over.
CREATE TABLE IF NOT EXISTS "@schema@"."@table@_grants" (
    name text COLLATE "C" NOT NULL,
    token bigint NOT NULL CHECK (token BETWEEN 0 AND 9007199254740991),
    owner uuid,
    label text NOT NULL DEFAULT '',
    expires_at timestamptz NOT NULL DEFAULT '-infinity',
    -- The greatest place in the queue that was served.
    served bigint NOT NULL DEFAULT 0,
    -- Number of tokens after this one that are reserved for the holder's client.
    reserved bigint NOT NULL DEFAULT 0,
    -- For a lock that several may hold beside each other: 0 if they share it, n if each has some of n permits. They are
    -- rows of the table below. The owner here is then one that nobody is, the label that of the first of
    -- them, and before `expires_at` the time of none of them is over. Null for an exclusive hold.
    permits bigint CHECK (permits BETWEEN 0 AND 65535),
    -- No token of theirs is below this one.
    oldest bigint,
    -- The key of the advisory lock that the holder's client keeps, if the hold ends with its connection; for those
    -- who hold it beside each other, of one of them. Null if only the time ends the hold.
    session bigint,
    PRIMARY KEY (name, token)
) WITH (fillfactor = 50);

-- Holders of a lock beside each other (C33). Each is extended and ended by itself (C38).
CREATE TABLE IF NOT EXISTS "@schema@"."@table@_holders" (
    owner uuid PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    -- Slots of a hold that is one of n (C36).
    slots bigint[] NOT NULL,
    label text NOT NULL,
    expires_at timestamptz NOT NULL,
    -- As in the table of the grants.
    session bigint,
    UNIQUE (name, token)
) WITH (fillfactor = 50);

-- All holds, of whatever kind.
CREATE OR REPLACE VIEW "@schema@"."@table@_holds" AS
    SELECT g.name, g.owner, g.token, g.permits, NULL::bigint[] AS slots, g.label, g.expires_at
        FROM "@schema@"."@table@_grants" g WHERE g.owner IS NOT NULL AND g.permits IS NULL
    UNION ALL
    SELECT h.name, h.owner, h.token, g.permits, h.slots, h.label, h.expires_at
        FROM "@schema@"."@table@_grants" g JOIN "@schema@"."@table@_holders" h
        ON h.name = g.name AND h.token >= g.oldest WHERE g.permits IS NOT NULL;

-- The waiters, in order of place. A crash may empty it: waiters come back by themselves.
CREATE UNLOGGED TABLE IF NOT EXISTS "@schema@"."@table@_queue" (
    owner uuid PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY,
    ttl_ms bigint NOT NULL,
    label text NOT NULL,
    -- The number of the channel on which the waiter's client listens; null if the waiter only polls.
    -- Only users of the locks may know it.
    listener bigint,
    seen_at timestamptz NOT NULL,
    -- As in the table of the grants.
    permits bigint CHECK (permits BETWEEN 0 AND 65535),
    -- Number of the permits that it asks for.
    taken bigint NOT NULL DEFAULT 0,
    session bigint,
    UNIQUE (name, place, owner)
) WITH (fillfactor = 50);

DO $migration$
DECLARE
    places regclass;
    greatest_served bigint;
BEGIN
    -- A crash or a failover empties the queue, but the places go on from where they were: one that is not above
    -- the last that was served is no place. From Postgres 15 on, the sequence of such a table would begin anew.
    places := pg_get_serial_sequence('"@schema@"."@table@_queue"', 'place');
    IF (SELECT c.relpersistence = 'u' FROM pg_class c WHERE c.oid = places) THEN
        EXECUTE format('ALTER SEQUENCE %s SET LOGGED', places);
    END IF;
    -- Logical replication carries rows and no sequences: after a switchover the places would begin anew, too.
    SELECT max(g.served) INTO greatest_served FROM "@schema@"."@table@_grants" g;
    IF greatest_served >= nextval(places) THEN
        PERFORM setval(places, greatest_served);
    END IF;
END
$migration$;
