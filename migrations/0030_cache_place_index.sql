-- no-transaction
-- The newest cache over a base, for a toolchain.
CREATE INDEX CONCURRENTLY dependency_caches_place ON dependency_caches (base, toolchain, id);
