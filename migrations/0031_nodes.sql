-- Join tokens for several nodes and any name, and nodes that were removed.

-- NULL: any name that no node has.
ALTER TABLE join_tokens ALTER COLUMN node DROP NOT NULL;
ALTER TABLE join_tokens ADD COLUMN uses_max integer NOT NULL DEFAULT 1
    CONSTRAINT join_tokens_uses_max_known CHECK (uses_max BETWEEN 1 AND 1000);
-- A server of the release before writes `used_at` alone, and takes no token that has one.
ALTER TABLE join_tokens ADD COLUMN uses integer NOT NULL DEFAULT 0
    CONSTRAINT join_tokens_uses_bounded CHECK (uses BETWEEN 0 AND uses_max);

-- What nodes have done stays: bans, usage and reports name them. The certificate of one that was removed gives way to
-- the digest of no certificate, so that no server takes it, one of the release before neither.
ALTER TABLE nodes ADD COLUMN removed_at timestamptz;

GRANT INSERT (uses_max) ON join_tokens TO mfaas_server;
GRANT UPDATE (uses) ON join_tokens TO mfaas_server;
GRANT UPDATE (removed_at) ON nodes TO mfaas_server;
