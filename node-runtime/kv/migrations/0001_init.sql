-- Key-value data of functions. The connection's search path begins with this schema.

-- Every change of an entry has a number that no other has: an entry that was deleted and made again is another one.
CREATE SEQUENCE versions AS bigint;

CREATE TABLE entries (
    resource   text        NOT NULL,
    key        bytea       NOT NULL,
    value      bytea       NOT NULL,
    version    bigint      NOT NULL,
    -- It counts as absent from then on, whether or not it was removed.
    expires_at timestamptz,
    PRIMARY KEY (resource, key)
);
CREATE INDEX entries_expiring ON entries (expires_at) WHERE expires_at IS NOT NULL;

-- Calls whose changes took effect: one that is asked for again is found here. And those whose changes never will.
CREATE TABLE commits (
    call         uuid        PRIMARY KEY,
    took_effect  boolean     NOT NULL DEFAULT true,
    committed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX commits_by_time ON commits (committed_at);

-- Who changed what. Keys as digests: they may hold what is secret.
CREATE TABLE audit (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL DEFAULT now(),
    call       uuid        NOT NULL,
    tenant     text        NOT NULL,
    function   text        NOT NULL,
    version    bigint      NOT NULL,
    trace      text,
    resource   text        NOT NULL,
    key_sha256 bytea       NOT NULL,
    operation  text        NOT NULL CHECK (operation IN ('put', 'delete')),
    bytes      integer     NOT NULL
);
CREATE INDEX audit_by_time ON audit (at);

-- Carries out the changes of one call, if all that it saw is still so. To be called in a serializable transaction of its own.
-- True: they took effect now; false: they had before. What was seen is an entry's version, 0 for none; of a scan all versions in
-- the order of the keys. A value that is null is deleted. An expiry is a time from now, null for none, or -1 for the one that
-- the entry has, which the call saw.
CREATE FUNCTION commit_call(
    a_call uuid, a_tenant text, a_function text, a_version bigint, a_trace text,
    seen_resources text[], seen_keys bytea[], seen_versions bigint[],
    scan_resources text[], scan_froms bytea[], scan_tos bytea[], scan_versions text[],
    put_resources text[], put_keys bytea[], put_values bytea[], put_expiries_ms bigint[]
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'serializable' THEN
        RAISE EXCEPTION 'a commit outside of a serializable transaction' USING ERRCODE = '25001';
    END IF;
    IF cardinality(put_keys) > 0 THEN
        INSERT INTO commits (call) VALUES (a_call) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            IF (SELECT took_effect FROM commits WHERE call = a_call) THEN
                RETURN false;
            END IF;
            RAISE EXCEPTION 'the call was given up' USING ERRCODE = 'MF001';
        END IF;
    END IF;
    PERFORM 1
    FROM unnest(seen_resources, seen_keys, seen_versions) AS seen (resource, key, version)
    LEFT JOIN entries e ON e.resource = seen.resource AND e.key = seen.key
        AND (e.expires_at IS NULL OR e.expires_at > now())
    WHERE coalesce(e.version, 0) <> seen.version;
    IF FOUND THEN
        RAISE EXCEPTION 'an entry is another one' USING ERRCODE = 'MF001';
    END IF;
    FOR i IN 1 .. cardinality(scan_resources) LOOP
        IF scan_versions[i]::bigint[] IS DISTINCT FROM (
            SELECT coalesce(array_agg(e.version ORDER BY e.key), '{}') FROM entries e
            WHERE e.resource = scan_resources[i] AND e.key >= scan_froms[i] AND e.key < scan_tos[i]
                AND (e.expires_at IS NULL OR e.expires_at > now())
        ) THEN
            RAISE EXCEPTION 'a scan gives another result' USING ERRCODE = 'MF001';
        END IF;
    END LOOP;
    INSERT INTO entries AS e (resource, key, value, version, expires_at)
    SELECT put.resource, put.key, put.value, nextval('versions'),
        CASE WHEN put.expiry_ms >= 0 THEN now() + put.expiry_ms * interval '1 millisecond'
            WHEN put.expiry_ms = -1 THEN '-infinity' END
    FROM unnest(put_resources, put_keys, put_values, put_expiries_ms) AS put (resource, key, value, expiry_ms)
    WHERE put.value IS NOT NULL
    ON CONFLICT (resource, key) DO UPDATE SET value = excluded.value, version = excluded.version,
        expires_at = CASE WHEN excluded.expires_at = '-infinity' THEN e.expires_at ELSE excluded.expires_at END;
    DELETE FROM entries e
    USING unnest(put_resources, put_keys, put_values) AS put (resource, key, value)
    WHERE put.value IS NULL AND e.resource = put.resource AND e.key = put.key;
    INSERT INTO audit (call, tenant, function, version, trace, resource, key_sha256, operation, bytes)
    SELECT a_call, a_tenant, a_function, a_version, a_trace, put.resource, sha256(put.key),
        CASE WHEN put.value IS NULL THEN 'delete' ELSE 'put' END, coalesce(octet_length(put.value), 0)
    FROM unnest(put_resources, put_keys, put_values) AS put (resource, key, value);
    RETURN true;
END
$$;

-- Gives a call up whose commit met a conflict after a connection was lost: an earlier attempt may still be on its way. True: it took
-- effect after all; false: it never will.
CREATE FUNCTION give_up_call(a_call uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO commits (call, took_effect) VALUES (a_call, false) ON CONFLICT DO NOTHING;
    RETURN (SELECT took_effect FROM commits WHERE call = a_call);
END
$$;
