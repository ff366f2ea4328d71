-- What resources hold, and reads among what is audited.

-- By how much each statement changed what a resource holds, in bytes of keys and values, and 128 for each entry: rows that nobody
-- else changes, so that commits do not meet here. They are summed up now and then.
CREATE TABLE size_changes (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    resource text   NOT NULL,
    bytes    bigint NOT NULL
);
CREATE TABLE sizes (
    resource text   PRIMARY KEY,
    bytes    bigint NOT NULL
);

CREATE FUNCTION entry_size(key bytea, value bytea) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT 128::bigint + octet_length(key) + octet_length(value)
$$;

-- With the name of the schema, since who changes entries by hand may have another search path.
CREATE FUNCTION note_sizes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        DELETE FROM mfaas_data.size_changes;
        DELETE FROM mfaas_data.sizes;
        RETURN NULL;
    END IF;
    IF TG_OP IN ('INSERT', 'UPDATE') THEN
        INSERT INTO mfaas_data.size_changes (resource, bytes)
        SELECT resource, sum(mfaas_data.entry_size(key, value)) FROM added GROUP BY resource;
    END IF;
    IF TG_OP IN ('DELETE', 'UPDATE') THEN
        INSERT INTO mfaas_data.size_changes (resource, bytes)
        SELECT resource, -sum(mfaas_data.entry_size(key, value)) FROM removed GROUP BY resource;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER entries_added AFTER INSERT ON entries
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION note_sizes();
CREATE TRIGGER entries_changed AFTER UPDATE ON entries
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION note_sizes();
CREATE TRIGGER entries_removed AFTER DELETE ON entries
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION note_sizes();
CREATE TRIGGER entries_truncated AFTER TRUNCATE ON entries
    FOR EACH STATEMENT EXECUTE FUNCTION note_sizes();

-- Counts again what is there: for what lay here before, and for operators who have restored a part of it. Nothing changes meanwhile.
CREATE FUNCTION count_sizes() RETURNS void LANGUAGE sql AS $$
    LOCK TABLE mfaas_data.entries IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM mfaas_data.size_changes;
    DELETE FROM mfaas_data.sizes;
    INSERT INTO mfaas_data.sizes (resource, bytes)
    SELECT resource, sum(mfaas_data.entry_size(key, value)) FROM mfaas_data.entries GROUP BY resource;
$$;
SELECT count_sizes();

-- Some of the reads; the digest is that of the first key, or of what the keys of a scan begin with. What is there keeps to it: the
-- constraint before was narrower.
ALTER TABLE audit
    DROP CONSTRAINT audit_operation_check,
    ADD CONSTRAINT audit_operation_check CHECK (operation IN ('put', 'delete', 'get', 'scan')) NOT VALID,
    ADD COLUMN keys integer NOT NULL DEFAULT 1;
