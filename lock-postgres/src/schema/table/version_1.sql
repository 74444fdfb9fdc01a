-- What clients of version 1 call. It does the same, by the functions of this version, so that clients of both
-- versions exclude each other and wait in one queue.

CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_now_us"() RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT "@schema@"."@table@_v2_now_us"()
$$;

CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_acquire"(
    lock_name text, me uuid, ttl_ms bigint, my_label text, queues boolean, my_listener bigint,
    clock_limit bigint,
    OUT token bigint, OUT now_us bigint, OUT left_us bigint, OUT holder text, OUT ahead bigint
)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM "@schema@"."@table@_v2_acquire"(
        lock_name, me, ttl_ms, my_label, queues, my_listener, clock_limit)
$$;

CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_extend"(
    names text[], owners uuid[], tokens bigint[], ttls_ms bigint[]
) RETURNS text
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT "@schema@"."@table@_v2_extend"(names, owners, tokens, ttls_ms)
$$;

-- The message goes with the commit here: a client of version 1 asks for nothing after it.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_release"(
    lock_name text, me uuid, clock_limit bigint
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ended record;
BEGIN
    SELECT * INTO ended FROM "@schema@"."@table@_v2_release"(lock_name, me, clock_limit);
    PERFORM pg_notify(t.channel, t.message)
        FROM unnest(ended.channels, ended.messages) t (channel, message);
    RETURN ended.released;
END
$$;

CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_withdraw"(
    lock_name text, me uuid, clock_limit bigint
) RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT "@schema@"."@table@_v2_withdraw"(lock_name, me, clock_limit)
$$;

CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_list"(
    prefix text, whole boolean, at_most bigint,
    OUT name text, OUT owner text, OUT token bigint, OUT left_us bigint, OUT label text,
    OUT waiters bigint
) RETURNS SETOF record
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT DISTINCT ON (s.name COLLATE "C") s.name, s.owner, s.token, s.left_us, s.label, s.waiters
        FROM "@schema@"."@table@_v2_list"(prefix, whole, at_most) s
        ORDER BY s.name COLLATE "C", s.token
$$;

CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_evict"(
    lock_name text, clock_limit bigint,
    OUT name text, OUT owner text, OUT token bigint, OUT left_us bigint, OUT label text,
    OUT waiters bigint
) RETURNS SETOF record
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT e.name, e.owner, e.token, e.left_us, e.label, 0::bigint
        FROM "@schema@"."@table@_v2_evict"(lock_name, NULL, clock_limit) e
$$;

CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_advance"(of_resource text, token bigint)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM "@schema@"."@table@_v2_advance"(of_resource, token);
END
$$;
