-- The script of version 1, as it was shipped.
BEGIN ISOLATION LEVEL READ COMMITTED;
-- The tables of a set of locks.

-- The schema is made only if it is not there, so that its owner need not be allowed to make others.
DO $migration$
BEGIN
    IF to_regnamespace('"leasehold"') IS NULL THEN
        CREATE SCHEMA "leasehold";
    END IF;
    PERFORM set_config('client_min_messages', 'warning', true);
END
$migration$;

-- One row a name, never deleted: its token must not start again. A lock is free if its row has no owner
-- or its time is over. Each function locks the row first, and only then looks at what belongs to it.
CREATE TABLE IF NOT EXISTS "leasehold"."locks" (
    name text COLLATE "C" PRIMARY KEY,
    token bigint NOT NULL CHECK (token BETWEEN 0 AND 9007199254740991),
    owner uuid,
    label text NOT NULL DEFAULT '',
    expires_at timestamptz NOT NULL DEFAULT '-infinity',
    -- The process of the server whose session holds it, where a hold is an advisory lock.
    process integer
) WITH (fillfactor = 50);

-- The waiters, in order of place. A crash may empty it: waiters come back by themselves.
CREATE UNLOGGED TABLE IF NOT EXISTS "leasehold"."locks_queue" (
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
CREATE UNLOGGED TABLE IF NOT EXISTS "leasehold"."locks_withdrawn" (
    owner uuid PRIMARY KEY,
    forget_at timestamptz NOT NULL
);

-- CREATE INDEX waits for everyone who writes to the table, also where the index is there already. The
-- catalog is asked first, so that a script that is run again does not wait.
DO $migration$
BEGIN
    IF to_regclass('"leasehold"."locks_queue_place"') IS NULL THEN
        CREATE INDEX "locks_queue_place" ON "leasehold"."locks_queue" (name, place);
    END IF;
    IF to_regclass('"leasehold"."locks_withdrawn_forget"') IS NULL THEN
        CREATE INDEX "locks_withdrawn_forget" ON "leasehold"."locks_withdrawn" (forget_at);
    END IF;
END
$migration$;

-- The greatest token that each resource has seen.
CREATE TABLE IF NOT EXISTS "leasehold"."locks_fences" (
    resource text COLLATE "C" PRIMARY KEY,
    seen bigint NOT NULL
) WITH (fillfactor = 50);

-- What a grant takes, in both modes.

CREATE OR REPLACE FUNCTION "leasehold"."locks_v1_now_us"() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

-- The key of the advisory lock that stands for something: the first 8 bytes of its SHA-256.
CREATE OR REPLACE FUNCTION "leasehold"."locks_v1_key"(something bytea) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT ('x' || encode(substr(sha256(something), 1, 8), 'hex'))::bit(64)::bigint
$$;

-- Lets the commit of this transaction wait for the disk, whatever the session's default is.
CREATE OR REPLACE FUNCTION "leasehold"."locks_v1_durably"() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;

-- Makes sure that the lock has a row, and locks it.
CREATE OR REPLACE FUNCTION "leasehold"."locks_v1_enter"(lock_name text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM "leasehold"."locks" l WHERE l.name = lock_name FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO "leasehold"."locks" (name, token) VALUES (lock_name, 0)
            ON CONFLICT DO NOTHING;
        PERFORM FROM "leasehold"."locks" l WHERE l.name = lock_name FOR UPDATE;
    END IF;
END
$$;

-- Grants the lock, and returns the new token: one more than the last, or the time in microseconds,
-- whichever is greater (C22). While the clock is ahead of the last token, the token is therefore the
-- time of the grant (C45).
CREATE OR REPLACE FUNCTION "leasehold"."locks_v1_grant"(
    lock_name text, new_owner uuid, ttl_ms bigint, new_label text, clock_limit bigint,
    new_process bigint DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    now_us bigint := "leasehold"."locks_v1_now_us"();
    granted bigint;
BEGIN
    IF now_us > clock_limit THEN
        RAISE EXCEPTION USING ERRCODE = 'LH002',
            MESSAGE = 'the clock of the server is more than a day ahead of the client';
    END IF;
    PERFORM "leasehold"."locks_v1_durably"();
    UPDATE "leasehold"."locks" l
        SET token = greatest(l.token + 1, now_us), owner = new_owner, label = new_label,
            expires_at = clock_timestamp() + ttl_ms * interval '1 millisecond',
            process = new_process
        WHERE l.name = lock_name
        RETURNING l.token INTO granted;
    RETURN granted;
END
$$;

-- The functions of the mode in which locks are rows of this table.

-- Grants the free lock to the first waiter that is alive, and notifies it. The waiter `me` is not
-- granted anything: it is only taken out of the queue. Returns the waiter's owner, or null if nobody
-- waits (C27).
--
-- A waiter is alive that was seen lately, and whose listening session, if it has one, still holds the
-- advisory lock that stands for its channel. Anyone may see the keys of locks that are held, so a key
-- does not tell its channel. A pushed grant is short until its holder renews it (C28).
CREATE OR REPLACE FUNCTION "leasehold"."locks_v1_hand_over"(
    lock_name text, me uuid, clock_limit bigint
) RETURNS uuid
LANGUAGE plpgsql AS $$
DECLARE
    waiter "leasehold"."locks_queue";
    channel text;
    now_us bigint;
    granted bigint;
    short_ms bigint;
BEGIN
    LOOP
        SELECT * INTO waiter FROM "leasehold"."locks_queue" q
            WHERE q.name = lock_name ORDER BY q.place LIMIT 1;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        DELETE FROM "leasehold"."locks_queue" q WHERE q.owner = waiter.owner;
        IF waiter.owner = me THEN
            RETURN me;
        END IF;
        channel := 'leasehold_' || to_hex(waiter.listener);
        IF waiter.seen_at > clock_timestamp() - interval '3000 milliseconds'
            AND (channel IS NULL OR NOT pg_try_advisory_xact_lock_shared(
                "leasehold"."locks_v1_key"(convert_to(channel, 'UTF8'))))
        THEN
            now_us := "leasehold"."locks_v1_now_us"();
            short_ms := least(waiter.ttl_ms, 3000);
            granted := "leasehold"."locks_v1_grant"(
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
CREATE OR REPLACE FUNCTION "leasehold"."locks_v1_acquire"(
    lock_name text, me uuid, ttl_ms bigint, my_label text, queues boolean, my_listener bigint,
    clock_limit bigint,
    OUT token bigint, OUT now_us bigint, OUT left_us bigint, OUT holder text, OUT ahead bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    held "leasehold"."locks";
    winner uuid;
    my_place bigint;
BEGIN
    SELECT * INTO held FROM "leasehold"."locks" l WHERE l.name = lock_name;
    IF held.owner <> me AND held.expires_at > clock_timestamp() THEN
        -- Held by another. A claim that does not queue, or has a place, does not need the row.
        IF queues THEN
            UPDATE "leasehold"."locks_queue" q
                SET seen_at = clock_timestamp(), listener = my_listener
                WHERE q.owner = me RETURNING q.place INTO my_place;
        END IF;
    END IF;
    IF my_place IS NULL AND (queues OR held.owner IS NULL OR held.owner = me
        OR held.expires_at <= clock_timestamp())
    THEN
        PERFORM "leasehold"."locks_v1_enter"(lock_name);
        -- C19: a withdrawal marks its claim with the row locked. So the mark is there now, or the
        -- withdrawal comes later, and finds the grant.
        IF EXISTS (SELECT FROM "leasehold"."locks_withdrawn" w WHERE w.owner = me) THEN
            RAISE EXCEPTION USING ERRCODE = 'LH001', MESSAGE = 'the claim was withdrawn';
        END IF;
        SELECT * INTO held FROM "leasehold"."locks" l WHERE l.name = lock_name;
        IF held.owner = me AND held.expires_at > clock_timestamp() THEN
            now_us := "leasehold"."locks_v1_now_us"();
            PERFORM "leasehold"."locks_v1_durably"();
            UPDATE "leasehold"."locks" l
                SET expires_at = greatest(
                    l.expires_at, clock_timestamp() + ttl_ms * interval '1 millisecond')
                WHERE l.name = lock_name;
            token := held.token;
            RETURN;
        END IF;
        IF held.owner IS NULL OR held.expires_at <= clock_timestamp() THEN
            winner := "leasehold"."locks_v1_hand_over"(lock_name, me, clock_limit);
            IF winner IS NULL OR winner = me THEN
                now_us := "leasehold"."locks_v1_now_us"();
                token := "leasehold"."locks_v1_grant"(lock_name, me, ttl_ms, my_label, clock_limit);
                RETURN;
            END IF;
            SELECT * INTO held FROM "leasehold"."locks" l WHERE l.name = lock_name;
        END IF;
        IF queues THEN
            IF winner IS NULL THEN
                -- Nothing was granted, and a crash empties the queue anyway. So the commit does not wait
                -- for the disk, and the row is not kept from others for as long.
                PERFORM set_config('synchronous_commit', 'off', true);
            END IF;
            INSERT INTO "leasehold"."locks_queue" AS q
                (owner, name, ttl_ms, label, listener, seen_at)
                VALUES (me, lock_name, ttl_ms, my_label, my_listener, clock_timestamp())
                ON CONFLICT (owner) DO UPDATE
                SET seen_at = excluded.seen_at, listener = excluded.listener
                RETURNING q.place INTO my_place;
        END IF;
    END IF;
    now_us := "leasehold"."locks_v1_now_us"();
    left_us := greatest(
        0, (extract(epoch FROM held.expires_at - clock_timestamp()) * 1000000)::bigint);
    holder := held.label;
    IF my_place IS NOT NULL THEN
        SELECT count(*) INTO ahead FROM "leasehold"."locks_queue" q
            WHERE q.name = lock_name AND q.place < my_place;
    END IF;
END
$$;

-- Answers for each hold 1 if it lasts that long from now, or 0 if it is over. It never shortens a hold.
-- Rows are taken in the order of their names, so that batches do not wait for each other in a circle.
CREATE OR REPLACE FUNCTION "leasehold"."locks_v1_extend"(
    names text[], owners uuid[], tokens bigint[], ttls_ms bigint[]
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    answers text[] := array_fill('0'::text, ARRAY[cardinality(names)]);
    i bigint;
BEGIN
    PERFORM "leasehold"."locks_v1_durably"();
    FOR i IN SELECT a.n FROM unnest(names) WITH ORDINALITY AS a(name, n)
        ORDER BY a.name COLLATE "C"
    LOOP
        UPDATE "leasehold"."locks" l
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
CREATE OR REPLACE FUNCTION "leasehold"."locks_v1_release"(
    lock_name text, me uuid, clock_limit bigint
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE "leasehold"."locks" l
        SET owner = NULL, label = '', expires_at = '-infinity'
        WHERE l.name = lock_name AND l.owner = me AND l.expires_at > clock_timestamp();
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- The update has locked the row, and only now the queue is looked at. A waiter that came before is
    -- seen, and one that comes after finds the lock free. If the clock cannot be trusted with a token,
    -- nothing is handed over: the waiters find the lock free.
    IF "leasehold"."locks_v1_now_us"() <= clock_limit THEN
        PERFORM "leasehold"."locks_v1_hand_over"(lock_name, NULL, clock_limit);
    END IF;
    RETURN true;
END
$$;

-- C19: takes back a grant and a place in the queue, and lets a request that is still on its way be
-- refused.
CREATE OR REPLACE FUNCTION "leasehold"."locks_v1_withdraw"(
    lock_name text, me uuid, clock_limit bigint
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    released boolean;
BEGIN
    PERFORM "leasehold"."locks_v1_enter"(lock_name);
    INSERT INTO "leasehold"."locks_withdrawn" (owner, forget_at)
        VALUES (me, clock_timestamp() + interval '30000 milliseconds')
        ON CONFLICT (owner) DO UPDATE SET forget_at = excluded.forget_at;
    DELETE FROM "leasehold"."locks_queue" q WHERE q.owner = me;
    released := "leasehold"."locks_v1_release"(lock_name, me, clock_limit);
    -- What others left behind goes as well, except for rows that somebody else has locked. It goes last,
    -- since from here on rows of other locks are locked: two that then waited for each other's lock
    -- would never end.
    DELETE FROM "leasehold"."locks_withdrawn" w WHERE w.owner IN (
        SELECT o.owner FROM "leasehold"."locks_withdrawn" o
        WHERE o.forget_at < clock_timestamp() LIMIT 20 FOR UPDATE SKIP LOCKED);
    DELETE FROM "leasehold"."locks_queue" q WHERE q.owner IN (
        SELECT o.owner FROM "leasehold"."locks_queue" o
        WHERE o.seen_at < clock_timestamp() - interval '1 minute'
        LIMIT 20 FOR UPDATE SKIP LOCKED);
    RETURN released;
END
$$;

-- The locks that are held and whose names start with `prefix`, or the one lock called `prefix`. No more
-- than 8 digits of an owner are told.
CREATE OR REPLACE FUNCTION "leasehold"."locks_v1_list"(
    prefix text, whole boolean, at_most bigint,
    OUT name text, OUT owner text, OUT token bigint, OUT left_us bigint, OUT label text,
    OUT waiters bigint
) RETURNS SETOF record
LANGUAGE sql VOLATILE AS $$
    SELECT l.name, left(h.owner::text, 8), l.token,
        (extract(epoch FROM h.expires_at - clock_timestamp()) * 1000000)::bigint, l.label,
        (SELECT count(*) FROM "leasehold"."locks_queue" q
            WHERE q.name = l.name
            AND q.seen_at > clock_timestamp() - interval '3000 milliseconds')
    FROM "leasehold"."locks" l
    LEFT JOIN LATERAL (SELECT l.owner, l.expires_at
        WHERE l.owner IS NOT NULL AND l.expires_at > clock_timestamp()) h ON true
    WHERE CASE WHEN whole THEN l.name = prefix
        ELSE h.owner IS NOT NULL AND starts_with(l.name, prefix) END
    ORDER BY l.name LIMIT at_most
$$;

-- Ends the hold of any owner and hands the lock over. Returns no row if nobody held the lock.
CREATE OR REPLACE FUNCTION "leasehold"."locks_v1_evict"(
    lock_name text, clock_limit bigint,
    OUT name text, OUT owner text, OUT token bigint, OUT left_us bigint, OUT label text,
    OUT waiters bigint
) RETURNS SETOF record
LANGUAGE plpgsql AS $$
DECLARE
    held_by uuid;
BEGIN
    PERFORM FROM "leasehold"."locks" l WHERE l.name = lock_name FOR UPDATE;
    SELECT l.owner INTO held_by FROM "leasehold"."locks" l WHERE l.name = lock_name;
    FOR name, owner, token, left_us, label, waiters IN
        SELECT * FROM "leasehold"."locks_v1_list"(lock_name, true, 1) s WHERE s.owner IS NOT NULL
    LOOP
        PERFORM "leasehold"."locks_v1_release"(lock_name, held_by, clock_limit);
        RETURN NEXT;
    END LOOP;
END
$$;

-- Lets a token pass that is not below the greatest seen, and remembers it. A token below is an error, so
-- that the transaction of the caller fails as a whole (C24).
CREATE OR REPLACE FUNCTION "leasehold"."locks_v1_advance"(of_resource text, token bigint)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    greatest_seen bigint;
BEGIN
    PERFORM "leasehold"."locks_v1_durably"();
    INSERT INTO "leasehold"."locks_fences" AS f (resource, seen) VALUES (of_resource, token)
        ON CONFLICT (resource) DO UPDATE SET seen = greatest(f.seen, excluded.seen)
        RETURNING f.seen INTO greatest_seen;
    IF greatest_seen > token THEN
        RAISE EXCEPTION USING ERRCODE = 'LH003',
            MESSAGE = 'the token is stale: the resource has seen ' || greatest_seen,
            DETAIL = greatest_seen::text;
    END IF;
END
$$;

COMMIT;
