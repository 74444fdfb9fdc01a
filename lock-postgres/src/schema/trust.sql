WITH database AS (
    SELECT r.oid, r.rolsuper FROM pg_database b JOIN pg_roles r ON r.oid = b.datdba
    WHERE b.datname = current_database()
), role AS (
    -- All superusers count as one owner, and `pg_database_owner` as the owner of the database.
    SELECT r.oid, r.rolname::text AS name, CASE WHEN r.rolsuper THEN 10
        WHEN r.rolname <> 'pg_database_owner' THEN r.oid WHEN d.rolsuper THEN 10 ELSE d.oid END AS owner
    FROM pg_roles r, database d
), me AS (
    SELECT (SELECT r.owner FROM role r WHERE r.name = session_user) AS session,
        (SELECT r.owner FROM role r WHERE r.name = current_user) AS maker,
        (SELECT r.owner FROM role r JOIN database d ON d.oid = r.oid) AS of_database
), place AS (
    SELECT n.oid, r.name AS whose, r.owner FROM pg_namespace n JOIN role r ON r.oid = n.nspowner
    WHERE n.nspname = '@schema@'
), class AS (
    SELECT c.oid, c.relname AS name, c.relkind, c.relowner, c.relacl, c.relrowsecurity
    FROM place n JOIN pg_class c ON c.relnamespace = n.oid WHERE c.relname = ANY (ARRAY[@relations@]::name[])
), routine AS (
    SELECT p.* FROM place n JOIN pg_proc p ON p.pronamespace = n.oid
    WHERE p.proname = ANY ('{@routines@}'::name[])
), object AS (
    SELECT o.name, r.name AS whose, r.owner FROM role r JOIN (
        SELECT c.name, c.relowner FROM class c UNION ALL SELECT p.proname, p.proowner FROM routine p
    ) o (name, owner) ON o.owner = r.oid
), stranger AS (
    SELECT o.whose, o.name FROM me, object o WHERE (@trusted@) IS NOT TRUE
    UNION ALL
    -- The owner of a schema can drop what is in it, and make something else under its name.
    SELECT o.whose, 'the schema' FROM me, place o
    CROSS JOIN LATERAL (SELECT coalesce(min(m.owner), me.maker) FROM object m) a (owner)
    WHERE (o.owner IN (10, a.owner)
        OR me.session <> 10 AND a.owner <> 10 AND o.owner = me.of_database) IS NOT TRUE
), change (seen) AS (
    SELECT format('%s belongs to %s, and %s to %s', min(o.name), min(o.whose), max(o.name), max(o.whose))
        FROM object o HAVING count(DISTINCT o.owner) > 1
    UNION ALL
    SELECT c.name || ' is not as leasehold makes it' FROM class c WHERE c.relkind <> CASE c.name
        WHEN '@table@_holds' THEN 'v' WHEN '@table@_queue_place_seq' THEN 'S' ELSE 'r' END
    UNION ALL
    SELECT format('%s has the trigger %s', c.name, t.tgname)
        FROM class c JOIN pg_trigger t ON t.tgrelid = c.oid
    UNION ALL
    SELECT format('%s has the rule %s', c.name, r.rulename)
        FROM class c JOIN pg_rewrite r ON r.ev_class = c.oid WHERE r.rulename <> '_RETURN'
    UNION ALL
    SELECT c.name || ' has row security' FROM class c WHERE c.relrowsecurity
    UNION ALL
    SELECT c.name || ' inherits, or is inherited' FROM class c
        WHERE EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid)
            OR EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid)
    UNION ALL
    -- Only constants are defaults: a call would run in each insert.
    SELECT format('%s has a default of %s', c.name, a.attname) FROM class c
        JOIN pg_attrdef d ON d.adrelid = c.oid
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.adnum
        WHERE replace(pg_get_expr(d.adbin, c.oid), '"', '')
            !~ '^(''[^'']*''|-?[0-9]+|true|false|NULL)(::[a-z ]+)?$'
    UNION ALL
    SELECT format('%s has the column %s of a foreign type', c.name, a.attname) FROM class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        JOIN pg_type t ON t.oid = a.atttypid AND t.typnamespace <> 'pg_catalog'::regnamespace
    UNION ALL
    SELECT format('%s has the constraint %s', c.name, k.conname)
        FROM class c JOIN pg_constraint k ON k.conrelid = c.oid
        WHERE k.contype NOT IN ('p', 'u', 'n') AND replace(pg_get_constraintdef(k.oid), '"', '') NOT IN (
            'CHECK (((token >= 0) AND (token <= ''9007199254740991''::bigint)))',
            'CHECK (((permits >= 0) AND (permits <= 65535)))')
    UNION ALL
    SELECT format('%s has the index %s of an expression', c.name, i.indexrelid::regclass)
        FROM class c JOIN pg_index i ON i.indrelid = c.oid
        WHERE i.indexprs IS NOT NULL OR i.indpred IS NOT NULL
    UNION ALL
    -- A trigger on a table runs with the rights of the owner of the functions.
    SELECT format('%s has the right TRIGGER on %s', coalesce(g.name, 'PUBLIC'), c.name)
        FROM class c CROSS JOIN LATERAL aclexplode(c.relacl) a LEFT JOIN role g ON g.oid = a.grantee
        WHERE a.privilege_type = 'TRIGGER' AND a.grantee <> c.relowner AND coalesce(g.owner, 0) <> 10
), found AS (
    SELECT ARRAY(SELECT DISTINCT s.whose FROM stranger s ORDER BY 1) AS strangers,
        ARRAY(SELECT s.whose || ' owns ' || array_to_string((array_agg(s.name ORDER BY s.name))[:3], ', ')
            FROM stranger s GROUP BY s.whose ORDER BY s.whose)
        || ARRAY(SELECT c.seen FROM change c) AS seen
)
