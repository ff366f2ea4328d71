-- What resources hold, and reads among what is audited.

-- Nothing changes until sums and triggers are there.
LOCK TABLE entries IN SHARE ROW EXCLUSIVE MODE;

-- By how much each statement changed what a resource holds, in bytes of keys and values: rows that nobody else changes, so that
-- commits do not meet here. They are summed up now and then.
CREATE TABLE size_changes (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    resource text   NOT NULL,
    bytes    bigint NOT NULL
);
CREATE TABLE sizes (
    resource text   PRIMARY KEY,
    bytes    bigint NOT NULL
);
INSERT INTO sizes (resource, bytes)
SELECT resource, sum(octet_length(key) + octet_length(value)) FROM entries GROUP BY resource;

-- With the name of the schema, since who changes entries by hand may have another search path.
CREATE FUNCTION note_sizes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP IN ('INSERT', 'UPDATE') THEN
        INSERT INTO mfaas_data.size_changes (resource, bytes)
        SELECT resource, sum(octet_length(key) + octet_length(value)) FROM added GROUP BY resource;
    END IF;
    IF TG_OP IN ('DELETE', 'UPDATE') THEN
        INSERT INTO mfaas_data.size_changes (resource, bytes)
        SELECT resource, -sum(octet_length(key) + octet_length(value)) FROM removed GROUP BY resource;
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

-- Some of the reads; the digest is that of the first key, or of what the keys of a scan begin with.
ALTER TABLE audit
    DROP CONSTRAINT audit_operation_check,
    ADD CONSTRAINT audit_operation_check CHECK (operation IN ('put', 'delete', 'get', 'scan')),
    ADD COLUMN keys integer NOT NULL DEFAULT 1;
