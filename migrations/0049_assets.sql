-- Assets: bytes that never change, in the blob store, which workers that run a function have in their memory.
ALTER TABLE resources
    DROP CONSTRAINT resources_kind_known,
    ADD CONSTRAINT resources_kind_known CHECK (kind IN ('kv', 'cache', 'object', 'volume', 'http', 'secret', 'asset')),
    ADD COLUMN digest text CONSTRAINT resources_digest_sha256 CHECK (digest ~ '^[0-9a-f]{64}$'),
    ADD COLUMN bytes bigint CONSTRAINT resources_bytes_positive CHECK (bytes > 0),
    ADD CONSTRAINT resources_content_of_assets CHECK (
        (kind = 'asset') = (digest IS NOT NULL) AND (kind = 'asset') = (bytes IS NOT NULL));
ALTER TABLE version_bindings
    DROP CONSTRAINT version_bindings_kind_known,
    ADD CONSTRAINT version_bindings_kind_known
        CHECK (kind IN ('kv', 'cache', 'object', 'volume', 'http', 'secret', 'asset'));
GRANT INSERT (digest, bytes) ON resources TO mfaas_server;
