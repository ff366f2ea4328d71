-- Functions of other tenants that a function calls, and the tenants that a function lets in.

ALTER TABLE versions
    ADD COLUMN callers text[] NOT NULL DEFAULT '{}',
    ADD CONSTRAINT versions_callers_bounded CHECK (cardinality(callers) <= 32);
GRANT INSERT (callers) ON versions TO mfaas_signer;

-- As a version names it: a function of its tenant, or `tenant/function`.
ALTER TABLE version_calls
    DROP CONSTRAINT version_calls_callee_valid,
    ADD CONSTRAINT version_calls_callee_valid
        CHECK (callee ~ '^([a-z][a-z0-9_-]{0,39}/)?[a-z][a-z0-9_-]{0,62}$');
