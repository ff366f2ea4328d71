-- After a leak the signer signs the statements of admitted versions again, and every serving set names the head of the audit log.
-- It may give a version another statement and nothing else, and read where the chain ends.
GRANT UPDATE (statement) ON versions TO mfaas_signer;
GRANT SELECT ON audit_head TO mfaas_signer;
