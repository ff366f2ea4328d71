-- What each program may do; whatever is not here is denied. The owner runs migrations and nothing else.

REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO mfaas_server, mfaas_builder, mfaas_signer;
GRANT EXECUTE ON FUNCTION append_audit(text, text, text, text, jsonb)
    TO mfaas_server, mfaas_builder, mfaas_signer;

-- Every program refuses to start on a schema that it does not know.
GRANT SELECT ON _sqlx_migrations TO mfaas_server, mfaas_builder, mfaas_signer;

-- Server: everything that people and nodes ask for. It cannot make a version, a statement, an
-- artifact or a serving set, and it cannot commit a build.
GRANT SELECT ON ALL TABLES IN SCHEMA public TO mfaas_server;
GRANT INSERT ON tenants, tokens, deployments, builds, crates, toolchains, nodes, join_tokens, node_reports,
    revocations, function_logs, deployment_events, aliases TO mfaas_server;
GRANT UPDATE (revoked_at) ON tokens TO mfaas_server;
GRANT UPDATE (deleted_at) ON functions TO mfaas_server;
GRANT UPDATE (retired_at) ON versions TO mfaas_server;
GRANT UPDATE (state, diagnostics, last_event, updated_at) ON deployments TO mfaas_server;
GRANT UPDATE (attempt, lease_holder, lease_expires_at, committed_token, queued_at, started_at, finished_at)
    ON builds TO mfaas_server;
GRANT UPDATE (version, updated_at), DELETE ON aliases TO mfaas_server;
GRANT UPDATE (checksum, features, direct, status, decided_by, decided_at, reason) ON crates TO mfaas_server;
GRANT UPDATE (accepted, decided_by, decided_at) ON toolchains TO mfaas_server;
GRANT UPDATE (status, decided_at) ON crate_requests TO mfaas_server;
GRANT UPDATE (certificate_sha256, cordoned, joined_at) ON nodes TO mfaas_server;
GRANT UPDATE (used_at) ON join_tokens TO mfaas_server;
GRANT UPDATE ON node_reports TO mfaas_server;
GRANT UPDATE (generation) ON desired_generation TO mfaas_server;
GRANT DELETE ON function_logs TO mfaas_server;

-- Builder: its queue, and the progress of deployments. No rights on the allowlist, tokens,
-- source digests, versions, statements, nodes or what is served.
GRANT SELECT ON deployments, builds, builders, deployment_events, crate_requests, crates, policy_state
    TO mfaas_builder;
GRANT UPDATE (state, diagnostics, last_event, updated_at) ON deployments TO mfaas_builder;
GRANT UPDATE (attempt, lease_holder, lease_expires_at, fencing_token, committed_token, claim, started_at, finished_at)
    ON builds TO mfaas_builder;
GRANT INSERT ON builders, deployment_events, crate_requests TO mfaas_builder;
GRANT UPDATE (requirement, features, code, status, decided_at) ON crate_requests TO mfaas_builder;
GRANT UPDATE (seen_at), DELETE ON builders TO mfaas_builder;
GRANT USAGE ON SEQUENCE fencing_token TO mfaas_builder;

-- Signer: reads what it decides on, writes what it signs.
GRANT SELECT ON deployments, builds, deployment_events, functions, versions, aliases, artifacts, statements,
    toolchains, crates, policy_state, revocations, desired_generation, serving_sets, key_lists TO mfaas_signer;
GRANT UPDATE (state, diagnostics, version, last_event, updated_at) ON deployments TO mfaas_signer;
-- The highest epoch that a node has seen, so that a restored backup does not sign an older one.
GRANT SELECT (epoch) ON node_reports TO mfaas_signer;
-- FOR UPDATE needs a right to update; this column is the one it may touch.
GRANT UPDATE (finished_at) ON builds TO mfaas_signer;
GRANT INSERT ON functions, versions, aliases, artifacts, statements, serving_sets, key_lists, deployment_events
    TO mfaas_signer;
GRANT UPDATE (last_version, deleted_at) ON functions TO mfaas_signer;
GRANT UPDATE (version, updated_at) ON aliases TO mfaas_signer;
GRANT UPDATE (generation) ON desired_generation TO mfaas_signer;
GRANT DELETE ON serving_sets TO mfaas_signer;
GRANT EXECUTE ON FUNCTION hold_policy_version() TO mfaas_signer;
