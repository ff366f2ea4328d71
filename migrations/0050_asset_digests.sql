-- no-transaction
-- Whether a blob is an asset's is asked before it is removed, and when a node asks for it.
CREATE INDEX CONCURRENTLY resources_by_digest ON resources (digest) WHERE digest IS NOT NULL;
