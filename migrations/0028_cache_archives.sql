-- A site's dependency cache as a blob, for builders on other hosts than the acquirer's: the digest of its archive, and its
-- size. Caches of an earlier release have none until the acquirer has stored it.
ALTER TABLE dependency_caches
    ADD COLUMN archive text CONSTRAINT dependency_caches_archive_sha256 CHECK (archive ~ '^[0-9a-f]{64}$'),
    ADD COLUMN archive_bytes bigint CONSTRAINT dependency_caches_archive_bytes_positive CHECK (archive_bytes > 0),
    ADD CONSTRAINT dependency_caches_archive_whole CHECK ((archive IS NULL) = (archive_bytes IS NULL));

GRANT INSERT (archive, archive_bytes) ON dependency_caches TO mfaas_acquirer;
-- What a site allows may come back to what it was: then a cache that it had becomes the newest again.
GRANT UPDATE (id, built_at, archive, archive_bytes) ON dependency_caches TO mfaas_acquirer;
