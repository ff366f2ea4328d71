-- A node renews its certificate by the one that it has: that one opens as well until the next renewal, since the answer may
-- be lost on its way.
ALTER TABLE nodes
    ADD COLUMN previous_certificate_sha256 text CONSTRAINT nodes_previous_certificate_unique UNIQUE,
    ADD COLUMN renewed_at timestamptz;

GRANT UPDATE (previous_certificate_sha256, renewed_at) ON nodes TO mfaas_server;
