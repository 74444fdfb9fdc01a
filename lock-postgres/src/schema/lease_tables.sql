-- The tables of the mode in which locks are rows.

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
    -- How many tokens after this one are reserved for the holder's client.
    reserved bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (name, token)
) WITH (fillfactor = 50);

-- A set of locks that version 1 of this script made holds its grants in the other table. Those move over,
-- with their tokens and holders. A function of version 1 that is under way amid this finds its columns gone, and
-- fails: it grants nothing that this version would not know of.
DO $migration$
BEGIN
    IF EXISTS (SELECT FROM pg_attribute a WHERE a.attname = 'token' AND NOT a.attisdropped
        AND a.attrelid = to_regclass('"@schema@"."@table@"'))
    THEN
        LOCK TABLE "@schema@"."@table@" IN ACCESS EXCLUSIVE MODE;
        INSERT INTO "@schema@"."@table@_grants" (name, token, owner, label, expires_at)
            SELECT l.name, l.token, l.owner, l.label, l.expires_at FROM "@schema@"."@table@" l;
        ALTER TABLE "@schema@"."@table@" DROP COLUMN token, DROP COLUMN owner, DROP COLUMN label,
            DROP COLUMN expires_at, DROP COLUMN process;
    END IF;
END
$migration$;

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
    seen_at timestamptz NOT NULL
) WITH (fillfactor = 50);

DO $migration$
BEGIN
    IF to_regclass('"@schema@"."@table@_queue_place"') IS NULL THEN
        CREATE INDEX "@table@_queue_place" ON "@schema@"."@table@_queue" (name, place);
    END IF;
END
$migration$;
