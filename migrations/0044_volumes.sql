-- Resources of a fourth kind: volumes, files by path.

ALTER TABLE resources
    DROP CONSTRAINT resources_kind_known,
    ADD CONSTRAINT resources_kind_known CHECK (kind IN ('kv', 'cache', 'object', 'volume'));
ALTER TABLE version_bindings
    DROP CONSTRAINT version_bindings_kind_known,
    ADD CONSTRAINT version_bindings_kind_known CHECK (kind IN ('kv', 'cache', 'object', 'volume'));
