-- Requests to servers that may change something there, which take effect at once as changes of files do.
ALTER TABLE audit
    DROP CONSTRAINT audit_operation_check,
    ADD CONSTRAINT audit_operation_check CHECK (operation IN
        ('put', 'delete', 'get', 'scan', 'create', 'write', 'truncate', 'remove', 'request')) NOT VALID;
