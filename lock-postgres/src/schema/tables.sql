-- The schema, and the tables that serve all locks: withdrawn claims and fences.

-- Makes the schema only if it is missing, so that its owner needs no right to create schemas.
DO $migration$
BEGIN
    IF to_regnamespace('"@schema@"') IS NULL THEN
        CREATE SCHEMA "@schema@";
    END IF;
END
$migration$;

-- Withdrawn claims. A late request of a withdrawn claim is refused (C19).
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
