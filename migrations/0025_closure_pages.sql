-- The page of a crate shows what it needs, which the signer and the acquirer read already: names, versions and checksums of
-- crates, none of a tenant's.
GRANT SELECT ON cached_crates TO mfaas_server;
