-- The schema is made only if it is not there, so that its owner need not be allowed to make others.
DO $migration$
BEGIN
    IF to_regnamespace('"@schema@"') IS NULL THEN
        CREATE SCHEMA "@schema@";
    END IF;
    PERFORM set_config('client_min_messages', 'warning', true);
END
$migration$;

-- One row a name, never deleted: its token must not start again. Free if it has no owner or its time
-- is over. Whoever acts on a lock has its row locked first, and only then looks at what belongs to it.
CREATE TABLE IF NOT EXISTS "@schema@"."@table@" (
    name text COLLATE "C" PRIMARY KEY,
    token bigint NOT NULL CHECK (token BETWEEN 0 AND 9007199254740991),
    owner uuid,
    label text NOT NULL DEFAULT '',
    expires_at timestamptz NOT NULL DEFAULT '-infinity',
    -- The process of the server whose session holds it, where a hold is an advisory lock.
    process integer
) WITH (fillfactor = 50);

-- Who waits, in order of place. A crash may empty it: waiters come back by themselves.
CREATE UNLOGGED TABLE IF NOT EXISTS "@schema@"."@table@_queue" (
    owner uuid PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY,
    ttl_ms bigint NOT NULL,
    label text NOT NULL,
    -- The number of the channel on which the waiter's client listens, which only those may know who
    -- use the locks; null if the waiter only polls.
    listener bigint,
    seen_at timestamptz NOT NULL
) WITH (fillfactor = 50);
-- Claims that were given up: a request of theirs that comes late is refused.
CREATE UNLOGGED TABLE IF NOT EXISTS "@schema@"."@table@_withdrawn" (
    owner uuid PRIMARY KEY,
    forget_at timestamptz NOT NULL
);

-- To make an index, or only to find that it is there, waits for everyone who writes to its table: so
-- that a script that is run again does not, the catalog is asked first.
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

CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_now_us"() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

-- The key of the advisory lock that stands for something: the first 8 bytes of its SHA-256.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_key"(something bytea) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT ('x' || encode(substr(sha256(something), 1, 8), 'hex'))::bit(64)::bigint
$$;

-- Has the transaction on disk before it is told, whatever the session's default.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_durably"() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;

-- Makes sure that the lock has a row, and locks it.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_enter"(lock_name text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM "@schema@"."@table@" l WHERE l.name = lock_name FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO "@schema@"."@table@" (name, token) VALUES (lock_name, 0)
            ON CONFLICT DO NOTHING;
        PERFORM FROM "@schema@"."@table@" l WHERE l.name = lock_name FOR UPDATE;
    END IF;
END
$$;

-- Grants the lock, and returns the new token: one more than the last, or the time in microseconds,
-- whichever is greater (C22).
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_grant"(
    lock_name text, new_owner uuid, ttl_ms bigint, new_label text, clock_limit bigint,
    new_process bigint DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    now_us bigint := "@schema@"."@table@_v1_now_us"();
    granted bigint;
BEGIN
    IF now_us > clock_limit THEN
        RAISE EXCEPTION USING ERRCODE = 'LH002',
            MESSAGE = 'the clock of the server is more than a day ahead of the client';
    END IF;
    PERFORM "@schema@"."@table@_v1_durably"();
    UPDATE "@schema@"."@table@" l
        SET token = greatest(l.token + 1, now_us), owner = new_owner, label = new_label,
            expires_at = clock_timestamp() + ttl_ms * interval '1 millisecond',
            process = new_process
        WHERE l.name = lock_name
        RETURNING l.token INTO granted;
    RETURN granted;
END
$$;

-- Grants the free lock to the first waiter that is alive, and tells it, unless it is `me`, which is
-- only taken out of the queue. Returns its owner, or null if nobody waits (C27).
--
-- Alive is who was seen within 3 s and whose listening session, if it has one, still holds the advisory
-- lock that stands for its channel. Anyone may see the keys of locks that are held, so no channel can
-- be told from its key. A pushed grant lasts 3 s at the longest, until its holder renews it (C28).
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_hand_over"(
    lock_name text, me uuid, clock_limit bigint
) RETURNS uuid
LANGUAGE plpgsql AS $$
DECLARE
    waiter "@schema@"."@table@_queue";
    channel text;
    now_us bigint;
    granted bigint;
    short_ms bigint;
BEGIN
    LOOP
        SELECT * INTO waiter FROM "@schema@"."@table@_queue" q
            WHERE q.name = lock_name ORDER BY q.place LIMIT 1;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        DELETE FROM "@schema@"."@table@_queue" q WHERE q.owner = waiter.owner;
        IF waiter.owner = me THEN
            RETURN me;
        END IF;
        channel := 'leasehold_' || to_hex(waiter.listener);
        IF waiter.seen_at > clock_timestamp() - interval '3 seconds'
            AND (channel IS NULL OR NOT pg_try_advisory_xact_lock_shared(
                "@schema@"."@table@_v1_key"(convert_to(channel, 'UTF8'))))
        THEN
            now_us := "@schema@"."@table@_v1_now_us"();
            short_ms := least(waiter.ttl_ms, 3000);
            granted := "@schema@"."@table@_v1_grant"(
                lock_name, waiter.owner, short_ms, waiter.label, clock_limit);
            IF channel IS NOT NULL THEN
                PERFORM pg_notify(
                    channel,
                    concat_ws(':', replace(waiter.owner::text, '-', ''), granted, short_ms, now_us));
            END IF;
            RETURN waiter.owner;
        END IF;
    END LOOP;
END
$$;

-- Tries to take the lock. `token` is null if it is busy; then the rest says what is known.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_acquire"(
    lock_name text, me uuid, ttl_ms bigint, my_label text, queues boolean, my_listener bigint,
    clock_limit bigint,
    OUT token bigint, OUT now_us bigint, OUT left_us bigint, OUT holder text, OUT ahead bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    held "@schema@"."@table@";
    winner uuid;
    my_place bigint;
BEGIN
    SELECT * INTO held FROM "@schema@"."@table@" l WHERE l.name = lock_name;
    IF held.owner <> me AND held.expires_at > clock_timestamp() THEN
        -- Held by another. Who need not queue, or has a place, has no need of the row.
        IF queues THEN
            UPDATE "@schema@"."@table@_queue" q
                SET seen_at = clock_timestamp(), listener = my_listener
                WHERE q.owner = me RETURNING q.place INTO my_place;
        END IF;
    END IF;
    IF my_place IS NULL AND (queues OR held.owner IS NULL OR held.owner = me
        OR held.expires_at <= clock_timestamp())
    THEN
        PERFORM "@schema@"."@table@_v1_enter"(lock_name);
        -- The mark is set with the row locked: it is here now, or the grant is found by its setter.
        IF EXISTS (SELECT FROM "@schema@"."@table@_withdrawn" w WHERE w.owner = me) THEN
            RAISE EXCEPTION USING ERRCODE = 'LH001', MESSAGE = 'the claim was withdrawn';
        END IF;
        SELECT * INTO held FROM "@schema@"."@table@" l WHERE l.name = lock_name;
        IF held.owner = me AND held.expires_at > clock_timestamp() THEN
            now_us := "@schema@"."@table@_v1_now_us"();
            PERFORM "@schema@"."@table@_v1_durably"();
            UPDATE "@schema@"."@table@" l
                SET expires_at = greatest(
                    l.expires_at, clock_timestamp() + ttl_ms * interval '1 millisecond')
                WHERE l.name = lock_name;
            token := held.token;
            RETURN;
        END IF;
        IF held.owner IS NULL OR held.expires_at <= clock_timestamp() THEN
            winner := "@schema@"."@table@_v1_hand_over"(lock_name, me, clock_limit);
            IF winner IS NULL OR winner = me THEN
                now_us := "@schema@"."@table@_v1_now_us"();
                token := "@schema@"."@table@_v1_grant"(lock_name, me, ttl_ms, my_label, clock_limit);
                RETURN;
            END IF;
            SELECT * INTO held FROM "@schema@"."@table@" l WHERE l.name = lock_name;
        END IF;
        IF queues THEN
            IF winner IS NULL THEN
                -- Nothing was granted, and a crash empties the queue anyway: do not keep the row
                -- from others until the disk has heard of it.
                PERFORM set_config('synchronous_commit', 'off', true);
            END IF;
            INSERT INTO "@schema@"."@table@_queue" AS q
                (owner, name, ttl_ms, label, listener, seen_at)
                VALUES (me, lock_name, ttl_ms, my_label, my_listener, clock_timestamp())
                ON CONFLICT (owner) DO UPDATE
                SET seen_at = excluded.seen_at, listener = excluded.listener
                RETURNING q.place INTO my_place;
        END IF;
    END IF;
    now_us := "@schema@"."@table@_v1_now_us"();
    left_us := greatest(
        0, (extract(epoch FROM held.expires_at - clock_timestamp()) * 1000000)::bigint);
    holder := held.label;
    IF my_place IS NOT NULL THEN
        SELECT count(*) INTO ahead FROM "@schema@"."@table@_queue" q
            WHERE q.name = lock_name AND q.place < my_place;
    END IF;
END
$$;

-- For each hold 1 if it lasts that long from now, 0 if it is over. Rows are taken in the
-- order of their names, so that batches do not wait for each other in a circle. Never shortens.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_extend"(
    names text[], owners uuid[], tokens bigint[], ttls_ms bigint[]
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    answers text[] := array_fill('0'::text, ARRAY[cardinality(names)]);
    i bigint;
BEGIN
    PERFORM "@schema@"."@table@_v1_durably"();
    FOR i IN SELECT a.n FROM unnest(names) WITH ORDINALITY AS a(name, n)
        ORDER BY a.name COLLATE "C"
    LOOP
        UPDATE "@schema@"."@table@" l
            SET expires_at = greatest(
                l.expires_at, clock_timestamp() + ttls_ms[i] * interval '1 millisecond')
            WHERE l.name = names[i] AND l.owner = owners[i] AND l.token = tokens[i]
                AND l.expires_at > clock_timestamp();
        IF FOUND THEN
            answers[i] := '1';
        END IF;
    END LOOP;
    RETURN array_to_string(answers, '');
END
$$;

-- Ends the hold of `me` and hands the lock over; true if it was held.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_release"(
    lock_name text, me uuid, clock_limit bigint
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE "@schema@"."@table@" l
        SET owner = NULL, label = '', expires_at = '-infinity'
        WHERE l.name = lock_name AND l.owner = me AND l.expires_at > clock_timestamp();
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- The row is locked by the update. Only now is the queue looked at: a waiter that came before
    -- is seen, one that comes after finds the lock free. A clock that is not to be trusted with a
    -- token leaves it to them.
    IF "@schema@"."@table@_v1_now_us"() <= clock_limit THEN
        PERFORM "@schema@"."@table@_v1_hand_over"(lock_name, NULL, clock_limit);
    END IF;
    RETURN true;
END
$$;

-- C19: takes back a grant, a place in the queue, and a request that is still on its way.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_withdraw"(
    lock_name text, me uuid, clock_limit bigint
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    released boolean;
BEGIN
    PERFORM "@schema@"."@table@_v1_enter"(lock_name);
    INSERT INTO "@schema@"."@table@_withdrawn" (owner, forget_at)
        VALUES (me, clock_timestamp() + interval '30 seconds')
        ON CONFLICT (owner) DO UPDATE SET forget_at = excluded.forget_at;
    DELETE FROM "@schema@"."@table@_queue" q WHERE q.owner = me;
    released := "@schema@"."@table@_v1_release"(lock_name, me, clock_limit);
    -- What others left behind goes as well, as far as nobody is at it. It goes last: whoever has rows
    -- of other locks must not wait any more, lest two wait for each other.
    DELETE FROM "@schema@"."@table@_withdrawn" w WHERE w.owner IN (
        SELECT o.owner FROM "@schema@"."@table@_withdrawn" o
        WHERE o.forget_at < clock_timestamp() LIMIT 20 FOR UPDATE SKIP LOCKED);
    DELETE FROM "@schema@"."@table@_queue" q WHERE q.owner IN (
        SELECT o.owner FROM "@schema@"."@table@_queue" o
        WHERE o.seen_at < clock_timestamp() - interval '1 minute'
        LIMIT 20 FOR UPDATE SKIP LOCKED);
    RETURN released;
END
$$;

-- The locks that are held and whose names start with `prefix`, or the one lock called `prefix`. Of an
-- owner no more than 8 digits are told.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_list"(
    prefix text, whole boolean, at_most bigint,
    OUT name text, OUT owner text, OUT token bigint, OUT left_us bigint, OUT label text,
    OUT waiters bigint
) RETURNS SETOF record
LANGUAGE sql VOLATILE AS $$
    SELECT l.name, left(h.owner::text, 8), l.token,
        (extract(epoch FROM h.expires_at - clock_timestamp()) * 1000000)::bigint, l.label,
        (SELECT count(*) FROM "@schema@"."@table@_queue" q
            WHERE q.name = l.name AND q.seen_at > clock_timestamp() - interval '3 seconds')
    FROM "@schema@"."@table@" l
    LEFT JOIN LATERAL (SELECT l.owner, l.expires_at
        WHERE l.owner IS NOT NULL AND l.expires_at > clock_timestamp()) h ON true
    WHERE CASE WHEN whole THEN l.name = prefix
        ELSE h.owner IS NOT NULL AND starts_with(l.name, prefix) END
    ORDER BY l.name LIMIT at_most
$$;

-- Ends whoever's hold and hands the lock over; no row if nobody held it.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_evict"(
    lock_name text, clock_limit bigint,
    OUT name text, OUT owner text, OUT token bigint, OUT left_us bigint, OUT label text,
    OUT waiters bigint
) RETURNS SETOF record
LANGUAGE plpgsql AS $$
DECLARE
    held_by uuid;
BEGIN
    PERFORM FROM "@schema@"."@table@" l WHERE l.name = lock_name FOR UPDATE;
    SELECT l.owner INTO held_by FROM "@schema@"."@table@" l WHERE l.name = lock_name;
    FOR name, owner, token, left_us, label, waiters IN
        SELECT * FROM "@schema@"."@table@_v1_list"(lock_name, true, 1) s WHERE s.owner IS NOT NULL
    LOOP
        PERFORM "@schema@"."@table@_v1_release"(lock_name, held_by, clock_limit);
        RETURN NEXT;
    END LOOP;
END
$$;

-- Lets a token pass that is not below the greatest seen, and remembers it. An error otherwise, so that
-- the transaction it is part of fails as a whole (C24).
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_advance"(of_resource text, token bigint)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    greatest_seen bigint;
BEGIN
    PERFORM "@schema@"."@table@_v1_durably"();
    INSERT INTO "@schema@"."@table@_fences" AS f (resource, seen) VALUES (of_resource, token)
        ON CONFLICT (resource) DO UPDATE SET seen = greatest(f.seen, excluded.seen)
        RETURNING f.seen INTO greatest_seen;
    IF greatest_seen > token THEN
        RAISE EXCEPTION USING ERRCODE = 'LH003',
            MESSAGE = 'the token is stale: the resource has seen ' || greatest_seen,
            DETAIL = greatest_seen::text;
    END IF;
END
$$;
