-- A builder compares what it has with what the site has, and says that it lacks something where it would otherwise ask
-- reviewers for crates that another builder links: names of toolchains, and names, versions and checksums of crates.
GRANT SELECT ON toolchains, cached_crates TO mfaas_builder;
