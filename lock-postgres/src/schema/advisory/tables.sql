-- The tables of the mode in which locks are advisory locks of sessions.

-- What is known of the holds; the lock itself is the server's. A crash of the server ends all holds and
-- empties the table, so no grant waits for the disk. A new grant is a new row, and a release deletes the one
-- before it. So the newest is found by the key, however many old versions a long transaction of somebody
-- else makes the server keep.
--
-- The empty name is no lock's. Its greatest token is a floor: each token is greater. A crash takes the floor
-- along with the tokens that it stands for, and the next grant makes it anew from what was reserved.
CREATE UNLOGGED TABLE IF NOT EXISTS "@schema@"."@table@_grants" (
    name text COLLATE "C" NOT NULL,
    token bigint NOT NULL CHECK (token BETWEEN 0 AND 9007199254740991),
    owner uuid,
    label text NOT NULL DEFAULT '',
    expires_at timestamptz NOT NULL DEFAULT '-infinity',
    -- The key of the advisory lock, and the process of the server whose session holds it.
    lock_key bigint,
    process integer,
    PRIMARY KEY (name, token)
) WITH (fillfactor = 50);

-- The greatest number here is reserved: no token above it was ever told. It is on disk before a token up to
-- it is told, and runs ahead of the clock, so that most grants find their tokens reserved.
CREATE TABLE IF NOT EXISTS "@schema@"."@table@_tokens" (
    reserved bigint PRIMARY KEY
);
