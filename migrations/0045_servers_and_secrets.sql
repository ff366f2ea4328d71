-- Resources of two more kinds: servers that are asked over HTTP, and secrets that requests to them may carry.

ALTER TABLE resources
    DROP CONSTRAINT resources_kind_known,
    ADD CONSTRAINT resources_kind_known CHECK (kind IN ('kv', 'cache', 'object', 'volume', 'http', 'secret'));
ALTER TABLE version_bindings
    DROP CONSTRAINT version_bindings_kind_known,
    ADD CONSTRAINT version_bindings_kind_known CHECK (kind IN ('kv', 'cache', 'object', 'volume', 'http', 'secret'));
