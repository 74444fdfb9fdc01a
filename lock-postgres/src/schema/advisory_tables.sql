-- The table of the mode in which locks are advisory locks of sessions.

-- One row a name, never deleted: its token must not start again. It tells of the hold; the lock itself is
-- the server's.
CREATE TABLE IF NOT EXISTS "@schema@"."@table@" (
    name text COLLATE "C" PRIMARY KEY,
    token bigint NOT NULL CHECK (token BETWEEN 0 AND 9007199254740991),
    owner uuid,
    label text NOT NULL DEFAULT '',
    expires_at timestamptz NOT NULL DEFAULT '-infinity',
    -- The process of the server whose session holds it.
    process integer
) WITH (fillfactor = 50);
