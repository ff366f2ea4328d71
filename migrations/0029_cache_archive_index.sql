-- no-transaction
-- Whether a blob is the archive of a cache.
CREATE INDEX CONCURRENTLY dependency_caches_archive ON dependency_caches (archive);
