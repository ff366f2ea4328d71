-- Resources of a second kind: caches, in the memory of nodes.

ALTER TABLE resources
    DROP CONSTRAINT resources_kind_known,
    ADD CONSTRAINT resources_kind_known CHECK (kind IN ('kv', 'cache'));
ALTER TABLE version_bindings
    DROP CONSTRAINT version_bindings_kind_known,
    ADD CONSTRAINT version_bindings_kind_known CHECK (kind IN ('kv', 'cache'));
