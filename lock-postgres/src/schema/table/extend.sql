-- Returns for each hold 1 if it now lasts the given TTL, or 0 if it is over. Never shortens a hold. A single hold waits for
-- its row. Among several a hold whose row somebody else has locked is left out, as 2, so that the others do not end with it.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_extend"(
    names text[], owners uuid[], tokens bigint[], ttls_ms bigint[]
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '750ms'
SET enable_seqscan = off AS $$
DECLARE
    answers text[] := array_fill('0'::text, ARRAY[cardinality(names)]);
    ours bigint[];
    i bigint;
BEGIN
    PERFORM "@schema@"."@table@_v1_durably"();
    IF cardinality(names) > 1 THEN
        ours := ARRAY(SELECT a.n FROM unnest(names, tokens, owners)
                WITH ORDINALITY AS a (name, token, owner, n)
            JOIN "@schema@"."@table@_grants" g
                ON g.name = a.name AND g.token = a.token AND g.owner = a.owner
            FOR UPDATE OF g SKIP LOCKED);
    END IF;
    FOR i IN SELECT a.n FROM unnest(names) WITH ORDINALITY AS a(name, n)
        ORDER BY a.name COLLATE "C", tokens[a.n]
    LOOP
        IF ours IS NOT NULL AND i <> ALL (ours) AND EXISTS (SELECT FROM "@schema@"."@table@_grants" g
            WHERE g.name = names[i] AND g.token = tokens[i] AND g.owner = owners[i])
        THEN
            answers[i] := '2';
            CONTINUE;
        END IF;
        UPDATE "@schema@"."@table@_grants" g
            SET expires_at = greatest(
                g.expires_at, clock_timestamp() + ttls_ms[i] * interval '1 millisecond')
            WHERE g.name = names[i] AND g.token = tokens[i] AND g.owner = owners[i]
                AND g.expires_at > clock_timestamp();
        IF NOT FOUND THEN
            IF ours IS NOT NULL THEN
                PERFORM FROM "@schema@"."@table@_holders" h
                    WHERE h.owner = owners[i] FOR UPDATE SKIP LOCKED;
                IF NOT FOUND AND EXISTS (SELECT FROM "@schema@"."@table@_holders" h
                    WHERE h.owner = owners[i])
                THEN
                    answers[i] := '2';
                    CONTINUE;
                END IF;
            END IF;
            UPDATE "@schema@"."@table@_holders" h
                SET expires_at = greatest(
                    h.expires_at, clock_timestamp() + ttls_ms[i] * interval '1 millisecond')
                WHERE h.owner = owners[i] AND h.name = names[i] AND h.token = tokens[i]
                    AND h.expires_at > clock_timestamp();
        END IF;
        IF FOUND THEN
            answers[i] := '1';
        END IF;
    END LOOP;
    RETURN array_to_string(answers, '');
END
$$;

-- Reserves tokens for the hold of `me`, from `first` on: as many as are wanted, but none ahead of the clock.
-- `more` is 0 if there is none, if the hold is over, or if it yields to waiters.
CREATE OR REPLACE FUNCTION "@schema@"."@table@_v1_reserve"(
    lock_name text, me uuid, wanted bigint, yields boolean,
    OUT first bigint, OUT more bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '750ms'
SET enable_seqscan = off AS $$
DECLARE
    held "@schema@"."@table@_grants";
    now_us bigint;
BEGIN
    more := 0;
    PERFORM FROM "@schema@"."@table@" l WHERE l.name = lock_name FOR UPDATE;
    SELECT * INTO held FROM "@schema@"."@table@_grants" g
        WHERE g.name = lock_name ORDER BY g.token DESC LIMIT 1 FOR UPDATE;
    first := held.token + held.reserved + 1;
    now_us := extract(epoch FROM clock_timestamp()) * 1000000;
    IF held.owner = me AND held.expires_at > clock_timestamp() AND first <= now_us
        AND NOT (yields AND EXISTS (SELECT FROM "@schema@"."@table@_queue" q
            WHERE q.name = lock_name AND q.place > held.served))
    THEN
        -- C22: the clock stays ahead of the reserved tokens, and they are on disk before the answer.
        more := least(wanted, now_us - first + 1);
        PERFORM "@schema@"."@table@_v1_durably"();
        UPDATE "@schema@"."@table@_grants" g SET reserved = first + more - 1 - held.token
            WHERE g.name = lock_name AND g.token = held.token;
    END IF;
END
$$;
