-- The tables of a set of locks.

-- The schema is made only if it is not there, so that its owner need not be allowed to make others.
DO $migration$
BEGIN
    IF to_regnamespace('"@schema@"') IS NULL THEN
        CREATE SCHEMA "@schema@";
    END IF;
    PERFORM set_config('client_min_messages', 'warning', true);
END
$migration$;

-- One row a name, never deleted: its token must not start again. A lock is free if its row has no owner
-- or its time is over. Each function locks the row first, and only then looks at what belongs to it.
CREATE TABLE IF NOT EXISTS "@schema@"."@table@" (
    name text COLLATE "C" PRIMARY KEY,
    token bigint NOT NULL CHECK (token BETWEEN 0 AND 9007199254740991),
    owner uuid,
    label text NOT NULL DEFAULT '',
    expires_at timestamptz NOT NULL DEFAULT '-infinity',
    -- The process of the server whose session holds it, where a hold is an advisory lock.
    process integer
) WITH (fillfactor = 50);

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

-- Claims that were withdrawn: a request of one that comes late is refused (C19).
CREATE UNLOGGED TABLE IF NOT EXISTS "@schema@"."@table@_withdrawn" (
    owner uuid PRIMARY KEY,
    forget_at timestamptz NOT NULL
);

-- CREATE INDEX waits for everyone who writes to the table, also where the index is there already. The
-- catalog is asked first, so that a script that is run again does not wait.
DO $migration$
BEGIN
    IF to_regclass('"@schema@"."@table@_queue_place"') IS NULL THEN
        CREATE INDEX "@table@_queue_place" ON "@schema@"."@table@_queue" (name, place);
    END IF;
    IF to_regclass('"@schema@"."@table@_withdrawn_forget"') IS NULL THEN
        CREATE INDEX "@table@_withdrawn_forget" ON "@schema@"."@table@_withdrawn" (forget_at);
    END IF;
END
$migration$;

-- The greatest token that each resource has seen.
CREATE TABLE IF NOT EXISTS "@schema@"."@table@_fences" (
    resource text COLLATE "C" PRIMARY KEY,
    seen bigint NOT NULL
) WITH (fillfactor = 50);
