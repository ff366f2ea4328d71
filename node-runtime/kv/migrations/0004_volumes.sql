-- Changes of files, which take effect at once: each is announced in the audit before the first of its kind of a file by a call, and told
-- in full afterwards. One that was never told may have been made, wholly or in part. Nothing of what is there is looked through for this.
ALTER TABLE audit
    DROP CONSTRAINT audit_operation_check,
    ADD CONSTRAINT audit_operation_check CHECK (operation IN
        ('put', 'delete', 'get', 'scan', 'create', 'write', 'truncate', 'remove')) NOT VALID,
    -- Of a file: what was written, the first byte of it and the one behind the last.
    ADD COLUMN file_bytes bigint,
    ADD COLUMN from_byte  bigint,
    ADD COLUMN to_byte    bigint,
    ADD COLUMN outcome    text NOT NULL DEFAULT 'done',
    ADD CONSTRAINT audit_outcome_check CHECK (outcome IN ('done', 'failed', 'begun')) NOT VALID;

-- That a store was opened over this data, of objects or of volumes.
ALTER TABLE opened_stores ADD COLUMN kind text NOT NULL DEFAULT 'object' CHECK (kind IN ('object', 'volume'));
