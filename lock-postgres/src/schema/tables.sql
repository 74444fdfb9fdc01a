-- The schema, and what is not about one lock: claims that were withdrawn, and fences.

-- The schema is made only if it is not there, so that its owner need not be allowed to make others.
DO $migration$
BEGIN
    IF to_regnamespace('"@schema@"') IS NULL THEN
        CREATE SCHEMA "@schema@";
    END IF;
END
$migration$;

-- Claims that were withdrawn: a request of one that comes late is refused (C19).
CREATE UNLOGGED TABLE IF NOT EXISTS "@schema@"."@table@_withdrawn" (
    owner uuid PRIMARY KEY,
    forget_at timestamptz NOT NULL,
    UNIQUE (forget_at, owner)
);

-- The greatest token that each resource has seen.
CREATE TABLE IF NOT EXISTS "@schema@"."@table@_fences" (
    resource text COLLATE "C" PRIMARY KEY,
    seen bigint NOT NULL
) WITH (fillfactor = 50);
