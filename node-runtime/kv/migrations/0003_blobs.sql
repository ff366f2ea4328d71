-- Entries whose bytes lie in a store of objects, where a number names them that no others ever have.

ALTER TABLE entries
    ADD COLUMN blob       uuid,
    -- What lies there, in bytes.
    ADD COLUMN blob_bytes bigint NOT NULL DEFAULT 0;

-- That a store of objects was opened over this data: from then on an empty place is not taken for it.
CREATE TABLE opened_stores (
    at timestamptz NOT NULL DEFAULT now()
);

-- Those that no entry names yet: they are stored, and their calls have not committed.
CREATE TABLE staged_blobs (
    id       uuid        PRIMARY KEY,
    resource text        NOT NULL,
    bytes    bigint      NOT NULL,
    since    timestamptz NOT NULL DEFAULT now(),
    -- It is being removed: no entry can name it any more.
    doomed   boolean     NOT NULL DEFAULT false
);
CREATE INDEX staged_blobs_by_time ON staged_blobs (since);
-- Those that no entry names any more. A table of its own: commits add to it and look nothing up there, so that they do not meet.
CREATE TABLE freed_blobs (
    id       uuid        PRIMARY KEY,
    resource text        NOT NULL,
    bytes    bigint      NOT NULL,
    since    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX freed_blobs_by_time ON freed_blobs (since);

CREATE FUNCTION name_blobs(blobs uuid[]) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    found bigint;
BEGIN
    IF cardinality(blobs) > 0 THEN
        DELETE FROM mfaas_data.staged_blobs WHERE id = ANY (blobs) AND NOT doomed;
        GET DIAGNOSTICS found = ROW_COUNT;
        IF found <> cardinality(blobs) THEN
            RAISE EXCEPTION 'a blob is no longer there, or was named before' USING ERRCODE = 'MF001';
        END IF;
    END IF;
END
$$;

CREATE FUNCTION note_blobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM mfaas_data.name_blobs(ARRAY(SELECT blob FROM added WHERE blob IS NOT NULL));
    ELSIF TG_OP = 'UPDATE' THEN
        PERFORM mfaas_data.name_blobs(ARRAY(
            SELECT blob FROM added WHERE blob IS NOT NULL EXCEPT SELECT blob FROM removed));
        INSERT INTO mfaas_data.freed_blobs (id, resource, bytes)
        SELECT blob, resource, blob_bytes FROM removed
        WHERE blob IS NOT NULL AND NOT EXISTS (SELECT FROM added WHERE added.blob = removed.blob);
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO mfaas_data.freed_blobs (id, resource, bytes)
        SELECT blob, resource, blob_bytes FROM removed WHERE blob IS NOT NULL;
    ELSE
        INSERT INTO mfaas_data.freed_blobs (id, resource, bytes)
        SELECT blob, resource, blob_bytes FROM mfaas_data.entries WHERE blob IS NOT NULL;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER blobs_named AFTER INSERT ON entries
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION note_blobs();
CREATE TRIGGER blobs_changed AFTER UPDATE ON entries
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION note_blobs();
CREATE TRIGGER blobs_unnamed AFTER DELETE ON entries
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION note_blobs();
CREATE TRIGGER blobs_truncated BEFORE TRUNCATE ON entries
    FOR EACH STATEMENT EXECUTE FUNCTION note_blobs();

-- What a resource holds includes its blobs, those that no entry names as well, as long as they are there: each with what a file takes.
CREATE FUNCTION blob_size(bytes bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT 4096 + bytes
$$;
CREATE FUNCTION entry_size(key bytea, value bytea, blob uuid, blob_bytes bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT mfaas_data.entry_size(key, value) + CASE WHEN blob IS NULL THEN 0 ELSE mfaas_data.blob_size(blob_bytes) END
$$;
CREATE OR REPLACE FUNCTION note_sizes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        PERFORM mfaas_data.count_sizes();
        RETURN NULL;
    END IF;
    IF TG_OP IN ('INSERT', 'UPDATE') THEN
        INSERT INTO mfaas_data.size_changes (resource, bytes)
        SELECT resource, sum(mfaas_data.entry_size(key, value, blob, blob_bytes)) FROM added GROUP BY resource;
    END IF;
    IF TG_OP IN ('DELETE', 'UPDATE') THEN
        INSERT INTO mfaas_data.size_changes (resource, bytes)
        SELECT resource, -sum(mfaas_data.entry_size(key, value, blob, blob_bytes)) FROM removed GROUP BY resource;
    END IF;
    RETURN NULL;
END
$$;
CREATE FUNCTION note_blob_sizes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        PERFORM mfaas_data.count_sizes();
    ELSIF TG_OP = 'INSERT' THEN
        INSERT INTO mfaas_data.size_changes (resource, bytes)
        SELECT resource, sum(mfaas_data.blob_size(bytes)) FROM added GROUP BY resource;
    ELSE
        INSERT INTO mfaas_data.size_changes (resource, bytes)
        SELECT resource, -sum(mfaas_data.blob_size(bytes)) FROM removed GROUP BY resource;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER staged_blobs_added AFTER INSERT ON staged_blobs
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION note_blob_sizes();
CREATE TRIGGER staged_blobs_removed AFTER DELETE ON staged_blobs
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION note_blob_sizes();
CREATE TRIGGER staged_blobs_truncated AFTER TRUNCATE ON staged_blobs
    FOR EACH STATEMENT EXECUTE FUNCTION note_blob_sizes();
CREATE TRIGGER freed_blobs_added AFTER INSERT ON freed_blobs
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION note_blob_sizes();
CREATE TRIGGER freed_blobs_removed AFTER DELETE ON freed_blobs
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION note_blob_sizes();
CREATE TRIGGER freed_blobs_truncated AFTER TRUNCATE ON freed_blobs
    FOR EACH STATEMENT EXECUTE FUNCTION note_blob_sizes();

CREATE OR REPLACE FUNCTION count_sizes() RETURNS void LANGUAGE sql AS $$
    LOCK TABLE mfaas_data.entries, mfaas_data.staged_blobs, mfaas_data.freed_blobs IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM mfaas_data.size_changes;
    DELETE FROM mfaas_data.sizes;
    INSERT INTO mfaas_data.sizes (resource, bytes)
    SELECT resource, sum(bytes) FROM (
        SELECT resource, mfaas_data.entry_size(key, value, blob, blob_bytes) AS bytes FROM mfaas_data.entries
        UNION ALL
        SELECT resource, mfaas_data.blob_size(bytes) FROM mfaas_data.staged_blobs
        UNION ALL
        SELECT resource, mfaas_data.blob_size(bytes) FROM mfaas_data.freed_blobs
    ) held GROUP BY resource;
$$;

-- As before, and with blobs: where one is given, the value is empty.
CREATE FUNCTION commit_call(
    a_call uuid, a_tenant text, a_function text, a_version bigint, a_trace text,
    seen_resources text[], seen_keys bytea[], seen_versions bigint[],
    scan_resources text[], scan_froms bytea[], scan_tos bytea[], scan_versions text[],
    put_resources text[], put_keys bytea[], put_values bytea[], put_expiries_ms bigint[],
    put_blobs uuid[], put_blob_bytes bigint[]
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
    INSERT INTO entries AS e (resource, key, value, version, expires_at, blob, blob_bytes)
    SELECT put.resource, put.key, put.value, nextval('versions'),
        CASE WHEN put.expiry_ms >= 0 THEN now() + put.expiry_ms * interval '1 millisecond'
            WHEN put.expiry_ms = -1 THEN '-infinity' END,
        put.blob, put.blob_bytes
    FROM unnest(put_resources, put_keys, put_values, put_expiries_ms, put_blobs, put_blob_bytes)
        AS put (resource, key, value, expiry_ms, blob, blob_bytes)
    WHERE put.value IS NOT NULL
    ON CONFLICT (resource, key) DO UPDATE SET value = excluded.value, version = excluded.version,
        expires_at = CASE WHEN excluded.expires_at = '-infinity' THEN e.expires_at ELSE excluded.expires_at END,
        blob = excluded.blob, blob_bytes = excluded.blob_bytes;
    DELETE FROM entries e
    USING unnest(put_resources, put_keys, put_values) AS put (resource, key, value)
    WHERE put.value IS NULL AND e.resource = put.resource AND e.key = put.key;
    INSERT INTO audit (call, tenant, function, version, trace, resource, key_sha256, operation, bytes)
    SELECT a_call, a_tenant, a_function, a_version, a_trace, put.resource, sha256(put.key),
        CASE WHEN put.value IS NULL THEN 'delete' ELSE 'put' END,
        coalesce(octet_length(put.value), 0) + put.blob_bytes
    FROM unnest(put_resources, put_keys, put_values, put_blob_bytes) AS put (resource, key, value, blob_bytes);
    RETURN true;
END
$$;

-- Brokers of the release before, until they are updated, name no blobs.
CREATE OR REPLACE FUNCTION commit_call(
    a_call uuid, a_tenant text, a_function text, a_version bigint, a_trace text,
    seen_resources text[], seen_keys bytea[], seen_versions bigint[],
    scan_resources text[], scan_froms bytea[], scan_tos bytea[], scan_versions text[],
    put_resources text[], put_keys bytea[], put_values bytea[], put_expiries_ms bigint[]
) RETURNS boolean LANGUAGE sql AS $$
    SELECT commit_call(
        a_call, a_tenant, a_function, a_version, a_trace, seen_resources, seen_keys, seen_versions,
        scan_resources, scan_froms, scan_tos, scan_versions, put_resources, put_keys, put_values, put_expiries_ms,
        array_fill(NULL::uuid, ARRAY[cardinality(put_keys)]), array_fill(0::bigint, ARRAY[cardinality(put_keys)]))
$$;
