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
    UNIQUE (name, token)
) WITH (fillfactor = 50);

-- All holds, of all kinds. Replacing the view would wait for each transaction that has read it, and requests would wait
-- for that.
DO $migration$
BEGIN
    IF to_regclass('"@schema@"."@table@_holds"') IS NULL THEN
        CREATE VIEW "@schema@"."@table@_holds" AS
            SELECT g.name, g.owner, g.token, g.permits, NULL::bigint[] AS slots, g.label, g.expires_at
                FROM "@schema@"."@table@_grants" g WHERE g.owner IS NOT NULL AND g.permits IS NULL
            UNION ALL
            SELECT h.name, h.owner, h.token, g.permits, h.slots, h.label, h.expires_at
                FROM "@schema@"."@table@_grants" g JOIN "@schema@"."@table@_holders" h
                ON h.name = g.name AND h.token >= g.oldest WHERE g.permits IS NOT NULL;
    END IF;
END
$migration$;

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
    UNIQUE (name, place, owner)
) WITH (fillfactor = 50);

-- Runs that succeeded (C42).
CREATE TABLE IF NOT EXISTS "@schema@"."@table@_runs" (
    name text COLLATE "C" NOT NULL,
    occurrence text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    forget_at timestamptz NOT NULL,
    PRIMARY KEY (name, occurrence),
    -- An index of the table itself: CREATE INDEX would wait for all writers, even if the index exists.
    UNIQUE (forget_at, name, occurrence)
);

-- Revokes the right to create triggers on the tables, which default rights may grant: a trigger would run with the rights
-- of the owner of the functions.
DO $migration$
DECLARE
    granted record;
BEGIN
    FOR granted IN SELECT c.oid::regclass AS class, coalesce(r.oid::regrole::text, 'PUBLIC') AS whom
        FROM pg_class c CROSS JOIN aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
        WHERE c.relnamespace = to_regnamespace('"@schema@"') AND c.relname = ANY (ARRAY[@relations@]::name[])
            AND c.relowner = (SELECT o.oid FROM pg_roles o WHERE o.rolname = current_user)
            AND a.privilege_type = 'TRIGGER' AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('REVOKE TRIGGER ON %s FROM %s', granted.class, granted.whom);
    END LOOP;
END
$migration$;
