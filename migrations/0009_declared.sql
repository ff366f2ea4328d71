-- What a version declares in its manifest, for whoever looks; nodes believe the signed statement alone. Versions from
-- before declared nothing, and a signer of the release before writes none.

ALTER TABLE versions
    ADD COLUMN idempotent boolean NOT NULL DEFAULT false,
    ADD COLUMN isolation  text    NOT NULL DEFAULT 'shared'
        CONSTRAINT versions_isolation_known CHECK (isolation IN ('shared', 'process'));
