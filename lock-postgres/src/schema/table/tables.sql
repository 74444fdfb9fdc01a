-- Tables of the locks, their holders and their waiters.

-- One row for each name in use, only to be locked. Each function locks the row first, and then reads what belongs
-- to the lock. The row never changes, so it has no old versions.
CREATE TABLE IF NOT EXISTS "@schema@"."@table@" (
    name text COLLATE "C" PRIMARY KEY
);

-- The grants. A new grant replaces the row of the one before it, under a new key. So the newest grant is found by
-- its key, however many old versions a long transaction elsewhere makes the server keep. A lock is free if its
-- newest grant has no owner or has expired.
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
    -- Null for an exclusive hold. Otherwise the holders are rows of the table below: 0 if they share the lock, n
    -- if each has some of n permits. The owner in this row is then an id that no claim has, the label is the
    -- first holder's, and no hold expires before `expires_at`.
    permits bigint CHECK (permits BETWEEN 0 AND 65535),
    -- The lowest token of the holders in the table below.
    oldest bigint,
    -- Key of the advisory lock of the holder's session, if the hold ends with its connection; of one of the
    -- sessions if there are several holders. Null if only the TTL ends the hold.
    session bigint,
    PRIMARY KEY (name, token)
) WITH (fillfactor = 50);

-- Holders of a lock beside each other (C33). Each hold is extended and ended by itself (C38).
CREATE TABLE IF NOT EXISTS "@schema@"."@table@_holders" (
    owner uuid PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    -- Slots of a hold of one or more of n permits (C36).
    slots bigint[] NOT NULL,
    label text NOT NULL,
    expires_at timestamptz NOT NULL,
    -- See the table of grants.
    session bigint,
    UNIQUE (name, token)
) WITH (fillfactor = 50);

-- All holds, of all kinds.
CREATE OR REPLACE VIEW "@schema@"."@table@_holds" AS
    SELECT g.name, g.owner, g.token, g.permits, NULL::bigint[] AS slots, g.label, g.expires_at
        FROM "@schema@"."@table@_grants" g WHERE g.owner IS NOT NULL AND g.permits IS NULL
    UNION ALL
    SELECT h.name, h.owner, h.token, g.permits, h.slots, h.label, h.expires_at
        FROM "@schema@"."@table@_grants" g JOIN "@schema@"."@table@_holders" h
        ON h.name = g.name AND h.token >= g.oldest WHERE g.permits IS NOT NULL;

-- The waiters, in order of place. A crash may empty the table: waiters queue again by themselves.
CREATE UNLOGGED TABLE IF NOT EXISTS "@schema@"."@table@_queue" (
    owner uuid PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY,
    ttl_ms bigint NOT NULL,
    label text NOT NULL,
    -- Number of the channel on which the waiter's client listens; null if the waiter only polls. Only users of
    -- the locks may know it.
    listener bigint,
    seen_at timestamptz NOT NULL,
    -- See the table of grants.
    permits bigint CHECK (permits BETWEEN 0 AND 65535),
    -- Number of permits that the waiter asks for.
    taken bigint NOT NULL DEFAULT 0,
    session bigint,
    UNIQUE (name, place, owner)
) WITH (fillfactor = 50);

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
