-- The whole schema, as the migrations make it. Written by the catalog's schema test with
-- MFAAS_UPDATE=1; never applied.

CREATE TABLE agreement (
    one boolean NOT NULL DEFAULT true,
    builders integer,
    CONSTRAINT agreement_pkey PRIMARY KEY (one),
    CONSTRAINT agreement_builders_bounded CHECK (((builders >= 1) AND (builders <= 4))),
    CONSTRAINT agreement_one_row CHECK (one)
);
GRANT SELECT ON agreement TO mfaas_server;
GRANT SELECT ON agreement TO mfaas_signer;
GRANT UPDATE (builders) ON agreement TO mfaas_signer;

CREATE TABLE aliases (
    tenant text NOT NULL,
    function text NOT NULL,
    alias text NOT NULL,
    version integer NOT NULL,
    updated_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT aliases_pkey PRIMARY KEY (tenant, function, alias),
    CONSTRAINT aliases_alias_known CHECK ((alias ~ '^[a-z][a-z0-9_-]{0,39}$'::text)) NOT VALID,
    CONSTRAINT aliases_version_fkey FOREIGN KEY (tenant, function, version) REFERENCES versions(tenant, function, version)
);
CREATE TRIGGER aliases_changed AFTER INSERT OR DELETE OR UPDATE OF version ON public.aliases FOR EACH ROW EXECUTE FUNCTION note_changed_function();
GRANT DELETE, SELECT ON aliases TO mfaas_server;
GRANT SELECT ON aliases TO mfaas_signer;
GRANT INSERT (tenant, function, alias, version) ON aliases TO mfaas_server;
GRANT UPDATE (version, updated_at) ON aliases TO mfaas_server;
GRANT INSERT (tenant, function, alias, version) ON aliases TO mfaas_signer;
GRANT UPDATE (version, updated_at) ON aliases TO mfaas_signer;

CREATE TABLE artifacts (
    digest text NOT NULL,
    bytes bigint NOT NULL,
    toolchain text NOT NULL,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT artifacts_pkey PRIMARY KEY (digest),
    CONSTRAINT artifacts_digest_sha256 CHECK ((digest ~ '^[0-9a-f]{64}$'::text))
);
GRANT SELECT ON artifacts TO mfaas_server;
GRANT SELECT ON artifacts TO mfaas_signer;
GRANT INSERT (digest, bytes, toolchain) ON artifacts TO mfaas_signer;

CREATE TABLE audit_head (
    one boolean NOT NULL DEFAULT true,
    seq bigint NOT NULL,
    hash text NOT NULL,
    CONSTRAINT audit_head_pkey PRIMARY KEY (one),
    CONSTRAINT audit_head_one_row CHECK (one)
);
GRANT SELECT ON audit_head TO mfaas_server;
GRANT SELECT ON audit_head TO mfaas_signer;

CREATE TABLE audit_log (
    seq bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    role text NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    tenant text NOT NULL,
    subject text NOT NULL,
    detail jsonb NOT NULL,
    hash text NOT NULL,
    CONSTRAINT audit_log_pkey PRIMARY KEY (seq)
);
CREATE INDEX audit_log_by_subject ON public.audit_log USING btree (subject, action);
GRANT SELECT ON audit_log TO mfaas_server;

CREATE TABLE audit_pending (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    role text NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    tenant text NOT NULL,
    subject text NOT NULL,
    detail jsonb NOT NULL,
    CONSTRAINT audit_pending_pkey PRIMARY KEY (id)
);
CREATE CONSTRAINT TRIGGER audit_pending_chain AFTER INSERT ON public.audit_pending DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION chain_audit();

CREATE TABLE bans (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    told uuid NOT NULL,
    tenant text NOT NULL,
    function text NOT NULL,
    version integer NOT NULL,
    artifact text NOT NULL,
    node text NOT NULL,
    crashes integer NOT NULL,
    since timestamp with time zone NOT NULL DEFAULT now(),
    lifted_at timestamp with time zone,
    lifted_by text,
    CONSTRAINT bans_pkey PRIMARY KEY (id),
    CONSTRAINT bans_crashes_positive CHECK ((crashes > 0)),
    CONSTRAINT bans_lifted_by_somebody CHECK (((lifted_at IS NULL) = (lifted_by IS NULL))),
    CONSTRAINT bans_node_fkey FOREIGN KEY (node) REFERENCES nodes(name),
    CONSTRAINT bans_told_once UNIQUE (told),
    CONSTRAINT bans_version_fkey FOREIGN KEY (tenant, function, version) REFERENCES versions(tenant, function, version)
);
CREATE INDEX bans_in_force ON public.bans USING btree (id) WHERE (lifted_at IS NULL);
CREATE UNIQUE INDEX bans_one_in_force ON public.bans USING btree (tenant, function, artifact) WHERE (lifted_at IS NULL);
CREATE TRIGGER bans_orders AFTER INSERT OR UPDATE ON public.bans FOR EACH STATEMENT EXECUTE FUNCTION tell_orders();
GRANT SELECT ON bans TO mfaas_server;
GRANT INSERT (told, tenant, function, version, artifact, node, crashes) ON bans TO mfaas_server;
GRANT UPDATE (lifted_at, lifted_by) ON bans TO mfaas_server;

CREATE TABLE build_claims (
    deployment_id uuid NOT NULL,
    role name NOT NULL,
    committed_token bigint NOT NULL,
    claim jsonb NOT NULL,
    finished_at timestamp with time zone NOT NULL,
    CONSTRAINT build_claims_pkey PRIMARY KEY (deployment_id, role),
    CONSTRAINT build_claims_build_fkey FOREIGN KEY (deployment_id) REFERENCES builds(deployment_id)
);
GRANT DELETE, SELECT ON build_claims TO mfaas_signer;
GRANT SELECT (deployment_id, role) ON build_claims TO mfaas_builder;
GRANT INSERT (deployment_id, role, committed_token, claim, finished_at) ON build_claims TO mfaas_signer;

CREATE TABLE builders (
    instance text NOT NULL,
    seen_at timestamp with time zone NOT NULL DEFAULT now(),
    unwell text,
    role name DEFAULT SESSION_USER,
    CONSTRAINT builders_pkey PRIMARY KEY (instance),
    CONSTRAINT builders_unwell_length CHECK ((length(unwell) <= 500))
);
CREATE TRIGGER builders_old BEFORE DELETE ON public.builders FOR EACH ROW EXECUTE FUNCTION check_old();
CREATE TRIGGER builders_role BEFORE INSERT OR DELETE OR UPDATE ON public.builders FOR EACH ROW EXECUTE FUNCTION check_builder_row();
GRANT DELETE, SELECT ON builders TO mfaas_builder;
GRANT DELETE, SELECT ON builders TO mfaas_server;
GRANT SELECT ON builders TO mfaas_signer;
GRANT INSERT (instance) ON builders TO mfaas_builder;
GRANT UPDATE (seen_at, unwell) ON builders TO mfaas_builder;

CREATE TABLE builds (
    deployment_id uuid NOT NULL,
    attempt integer NOT NULL DEFAULT 0,
    lease_holder text,
    lease_expires_at timestamp with time zone,
    fencing_token bigint,
    committed_token bigint,
    claim jsonb,
    queued_at timestamp with time zone NOT NULL DEFAULT now(),
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    tenant text NOT NULL,
    lease_role name,
    not_before timestamp with time zone,
    postponed integer NOT NULL DEFAULT 0,
    postponed_because text,
    rebuild_for text,
    rounds smallint NOT NULL DEFAULT 0,
    CONSTRAINT builds_pkey PRIMARY KEY (deployment_id),
    CONSTRAINT builds_claim_when_finished CHECK (((claim IS NULL) OR (finished_at IS NOT NULL))),
    CONSTRAINT builds_deployment_fkey FOREIGN KEY (deployment_id) REFERENCES deployments(id),
    CONSTRAINT builds_only_highest_token_commits CHECK (((committed_token IS NULL) OR ((fencing_token IS NOT NULL) AND (committed_token = fencing_token)))),
    CONSTRAINT builds_postponed_because_length CHECK ((length(postponed_because) <= 500)),
    CONSTRAINT builds_rebuild_for_length CHECK (((length(rebuild_for) >= 1) AND (length(rebuild_for) <= 100))),
    CONSTRAINT builds_rounds_bounded CHECK (((rounds >= 0) AND (rounds <= 8)))
);
CREATE INDEX builds_asked_again ON public.builds USING btree (queued_at, deployment_id) WHERE ((finished_at IS NULL) AND (rounds > 0));
CREATE INDEX builds_by_tenant ON public.builds USING btree (tenant, queued_at, deployment_id) WHERE (finished_at IS NULL);
CREATE INDEX builds_leased ON public.builds USING btree (tenant) WHERE ((finished_at IS NULL) AND (lease_expires_at IS NOT NULL));
CREATE INDEX builds_postponed ON public.builds USING btree (deployment_id) WHERE ((finished_at IS NULL) AND (postponed_because IS NOT NULL));
CREATE INDEX builds_queue ON public.builds USING btree (queued_at) WHERE (finished_at IS NULL);
CREATE INDEX builds_turns ON public.builds USING btree (tenant, started_at);
CREATE TRIGGER builds_begin BEFORE INSERT ON public.builds FOR EACH ROW EXECUTE FUNCTION begin_build();
CREATE TRIGGER builds_change BEFORE UPDATE ON public.builds FOR EACH ROW EXECUTE FUNCTION check_build_change();
CREATE TRIGGER builds_ended AFTER UPDATE OF finished_at ON public.builds FOR EACH ROW WHEN (((old.finished_at IS NULL) AND (new.finished_at IS NOT NULL))) EXECUTE FUNCTION note_ended_build();
CREATE TRIGGER builds_tenant BEFORE INSERT ON public.builds FOR EACH ROW EXECUTE FUNCTION builds_of_their_tenant();
GRANT SELECT ON builds TO mfaas_acquirer;
GRANT SELECT ON builds TO mfaas_builder;
GRANT SELECT ON builds TO mfaas_server;
GRANT SELECT ON builds TO mfaas_signer;
GRANT UPDATE (attempt, lease_holder, lease_expires_at, committed_token, queued_at, finished_at) ON builds TO mfaas_acquirer;
GRANT UPDATE (attempt, lease_holder, lease_expires_at, fencing_token, committed_token, claim, started_at, finished_at, not_before, postponed, postponed_because) ON builds TO mfaas_builder;
GRANT INSERT (deployment_id) ON builds TO mfaas_server;
GRANT UPDATE (attempt, lease_holder, lease_expires_at, committed_token, queued_at, finished_at) ON builds TO mfaas_server;
GRANT UPDATE (finished_at, rebuild_for, rounds) ON builds TO mfaas_signer;

CREATE TABLE cached_crates (
    cache text NOT NULL,
    base text NOT NULL,
    toolchain text NOT NULL,
    name text NOT NULL,
    version text NOT NULL,
    checksum text NOT NULL,
    closure jsonb NOT NULL,
    CONSTRAINT cached_crates_pkey PRIMARY KEY (cache, name, version),
    CONSTRAINT cached_crates_base_sha256 CHECK ((base ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT cached_crates_cache_sha256 CHECK ((cache ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT cached_crates_closure_listed CHECK ((jsonb_typeof(closure) = 'array'::text))
);
CREATE INDEX cached_crates_shipped ON public.cached_crates USING btree (toolchain, name) WHERE (cache = base);
GRANT SELECT ON cached_crates TO mfaas_acquirer;
GRANT SELECT ON cached_crates TO mfaas_builder;
GRANT SELECT ON cached_crates TO mfaas_server;
GRANT SELECT ON cached_crates TO mfaas_signer;
GRANT INSERT (cache, base, toolchain, name, version, checksum, closure) ON cached_crates TO mfaas_acquirer;

CREATE TABLE call_keys (
    id text NOT NULL,
    public_key text NOT NULL,
    made_at timestamp with time zone NOT NULL DEFAULT now(),
    used_from timestamp with time zone NOT NULL,
    not_after timestamp with time zone NOT NULL,
    CONSTRAINT call_keys_pkey PRIMARY KEY (id),
    CONSTRAINT call_keys_end CHECK ((not_after <= (made_at + '100 days'::interval))),
    CONSTRAINT call_keys_is_a_key CHECK ((public_key ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT call_keys_named_by_digest CHECK ((id = encode(sha256(decode(public_key, 'hex'::text)), 'hex'::text)))
);
GRANT SELECT ON call_keys TO mfaas_server;
GRANT SELECT ON call_keys TO mfaas_signer;
GRANT INSERT (id, public_key, used_from, not_after) ON call_keys TO mfaas_server;
GRANT UPDATE (not_after) ON call_keys TO mfaas_server;

CREATE TABLE call_revocations (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    tenant text NOT NULL,
    caller text NOT NULL,
    token uuid,
    issued_until timestamp with time zone NOT NULL,
    ends_at timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone NOT NULL DEFAULT now(),
    revoked_by text NOT NULL,
    CONSTRAINT call_revocations_pkey PRIMARY KEY (id),
    CONSTRAINT call_revocations_begin CHECK ((issued_until <= (revoked_at + '01:00:00'::interval))),
    CONSTRAINT call_revocations_caller_length CHECK (((length(caller) >= 1) AND (length(caller) <= 200))),
    CONSTRAINT call_revocations_end CHECK (((ends_at > issued_until) AND (ends_at <= (issued_until + '24:00:00'::interval)))),
    CONSTRAINT call_revocations_tenant_fkey FOREIGN KEY (tenant) REFERENCES tenants(name),
    CONSTRAINT call_revocations_token_unique UNIQUE (token)
);
CREATE INDEX call_revocations_by_caller ON public.call_revocations USING btree (tenant, caller);
CREATE INDEX call_revocations_by_end ON public.call_revocations USING btree (ends_at);
CREATE TRIGGER call_revocations_made AFTER INSERT ON public.call_revocations FOR EACH ROW EXECUTE FUNCTION bound_call_revocations();
CREATE TRIGGER call_revocations_old BEFORE DELETE ON public.call_revocations FOR EACH ROW EXECUTE FUNCTION check_old();
GRANT DELETE, SELECT ON call_revocations TO mfaas_server;
GRANT SELECT ON call_revocations TO mfaas_signer;
GRANT INSERT (tenant, caller, token, issued_until, ends_at, revoked_by) ON call_revocations TO mfaas_server;

CREATE TABLE call_tokens (
    id uuid NOT NULL,
    tenant text NOT NULL,
    caller text NOT NULL,
    functions text[] NOT NULL,
    issued_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    key text NOT NULL,
    issued_by text NOT NULL,
    CONSTRAINT call_tokens_pkey PRIMARY KEY (id),
    CONSTRAINT call_tokens_caller_length CHECK (((length(caller) >= 1) AND (length(caller) <= 200))),
    CONSTRAINT call_tokens_life CHECK (((expires_at > issued_at) AND (expires_at <= (issued_at + '24:00:00'::interval)))),
    CONSTRAINT call_tokens_tenant_fkey FOREIGN KEY (tenant) REFERENCES tenants(name)
);
CREATE INDEX call_tokens_by_caller ON public.call_tokens USING btree (tenant, caller, issued_at);
CREATE INDEX call_tokens_by_end ON public.call_tokens USING btree (expires_at);
CREATE INDEX call_tokens_by_end_of_caller ON public.call_tokens USING btree (tenant, caller, expires_at);
CREATE INDEX call_tokens_by_tenant ON public.call_tokens USING btree (tenant, expires_at);
CREATE TRIGGER call_tokens_old BEFORE DELETE ON public.call_tokens FOR EACH ROW EXECUTE FUNCTION check_old();
GRANT DELETE, SELECT ON call_tokens TO mfaas_server;
GRANT INSERT (id, tenant, caller, functions, issued_at, expires_at, key, issued_by) ON call_tokens TO mfaas_server;

CREATE TABLE certificate_requests (
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    node text NOT NULL,
    csr text NOT NULL,
    secret_sha256 text,
    shown bytea,
    asked_at timestamp with time zone NOT NULL DEFAULT now(),
    certificate text,
    refusal text,
    CONSTRAINT certificate_requests_pkey PRIMARY KEY (id),
    CONSTRAINT certificate_requests_bytes_bounded CHECK (((octet_length(csr) <= 16384) AND (octet_length(shown) <= 16384) AND (octet_length(certificate) <= 16384))),
    CONSTRAINT certificate_requests_one_answer CHECK (((certificate IS NULL) OR (refusal IS NULL))),
    CONSTRAINT certificate_requests_one_reason CHECK (((secret_sha256 IS NULL) <> (shown IS NULL))),
    CONSTRAINT certificate_requests_refusal_known CHECK ((refusal = ANY (ARRAY['unknown'::text, 'taken'::text, 'unusable'::text, 'again'::text, 'too_many'::text])))
);
GRANT DELETE, SELECT ON certificate_requests TO mfaas_server;
GRANT SELECT ON certificate_requests TO mfaas_signer;
GRANT INSERT (node, csr, secret_sha256, shown) ON certificate_requests TO mfaas_server;
GRANT UPDATE (certificate, refusal) ON certificate_requests TO mfaas_signer;

CREATE TABLE changed_functions (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    tenant text NOT NULL,
    name text NOT NULL,
    CONSTRAINT changed_functions_pkey PRIMARY KEY (id)
);
CREATE INDEX changed_functions_by_name ON public.changed_functions USING btree (tenant, name);
GRANT SELECT ON changed_functions TO mfaas_server;
GRANT DELETE, SELECT ON changed_functions TO mfaas_signer;

CREATE TABLE crate_archives (
    checksum text NOT NULL,
    name text NOT NULL,
    version text NOT NULL,
    bytes bigint NOT NULL,
    acquired_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT crate_archives_pkey PRIMARY KEY (checksum),
    CONSTRAINT crate_archives_bytes_positive CHECK ((bytes > 0)),
    CONSTRAINT crate_archives_checksum_sha256 CHECK ((checksum ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT crate_archives_version_unique UNIQUE (name, version)
);
GRANT SELECT ON crate_archives TO mfaas_acquirer;
GRANT SELECT ON crate_archives TO mfaas_server;
GRANT INSERT (checksum, name, version, bytes) ON crate_archives TO mfaas_acquirer;

CREATE TABLE crate_deltas (
    key text NOT NULL,
    from_checksum text NOT NULL,
    to_checksum text NOT NULL,
    delta jsonb NOT NULL,
    compared_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT crate_deltas_pkey PRIMARY KEY (key),
    CONSTRAINT crate_deltas_from_fkey FOREIGN KEY (from_checksum) REFERENCES crate_archives(checksum),
    CONSTRAINT crate_deltas_key_sha256 CHECK ((key ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT crate_deltas_to_fkey FOREIGN KEY (to_checksum) REFERENCES crate_archives(checksum)
);
GRANT SELECT ON crate_deltas TO mfaas_acquirer;
GRANT SELECT ON crate_deltas TO mfaas_server;
GRANT INSERT (key, from_checksum, to_checksum, delta) ON crate_deltas TO mfaas_acquirer;

CREATE TABLE crate_files (
    checksum text NOT NULL,
    path text NOT NULL,
    blob text NOT NULL,
    bytes bigint NOT NULL,
    CONSTRAINT crate_files_pkey PRIMARY KEY (checksum, path),
    CONSTRAINT crate_files_archive_fkey FOREIGN KEY (checksum) REFERENCES crate_archives(checksum),
    CONSTRAINT crate_files_blob_sha256 CHECK ((blob ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT crate_files_bytes_known CHECK ((bytes >= 0)),
    CONSTRAINT crate_files_path_length CHECK (((length(path) >= 1) AND (length(path) <= 500)))
);
CREATE INDEX crate_files_by_blob ON public.crate_files USING btree (blob);
GRANT SELECT ON crate_files TO mfaas_acquirer;
GRANT SELECT ON crate_files TO mfaas_server;
GRANT INSERT (checksum, path, blob, bytes) ON crate_files TO mfaas_acquirer;

CREATE TABLE crate_reports (
    key text NOT NULL,
    checksum text NOT NULL,
    report jsonb NOT NULL,
    gathered_at timestamp with time zone NOT NULL DEFAULT now(),
    unsafe_code text DEFAULT (report #>> '{source,summary,unsafe}'::text[]),
    geiger jsonb DEFAULT (report #> '{source,summary,geiger}'::text[]),
    compiler jsonb DEFAULT 
CASE
    WHEN ((report ? 'compiler'::text) AND (jsonb_typeof((report -> 'compiler'::text)) = 'object'::text)) THEN jsonb_set((report -> 'compiler'::text), '{unsafe,spots}'::text[], '[]'::jsonb, false)
    ELSE (report -> 'compiler'::text)
END,
    kind jsonb DEFAULT (report -> 'kind'::text),
    CONSTRAINT crate_reports_pkey PRIMARY KEY (key),
    CONSTRAINT crate_reports_archive_fkey FOREIGN KEY (checksum) REFERENCES crate_archives(checksum),
    CONSTRAINT crate_reports_key_sha256 CHECK ((key ~ '^[0-9a-f]{64}$'::text))
);
CREATE INDEX crate_reports_by_checksum ON public.crate_reports USING btree (checksum);
GRANT SELECT ON crate_reports TO mfaas_acquirer;
GRANT SELECT ON crate_reports TO mfaas_server;
GRANT INSERT (key, checksum, report) ON crate_reports TO mfaas_acquirer;

CREATE TABLE crate_requests (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    deployment_id uuid,
    tenant text NOT NULL,
    name text NOT NULL,
    requirement text NOT NULL,
    features text[] NOT NULL,
    code text NOT NULL,
    status text NOT NULL DEFAULT 'open'::text,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    decided_at timestamp with time zone,
    default_features boolean NOT NULL DEFAULT true,
    requested_by text NOT NULL DEFAULT ''::text,
    takeover boolean NOT NULL DEFAULT false,
    scope text NOT NULL DEFAULT ''::text,
    chosen text,
    detail text NOT NULL DEFAULT ''::text,
    CONSTRAINT crate_requests_pkey PRIMARY KEY (id),
    CONSTRAINT crate_requests_deployment_fkey FOREIGN KEY (deployment_id) REFERENCES deployments(id),
    CONSTRAINT crate_requests_once UNIQUE (deployment_id, name),
    CONSTRAINT crate_requests_status_known CHECK ((status = ANY (ARRAY['open'::text, 'reviewing'::text, 'building'::text, 'ready'::text, 'denied'::text, 'failed'::text, 'withdrawn'::text, 'approved'::text, 'retried'::text])))
);
CREATE INDEX crate_requests_unanswered ON public.crate_requests USING btree (id) WHERE (status = ANY (ARRAY['open'::text, 'reviewing'::text, 'building'::text]));
CREATE INDEX crate_requests_unfinished ON public.crate_requests USING btree (status, id) WHERE (status = ANY (ARRAY['open'::text, 'reviewing'::text, 'building'::text]));
CREATE TRIGGER crate_requests_of_builder BEFORE INSERT OR UPDATE ON public.crate_requests FOR EACH ROW EXECUTE FUNCTION check_builder_holds();
CREATE TRIGGER crate_requests_person BEFORE INSERT ON public.crate_requests FOR EACH ROW EXECUTE FUNCTION name_the_requester();
GRANT SELECT ON crate_requests TO mfaas_acquirer;
GRANT SELECT ON crate_requests TO mfaas_builder;
GRANT SELECT ON crate_requests TO mfaas_server;
GRANT UPDATE (status, decided_at, chosen, detail) ON crate_requests TO mfaas_acquirer;
GRANT INSERT (deployment_id, tenant, name, requirement, features, code, default_features) ON crate_requests TO mfaas_builder;
GRANT UPDATE (requirement, features, code, status, decided_at, default_features, chosen, detail) ON crate_requests TO mfaas_builder;
GRANT INSERT (tenant, name, requirement, features, code, default_features, requested_by, takeover) ON crate_requests TO mfaas_server;
GRANT UPDATE (status, decided_at, detail) ON crate_requests TO mfaas_server;

CREATE TABLE crates (
    name text NOT NULL,
    version text NOT NULL,
    checksum text NOT NULL,
    features text[] NOT NULL,
    direct boolean NOT NULL,
    status text NOT NULL,
    decided_by text NOT NULL,
    decided_at timestamp with time zone NOT NULL DEFAULT now(),
    reason text NOT NULL,
    scope text NOT NULL DEFAULT ''::text,
    toolchain text NOT NULL DEFAULT ''::text,
    grants text[] NOT NULL DEFAULT '{}'::text[],
    expires_at timestamp with time zone,
    review_id bigint,
    CONSTRAINT crates_pkey PRIMARY KEY (name, version, scope),
    CONSTRAINT crates_checksum_sha256 CHECK ((checksum ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT crates_name_known CHECK ((name ~ '^[A-Za-z][A-Za-z0-9_-]{0,63}$'::text)) NOT VALID,
    CONSTRAINT crates_review_fkey FOREIGN KEY (review_id) REFERENCES reviews(id),
    CONSTRAINT crates_status_known CHECK ((status = ANY (ARRAY['allowed'::text, 'denied'::text, 'revoked'::text]))),
    CONSTRAINT crates_version_known CHECK ((version ~ (('^(0|[1-9][0-9]{0,18})\.(0|[1-9][0-9]{0,18})\.(0|[1-9][0-9]{0,18})'::text || '(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?'::text) || '(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$'::text))) NOT VALID
);
CREATE TRIGGER crates_decided BEFORE INSERT OR UPDATE ON public.crates FOR EACH ROW EXECUTE FUNCTION check_crate_decision();
CREATE TRIGGER crates_policy_version AFTER INSERT OR DELETE OR UPDATE ON public.crates FOR EACH STATEMENT EXECUTE FUNCTION bump_policy_version();
GRANT SELECT ON crates TO mfaas_acquirer;
GRANT SELECT ON crates TO mfaas_builder;
GRANT SELECT ON crates TO mfaas_server;
GRANT SELECT ON crates TO mfaas_signer;
GRANT INSERT (name, version, checksum, features, direct, status, decided_by, reason, toolchain) ON crates TO mfaas_acquirer;
GRANT UPDATE (checksum, features, direct, status, decided_by, decided_at, reason, toolchain, grants, expires_at) ON crates TO mfaas_acquirer;
GRANT INSERT (name, version, checksum, features, direct, status, decided_by, decided_at, reason, scope, toolchain, grants, expires_at, review_id) ON crates TO mfaas_server;
GRANT UPDATE (checksum, features, direct, status, decided_by, decided_at, reason, toolchain, grants, expires_at, review_id) ON crates TO mfaas_server;

CREATE TABLE dependency_caches (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    key text NOT NULL,
    base text NOT NULL,
    toolchain text NOT NULL,
    lock text NOT NULL,
    built_at timestamp with time zone NOT NULL DEFAULT now(),
    archive text,
    archive_bytes bigint,
    CONSTRAINT dependency_caches_pkey PRIMARY KEY (id),
    CONSTRAINT dependency_caches_archive_bytes_positive CHECK ((archive_bytes > 0)),
    CONSTRAINT dependency_caches_archive_sha256 CHECK ((archive ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT dependency_caches_archive_whole CHECK (((archive IS NULL) = (archive_bytes IS NULL))),
    CONSTRAINT dependency_caches_key_sha256 CHECK ((key ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT dependency_caches_key_unique UNIQUE (key)
);
CREATE INDEX dependency_caches_archive ON public.dependency_caches USING btree (archive);
CREATE INDEX dependency_caches_place ON public.dependency_caches USING btree (base, toolchain, id);
GRANT SELECT ON dependency_caches TO mfaas_acquirer;
GRANT SELECT ON dependency_caches TO mfaas_builder;
GRANT SELECT ON dependency_caches TO mfaas_server;
GRANT SELECT ON dependency_caches TO mfaas_signer;
GRANT INSERT (key, base, toolchain, lock, archive, archive_bytes) ON dependency_caches TO mfaas_acquirer;
GRANT UPDATE (id, built_at, archive, archive_bytes) ON dependency_caches TO mfaas_acquirer;

CREATE TABLE deployment_events (
    deployment_id uuid NOT NULL,
    seq bigint NOT NULL,
    at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
    body jsonb NOT NULL,
    CONSTRAINT deployment_events_pkey PRIMARY KEY (deployment_id, seq),
    CONSTRAINT deployment_events_deployment_fkey FOREIGN KEY (deployment_id) REFERENCES deployments(id)
);
CREATE TRIGGER deployment_events_of_builder BEFORE INSERT ON public.deployment_events FOR EACH ROW EXECUTE FUNCTION check_builder_holds();
CREATE TRIGGER deployment_events_old BEFORE DELETE ON public.deployment_events FOR EACH ROW EXECUTE FUNCTION check_old();
GRANT SELECT ON deployment_events TO mfaas_acquirer;
GRANT SELECT ON deployment_events TO mfaas_builder;
GRANT DELETE, SELECT ON deployment_events TO mfaas_server;
GRANT SELECT ON deployment_events TO mfaas_signer;
GRANT INSERT (deployment_id, seq, body) ON deployment_events TO mfaas_acquirer;
GRANT INSERT (deployment_id, seq, body) ON deployment_events TO mfaas_builder;
GRANT INSERT (deployment_id, seq, body) ON deployment_events TO mfaas_server;
GRANT INSERT (deployment_id, seq, body) ON deployment_events TO mfaas_signer;

CREATE TABLE deployments (
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    tenant text NOT NULL,
    function text NOT NULL,
    idempotency_key text NOT NULL,
    source_digest text NOT NULL,
    source_bytes bigint NOT NULL,
    submitted_by text NOT NULL,
    state text NOT NULL DEFAULT 'received'::text,
    diagnostics jsonb NOT NULL DEFAULT '[]'::jsonb,
    version integer,
    last_event bigint NOT NULL DEFAULT 0,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    updated_at timestamp with time zone NOT NULL DEFAULT now(),
    person text NOT NULL DEFAULT ''::text,
    forgotten_at timestamp with time zone,
    trace_parent text,
    CONSTRAINT deployments_pkey PRIMARY KEY (id),
    CONSTRAINT deployments_function_known CHECK ((function ~ '^[a-z][a-z0-9_-]{0,62}$'::text)) NOT VALID,
    CONSTRAINT deployments_idempotency_key_length CHECK (((length(idempotency_key) >= 1) AND (length(idempotency_key) <= 200))),
    CONSTRAINT deployments_idempotency_key_unique UNIQUE (tenant, idempotency_key),
    CONSTRAINT deployments_source_digest_sha256 CHECK ((source_digest ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT deployments_state_known CHECK ((state = ANY (ARRAY['received'::text, 'building'::text, 'built'::text, 'admitted'::text, 'refused'::text, 'waiting'::text, 'failed'::text]))),
    CONSTRAINT deployments_tenant_fkey FOREIGN KEY (tenant) REFERENCES tenants(name),
    CONSTRAINT deployments_trace_parent_form CHECK ((trace_parent ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$'::text)) NOT VALID,
    CONSTRAINT deployments_version_when_admitted CHECK (((state = 'admitted'::text) = (version IS NOT NULL)))
);
CREATE INDEX deployments_built ON public.deployments USING btree (id) WHERE (state = 'built'::text);
CREATE INDEX deployments_by_function ON public.deployments USING btree (tenant, function, created_at DESC);
CREATE INDEX deployments_by_source ON public.deployments USING btree (source_digest);
CREATE INDEX deployments_by_tenant ON public.deployments USING btree (tenant, created_at DESC);
CREATE INDEX deployments_ended ON public.deployments USING btree (updated_at, state) WHERE ((state = ANY (ARRAY['admitted'::text, 'refused'::text, 'failed'::text])) AND (forgotten_at IS NULL));
CREATE INDEX deployments_open ON public.deployments USING btree (state) WHERE (state = ANY (ARRAY['received'::text, 'building'::text, 'built'::text, 'waiting'::text]));
CREATE INDEX deployments_waiting ON public.deployments USING btree (id) WHERE (state = 'waiting'::text);
CREATE TRIGGER deployments_begin BEFORE INSERT ON public.deployments FOR EACH ROW EXECUTE FUNCTION begin_deployment();
CREATE TRIGGER deployments_transition BEFORE UPDATE ON public.deployments FOR EACH ROW EXECUTE FUNCTION check_deployment_transition();
GRANT SELECT ON deployments TO mfaas_acquirer;
GRANT SELECT ON deployments TO mfaas_builder;
GRANT SELECT ON deployments TO mfaas_server;
GRANT SELECT ON deployments TO mfaas_signer;
GRANT UPDATE (state, diagnostics, last_event, updated_at) ON deployments TO mfaas_acquirer;
GRANT UPDATE (state, diagnostics, last_event, updated_at) ON deployments TO mfaas_builder;
GRANT INSERT (tenant, function, idempotency_key, source_digest, source_bytes, submitted_by, person, trace_parent) ON deployments TO mfaas_server;
GRANT UPDATE (state, diagnostics, last_event, updated_at, forgotten_at) ON deployments TO mfaas_server;
GRANT UPDATE (state, diagnostics, version, last_event, updated_at) ON deployments TO mfaas_signer;

CREATE TABLE desired_generation (
    one boolean NOT NULL DEFAULT true,
    generation bigint NOT NULL,
    CONSTRAINT desired_generation_pkey PRIMARY KEY (one),
    CONSTRAINT desired_generation_one_row CHECK (one)
);
GRANT SELECT ON desired_generation TO mfaas_server;
GRANT SELECT ON desired_generation TO mfaas_signer;
GRANT UPDATE (generation) ON desired_generation TO mfaas_server;
GRANT UPDATE (generation) ON desired_generation TO mfaas_signer;

CREATE TABLE function_logs (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    tenant text NOT NULL,
    function text NOT NULL,
    version integer NOT NULL,
    node text NOT NULL,
    boot uuid NOT NULL,
    line bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    level text NOT NULL,
    text text NOT NULL,
    CONSTRAINT function_logs_pkey PRIMARY KEY (id),
    CONSTRAINT function_logs_level_known CHECK ((level = ANY (ARRAY['debug'::text, 'info'::text, 'warn'::text, 'error'::text]))),
    CONSTRAINT function_logs_once UNIQUE (node, boot, line)
);
CREATE INDEX function_logs_by_function ON public.function_logs USING btree (tenant, function, id);
CREATE INDEX function_logs_by_time ON public.function_logs USING btree (at);
GRANT DELETE, SELECT ON function_logs TO mfaas_server;
GRANT INSERT (tenant, function, version, node, boot, line, at, level, text) ON function_logs TO mfaas_server;

CREATE TABLE functions (
    tenant text NOT NULL,
    name text NOT NULL,
    last_version integer NOT NULL DEFAULT 0,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    deleted_at timestamp with time zone,
    set_epoch bigint NOT NULL DEFAULT 0,
    CONSTRAINT functions_pkey PRIMARY KEY (tenant, name),
    CONSTRAINT functions_name_known CHECK ((name ~ '^[a-z][a-z0-9_-]{0,62}$'::text)) NOT VALID,
    CONSTRAINT functions_tenant_fkey FOREIGN KEY (tenant) REFERENCES tenants(name)
);
CREATE INDEX functions_live ON public.functions USING btree (tenant, name) WHERE (deleted_at IS NULL);
CREATE TRIGGER functions_changed AFTER INSERT OR DELETE OR UPDATE OF deleted_at ON public.functions FOR EACH ROW EXECUTE FUNCTION note_changed_function();
GRANT SELECT ON functions TO mfaas_server;
GRANT SELECT ON functions TO mfaas_signer;
GRANT UPDATE (deleted_at) ON functions TO mfaas_server;
GRANT INSERT (tenant, name, last_version) ON functions TO mfaas_signer;
GRANT UPDATE (last_version, deleted_at, set_epoch) ON functions TO mfaas_signer;

CREATE TABLE imported (
    kind text NOT NULL,
    body jsonb NOT NULL,
    imported_by text NOT NULL,
    imported_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT imported_pkey PRIMARY KEY (kind),
    CONSTRAINT imported_kind_known CHECK ((kind = ANY (ARRAY['advisories'::text, 'audits'::text])))
);
GRANT SELECT ON imported TO mfaas_acquirer;
GRANT SELECT ON imported TO mfaas_server;
GRANT INSERT (kind, body, imported_by) ON imported TO mfaas_server;
GRANT UPDATE (body, imported_by, imported_at) ON imported TO mfaas_server;

CREATE TABLE index_entries (
    name text NOT NULL,
    version text NOT NULL,
    decided text NOT NULL,
    decided_as text NOT NULL,
    archive text NOT NULL,
    line jsonb,
    problem text NOT NULL DEFAULT ''::text,
    revision integer NOT NULL,
    CONSTRAINT index_entries_pkey PRIMARY KEY (name, version, decided),
    CONSTRAINT index_entries_archive_sha256 CHECK ((archive ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT index_entries_decided_sha256 CHECK ((decided ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT index_entries_line_or_problem CHECK (((line IS NULL) = (problem <> ''::text)))
);
CREATE INDEX index_entries_by_archive ON public.index_entries USING btree (archive);
CREATE INDEX index_entries_by_lower_name ON public.index_entries USING btree (lower(name));
GRANT SELECT ON index_entries TO mfaas_acquirer;
GRANT SELECT ON index_entries TO mfaas_server;
GRANT INSERT (name, version, decided, decided_as, archive, line, problem, revision) ON index_entries TO mfaas_acquirer;
GRANT UPDATE (decided_as, archive, line, problem, revision) ON index_entries TO mfaas_acquirer;

CREATE TABLE isolation_samples (
    node text NOT NULL,
    slot integer NOT NULL,
    at timestamp with time zone NOT NULL DEFAULT now(),
    body jsonb NOT NULL,
    CONSTRAINT isolation_samples_pkey PRIMARY KEY (node, slot),
    CONSTRAINT isolation_samples_node_fkey FOREIGN KEY (node) REFERENCES nodes(name),
    CONSTRAINT isolation_samples_slot_known CHECK (((slot >= 0) AND (slot <= 359)))
);
GRANT SELECT ON isolation_samples TO mfaas_server;
GRANT INSERT (node, slot, body) ON isolation_samples TO mfaas_server;
GRANT UPDATE (at, body) ON isolation_samples TO mfaas_server;

CREATE TABLE join_tokens (
    secret_sha256 text NOT NULL,
    node text,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    expires_at timestamp with time zone NOT NULL,
    used_at timestamp with time zone,
    uses_max integer NOT NULL DEFAULT 1,
    uses integer NOT NULL DEFAULT 0,
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    created_by text NOT NULL DEFAULT ''::text,
    revoked_at timestamp with time zone,
    CONSTRAINT join_tokens_pkey PRIMARY KEY (secret_sha256),
    CONSTRAINT join_tokens_id_unique UNIQUE (id),
    CONSTRAINT join_tokens_node_known CHECK ((node ~ '^[a-z][a-z0-9_-]{0,62}$'::text)) NOT VALID,
    CONSTRAINT join_tokens_uses_bounded CHECK (((uses >= 0) AND (uses <= uses_max))),
    CONSTRAINT join_tokens_uses_max_known CHECK (((uses_max >= 1) AND (uses_max <= 1000)))
);
CREATE INDEX join_tokens_by_end ON public.join_tokens USING btree (expires_at);
CREATE TRIGGER join_tokens_old BEFORE DELETE ON public.join_tokens FOR EACH ROW EXECUTE FUNCTION check_old();
GRANT DELETE, SELECT ON join_tokens TO mfaas_server;
GRANT INSERT (secret_sha256, node, expires_at, uses_max, created_by) ON join_tokens TO mfaas_server;
GRANT UPDATE (expires_at, used_at, uses, revoked_at) ON join_tokens TO mfaas_server;

CREATE TABLE key_lists (
    version integer NOT NULL,
    envelope text NOT NULL,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT key_lists_pkey PRIMARY KEY (version)
);
GRANT SELECT ON key_lists TO mfaas_server;
GRANT SELECT ON key_lists TO mfaas_signer;
GRANT INSERT (version, envelope) ON key_lists TO mfaas_signer;

CREATE TABLE node_reports (
    node text NOT NULL,
    boot uuid NOT NULL,
    sequence bigint NOT NULL,
    epoch bigint NOT NULL,
    at timestamp with time zone NOT NULL DEFAULT now(),
    body jsonb NOT NULL,
    build text,
    isolation jsonb,
    isolation_at timestamp with time zone,
    CONSTRAINT node_reports_pkey PRIMARY KEY (node),
    CONSTRAINT node_reports_build_length CHECK (((length(build) >= 1) AND (length(build) <= 100))),
    CONSTRAINT node_reports_node_fkey FOREIGN KEY (node) REFERENCES nodes(name)
);
CREATE TRIGGER node_reports_old BEFORE DELETE ON public.node_reports FOR EACH ROW EXECUTE FUNCTION check_old();
CREATE TRIGGER node_reports_time BEFORE INSERT OR UPDATE ON public.node_reports FOR EACH ROW EXECUTE FUNCTION set_time();
GRANT DELETE, SELECT ON node_reports TO mfaas_server;
GRANT INSERT (node, boot, sequence, epoch, body, build) ON node_reports TO mfaas_server;
GRANT UPDATE (boot, sequence, epoch, at, body, build, isolation, isolation_at) ON node_reports TO mfaas_server;
GRANT SELECT (epoch) ON node_reports TO mfaas_signer;

CREATE TABLE nodes (
    name text NOT NULL,
    certificate_sha256 text NOT NULL,
    cordoned boolean NOT NULL DEFAULT false,
    joined_at timestamp with time zone NOT NULL DEFAULT now(),
    availability text NOT NULL DEFAULT 'active'::text,
    availability_since timestamp with time zone,
    removed_at timestamp with time zone,
    previous_certificate_sha256 text,
    renewed_at timestamp with time zone,
    joined_by uuid,
    key_sha256 text,
    CONSTRAINT nodes_pkey PRIMARY KEY (name),
    CONSTRAINT nodes_availability_known CHECK ((availability = ANY (ARRAY['active'::text, 'cordoned'::text, 'draining'::text]))),
    CONSTRAINT nodes_certificate_unique UNIQUE (certificate_sha256),
    CONSTRAINT nodes_name_known CHECK ((name ~ '^[a-z][a-z0-9_-]{0,62}$'::text)) NOT VALID,
    CONSTRAINT nodes_previous_certificate_unique UNIQUE (previous_certificate_sha256)
);
CREATE TRIGGER nodes_orders AFTER UPDATE OF availability ON public.nodes FOR EACH STATEMENT EXECUTE FUNCTION tell_orders();
GRANT SELECT ON nodes TO mfaas_server;
GRANT INSERT (name, certificate_sha256) ON nodes TO mfaas_server;
GRANT UPDATE (certificate_sha256, cordoned, joined_at, availability, availability_since, removed_at, previous_certificate_sha256, renewed_at) ON nodes TO mfaas_server;

CREATE TABLE policy_state (
    one boolean NOT NULL DEFAULT true,
    version bigint NOT NULL,
    CONSTRAINT policy_state_pkey PRIMARY KEY (one),
    CONSTRAINT policy_state_one_row CHECK (one)
);
GRANT SELECT ON policy_state TO mfaas_acquirer;
GRANT SELECT ON policy_state TO mfaas_builder;
GRANT SELECT ON policy_state TO mfaas_server;
GRANT SELECT ON policy_state TO mfaas_signer;

CREATE TABLE request_members (
    request_id bigint NOT NULL,
    name text NOT NULL,
    version text NOT NULL,
    checksum text NOT NULL,
    features text[] NOT NULL,
    path text[] NOT NULL,
    review_id bigint,
    CONSTRAINT request_members_pkey PRIMARY KEY (request_id, name, version),
    CONSTRAINT request_members_request_fkey FOREIGN KEY (request_id) REFERENCES crate_requests(id),
    CONSTRAINT request_members_review_fkey FOREIGN KEY (review_id) REFERENCES reviews(id)
);
CREATE INDEX request_members_by_crate ON public.request_members USING btree (name, version);
CREATE INDEX request_members_by_review ON public.request_members USING btree (review_id);
GRANT DELETE, SELECT ON request_members TO mfaas_acquirer;
GRANT SELECT ON request_members TO mfaas_server;
GRANT INSERT (request_id, name, version, checksum, features, path, review_id) ON request_members TO mfaas_acquirer;

CREATE TABLE resource_grants (
    resource text NOT NULL,
    tenant text NOT NULL,
    access text NOT NULL,
    granted_at timestamp with time zone NOT NULL DEFAULT now(),
    granted_by text NOT NULL,
    CONSTRAINT resource_grants_pkey PRIMARY KEY (resource, tenant),
    CONSTRAINT resource_grants_access_known CHECK ((access = ANY (ARRAY['read'::text, 'write'::text]))),
    CONSTRAINT resource_grants_resource_fkey FOREIGN KEY (resource) REFERENCES resources(name),
    CONSTRAINT resource_grants_tenant_fkey FOREIGN KEY (tenant) REFERENCES tenants(name)
);
CREATE INDEX resource_grants_by_tenant ON public.resource_grants USING btree (tenant);
CREATE TRIGGER resource_grants_changed AFTER INSERT OR DELETE OR UPDATE OF access ON public.resource_grants FOR EACH ROW EXECUTE FUNCTION note_granted_functions();
GRANT DELETE, SELECT ON resource_grants TO mfaas_server;
GRANT SELECT ON resource_grants TO mfaas_signer;
GRANT INSERT (resource, tenant, access, granted_by) ON resource_grants TO mfaas_server;
GRANT UPDATE (access, granted_at, granted_by) ON resource_grants TO mfaas_server;

CREATE TABLE resources (
    name text NOT NULL,
    kind text NOT NULL,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    created_by text NOT NULL,
    digest text,
    bytes bigint,
    CONSTRAINT resources_pkey PRIMARY KEY (name),
    CONSTRAINT resources_bytes_positive CHECK ((bytes > 0)),
    CONSTRAINT resources_content_of_assets CHECK ((((kind = 'asset'::text) = (digest IS NOT NULL)) AND ((kind = 'asset'::text) = (bytes IS NOT NULL)))),
    CONSTRAINT resources_digest_sha256 CHECK ((digest ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT resources_kind_known CHECK ((kind = ANY (ARRAY['kv'::text, 'cache'::text, 'object'::text, 'volume'::text, 'http'::text, 'secret'::text, 'asset'::text]))),
    CONSTRAINT resources_name_valid CHECK ((name ~ '^[a-z][a-z0-9_-]{0,62}$'::text))
);
CREATE INDEX resources_by_digest ON public.resources USING btree (digest) WHERE (digest IS NOT NULL);
GRANT SELECT ON resources TO mfaas_server;
GRANT SELECT ON resources TO mfaas_signer;
GRANT INSERT (name, kind, created_by, digest, bytes) ON resources TO mfaas_server;

CREATE TABLE review_deltas (
    review_id bigint NOT NULL,
    volumes jsonb,
    from_version text,
    from_checksum text,
    from_features text[],
    from_scope text,
    decided_by text,
    decided_at timestamp with time zone,
    delta text,
    problem text NOT NULL DEFAULT ''::text,
    compared_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT review_deltas_pkey PRIMARY KEY (review_id),
    CONSTRAINT review_deltas_baseline_whole CHECK ((num_nulls(from_version, from_checksum, from_features, from_scope, decided_by, decided_at) = ANY (ARRAY[0, 6]))),
    CONSTRAINT review_deltas_delta_fkey FOREIGN KEY (delta) REFERENCES crate_deltas(key),
    CONSTRAINT review_deltas_delta_from_somewhere CHECK (((delta IS NULL) OR (from_version IS NOT NULL))),
    CONSTRAINT review_deltas_delta_or_problem CHECK (((delta IS NULL) = (problem <> ''::text))),
    CONSTRAINT review_deltas_problem_length CHECK ((length(problem) <= 1000)),
    CONSTRAINT review_deltas_review_fkey FOREIGN KEY (review_id) REFERENCES reviews(id)
);
GRANT SELECT ON review_deltas TO mfaas_acquirer;
GRANT SELECT ON review_deltas TO mfaas_server;
GRANT INSERT (review_id, volumes, from_version, from_checksum, from_features, from_scope, decided_by, decided_at, delta, problem) ON review_deltas TO mfaas_acquirer;

CREATE TABLE reviews (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    name text NOT NULL,
    version text NOT NULL,
    checksum text NOT NULL,
    features text[] NOT NULL,
    toolchain text NOT NULL,
    report text NOT NULL,
    people smallint NOT NULL,
    rules_revision text NOT NULL,
    judgement jsonb NOT NULL,
    scope text NOT NULL DEFAULT ''::text,
    grants text[] NOT NULL DEFAULT '{}'::text[],
    expires_at timestamp with time zone,
    state text NOT NULL DEFAULT 'open'::text,
    reason text NOT NULL DEFAULT ''::text,
    opened_at timestamp with time zone NOT NULL DEFAULT now(),
    closed_at timestamp with time zone,
    trial jsonb,
    CONSTRAINT reviews_pkey PRIMARY KEY (id),
    CONSTRAINT reviews_closed_when_decided CHECK (((state = 'open'::text) = (closed_at IS NULL))),
    CONSTRAINT reviews_of_its_archive FOREIGN KEY (checksum) REFERENCES crate_archives(checksum),
    CONSTRAINT reviews_people_known CHECK ((people = ANY (ARRAY[1, 2]))),
    CONSTRAINT reviews_report_fkey FOREIGN KEY (report) REFERENCES crate_reports(key),
    CONSTRAINT reviews_state_known CHECK ((state = ANY (ARRAY['open'::text, 'approved'::text, 'denied'::text, 'revoked'::text, 'withdrawn'::text])))
);
CREATE INDEX reviews_by_crate ON public.reviews USING btree (name, version);
CREATE INDEX reviews_by_state ON public.reviews USING btree (state, id);
CREATE INDEX reviews_closed ON public.reviews USING btree (state, closed_at DESC, id DESC);
CREATE UNIQUE INDEX reviews_one_open ON public.reviews USING btree (name, version, checksum, features, toolchain, scope) WHERE (state = 'open'::text);
CREATE TRIGGER reviews_transition BEFORE UPDATE ON public.reviews FOR EACH ROW EXECUTE FUNCTION check_review_transition();
GRANT SELECT ON reviews TO mfaas_acquirer;
GRANT SELECT ON reviews TO mfaas_server;
GRANT INSERT (name, version, checksum, features, toolchain, report, people, rules_revision, judgement, trial) ON reviews TO mfaas_acquirer;
GRANT UPDATE (state, reason, closed_at, trial) ON reviews TO mfaas_acquirer;
GRANT UPDATE (scope, grants, expires_at, state, reason, closed_at) ON reviews TO mfaas_server;

CREATE TABLE revocations (
    artifact text NOT NULL,
    reason text NOT NULL,
    revoked_by text NOT NULL,
    revoked_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT revocations_pkey PRIMARY KEY (artifact)
);
CREATE INDEX revocations_by_time ON public.revocations USING btree (revoked_at);
CREATE TRIGGER revocations_changed AFTER INSERT OR DELETE ON public.revocations FOR EACH ROW EXECUTE FUNCTION note_revoked_functions();
CREATE TRIGGER revocations_old BEFORE DELETE ON public.revocations FOR EACH ROW EXECUTE FUNCTION check_old();
GRANT DELETE, SELECT ON revocations TO mfaas_server;
GRANT SELECT ON revocations TO mfaas_signer;
GRANT INSERT (artifact, reason, revoked_by) ON revocations TO mfaas_server;

CREATE TABLE schedules (
    tenant text NOT NULL,
    function text NOT NULL,
    name text NOT NULL,
    cron text NOT NULL,
    body text NOT NULL,
    set_at timestamp with time zone NOT NULL DEFAULT now(),
    set_by text NOT NULL,
    due_at timestamp with time zone,
    runs bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    failures bigint NOT NULL DEFAULT 0,
    run_due_at timestamp with time zone,
    begun_at timestamp with time zone,
    ended_at timestamp with time zone,
    outcome text,
    status integer,
    code text,
    CONSTRAINT schedules_pkey PRIMARY KEY (tenant, function, name),
    CONSTRAINT schedules_body_bounded CHECK ((octet_length(body) <= 16384)),
    CONSTRAINT schedules_cron_bounded CHECK ((octet_length(cron) <= 100)),
    CONSTRAINT schedules_function_fkey FOREIGN KEY (tenant, function) REFERENCES functions(tenant, name),
    CONSTRAINT schedules_name_valid CHECK ((name ~ '^[a-z][a-z0-9_-]{0,39}$'::text)),
    CONSTRAINT schedules_outcome_known CHECK ((outcome = ANY (ARRAY['answered'::text, 'failed'::text, 'unreachable'::text, 'lost'::text])))
);
CREATE INDEX schedules_by_due ON public.schedules USING btree (due_at);
GRANT DELETE, SELECT ON schedules TO mfaas_server;
GRANT INSERT (tenant, function, name, cron, body, set_by, due_at) ON schedules TO mfaas_server;
GRANT UPDATE (cron, body, set_at, set_by, due_at, runs, skipped, failures, run_due_at, begun_at, ended_at, outcome, status, code) ON schedules TO mfaas_server;

CREATE TABLE series_builds (
    step_s integer NOT NULL,
    at timestamp with time zone NOT NULL,
    builds bigint NOT NULL,
    queue_counts bigint[] NOT NULL,
    build_counts bigint[] NOT NULL,
    CONSTRAINT series_builds_pkey PRIMARY KEY (step_s, at),
    CONSTRAINT series_builds_step_known CHECK ((step_s = ANY (ARRAY[60, 900, 21600]))),
    CONSTRAINT series_builds_whole CHECK (((EXTRACT(epoch FROM at) % (step_s)::numeric) = (0)::numeric))
);
CREATE TRIGGER series_builds_old BEFORE DELETE ON public.series_builds FOR EACH ROW EXECUTE FUNCTION check_series_old();
GRANT DELETE, SELECT ON series_builds TO mfaas_server;

CREATE TABLE series_calls (
    step_s integer NOT NULL,
    at timestamp with time zone NOT NULL,
    tenant text NOT NULL,
    function text NOT NULL,
    version integer NOT NULL,
    calls bigint NOT NULL,
    cpu_ns bigint NOT NULL,
    memory_bytes_max bigint NOT NULL,
    runs bigint[] NOT NULL,
    CONSTRAINT series_calls_pkey PRIMARY KEY (tenant, function, step_s, at, version),
    CONSTRAINT series_calls_not_negative CHECK ((LEAST(calls, cpu_ns, memory_bytes_max) >= 0)),
    CONSTRAINT series_calls_runs_bounded CHECK ((cardinality(runs) <= 21)),
    CONSTRAINT series_calls_step_known CHECK ((step_s = ANY (ARRAY[60, 900, 21600]))),
    CONSTRAINT series_calls_whole CHECK (((EXTRACT(epoch FROM at) % (step_s)::numeric) = (0)::numeric))
);
CREATE INDEX series_calls_by_age ON public.series_calls USING btree (step_s, at);
CREATE TRIGGER series_calls_old BEFORE DELETE ON public.series_calls FOR EACH ROW EXECUTE FUNCTION check_series_old();
GRANT DELETE, SELECT ON series_calls TO mfaas_server;
GRANT INSERT (step_s, at, tenant, function, version, calls, cpu_ns, memory_bytes_max, runs) ON series_calls TO mfaas_server;
GRANT UPDATE (calls, cpu_ns, memory_bytes_max, runs) ON series_calls TO mfaas_server;

CREATE TABLE series_nodes (
    step_s integer NOT NULL,
    at timestamp with time zone NOT NULL,
    node text NOT NULL,
    interval_ms bigint NOT NULL,
    cpu_ns bigint NOT NULL,
    cores integer NOT NULL,
    running_max bigint NOT NULL,
    waiting_max bigint NOT NULL,
    processes_max bigint NOT NULL,
    pools_max bigint NOT NULL,
    pools_busy_max bigint NOT NULL,
    resident_max bigint NOT NULL,
    resident_bytes_max bigint NOT NULL,
    CONSTRAINT series_nodes_pkey PRIMARY KEY (step_s, at, node),
    CONSTRAINT series_nodes_node_fkey FOREIGN KEY (node) REFERENCES nodes(name),
    CONSTRAINT series_nodes_not_negative CHECK ((LEAST(interval_ms, cpu_ns, (cores)::bigint, running_max, waiting_max, processes_max, pools_max, pools_busy_max, resident_max, resident_bytes_max) >= 0)),
    CONSTRAINT series_nodes_step_known CHECK ((step_s = ANY (ARRAY[60, 900, 21600]))),
    CONSTRAINT series_nodes_whole CHECK (((EXTRACT(epoch FROM at) % (step_s)::numeric) = (0)::numeric))
);
CREATE TRIGGER series_nodes_old BEFORE DELETE ON public.series_nodes FOR EACH ROW EXECUTE FUNCTION check_series_old();
GRANT DELETE, SELECT ON series_nodes TO mfaas_server;
GRANT INSERT (step_s, at, node, interval_ms, cpu_ns, cores, running_max, waiting_max, processes_max, pools_max, pools_busy_max, resident_max, resident_bytes_max) ON series_nodes TO mfaas_server;
GRANT UPDATE (interval_ms, cpu_ns, cores, running_max, waiting_max, processes_max, pools_max, pools_busy_max, resident_max, resident_bytes_max) ON series_nodes TO mfaas_server;

CREATE TABLE series_tenants (
    step_s integer NOT NULL,
    at timestamp with time zone NOT NULL,
    tenant text NOT NULL,
    calls bigint NOT NULL,
    cpu_ns bigint NOT NULL,
    memory_bytes_max bigint NOT NULL,
    calls_left_out bigint NOT NULL,
    CONSTRAINT series_tenants_pkey PRIMARY KEY (step_s, at, tenant),
    CONSTRAINT series_tenants_not_negative CHECK ((LEAST(calls, cpu_ns, memory_bytes_max, calls_left_out) >= 0)),
    CONSTRAINT series_tenants_step_known CHECK ((step_s = ANY (ARRAY[60, 900, 21600]))),
    CONSTRAINT series_tenants_whole CHECK (((EXTRACT(epoch FROM at) % (step_s)::numeric) = (0)::numeric))
);
CREATE INDEX series_tenants_of_one ON public.series_tenants USING btree (tenant, step_s, at);
CREATE TRIGGER series_tenants_old BEFORE DELETE ON public.series_tenants FOR EACH ROW EXECUTE FUNCTION check_series_old();
GRANT DELETE, SELECT ON series_tenants TO mfaas_server;
GRANT INSERT (step_s, at, tenant, calls, cpu_ns, memory_bytes_max, calls_left_out) ON series_tenants TO mfaas_server;
GRANT UPDATE (calls, cpu_ns, memory_bytes_max, calls_left_out) ON series_tenants TO mfaas_server;

CREATE TABLE serving_sets (
    epoch bigint NOT NULL,
    generation bigint NOT NULL,
    digest text NOT NULL,
    envelope text NOT NULL,
    issued_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    shard text,
    functions integer,
    revoked_calls text,
    CONSTRAINT serving_sets_pkey PRIMARY KEY (epoch),
    CONSTRAINT serving_sets_epoch_positive CHECK ((epoch >= 1))
);
GRANT SELECT ON serving_sets TO mfaas_server;
GRANT DELETE, SELECT ON serving_sets TO mfaas_signer;
GRANT INSERT (epoch, generation, digest, envelope, issued_at, expires_at, shard, functions, revoked_calls) ON serving_sets TO mfaas_signer;

CREATE TABLE sessions (
    cookie_sha256 text NOT NULL,
    token_id uuid NOT NULL,
    opened_at timestamp with time zone NOT NULL DEFAULT now(),
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT sessions_pkey PRIMARY KEY (cookie_sha256),
    CONSTRAINT sessions_cookie_sha256 CHECK ((cookie_sha256 ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT sessions_end CHECK ((expires_at <= (opened_at + '1 day'::interval))),
    CONSTRAINT sessions_token_fkey FOREIGN KEY (token_id) REFERENCES tokens(id) ON DELETE CASCADE
);
CREATE INDEX sessions_by_end ON public.sessions USING btree (expires_at);
CREATE INDEX sessions_by_opening ON public.sessions USING btree (opened_at);
CREATE INDEX sessions_of_token ON public.sessions USING btree (token_id, opened_at);
CREATE TRIGGER sessions_opened AFTER INSERT ON public.sessions FOR EACH ROW EXECUTE FUNCTION bound_sessions();
GRANT DELETE, SELECT ON sessions TO mfaas_server;
GRANT INSERT (cookie_sha256, token_id, expires_at) ON sessions TO mfaas_server;

CREATE TABLE shards (
    digest text NOT NULL,
    body text NOT NULL,
    unused_since timestamp with time zone,
    CONSTRAINT shards_pkey PRIMARY KEY (digest)
);
CREATE INDEX shards_unused ON public.shards USING btree (unused_since) WHERE (unused_since IS NOT NULL);
GRANT SELECT ON shards TO mfaas_server;
GRANT DELETE, SELECT ON shards TO mfaas_signer;
GRANT INSERT (digest, body, unused_since) ON shards TO mfaas_signer;
GRANT UPDATE (body, unused_since) ON shards TO mfaas_signer;

CREATE TABLE sign_in_answers (
    attempt_sha256 text NOT NULL,
    answered_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT sign_in_answers_pkey PRIMARY KEY (attempt_sha256),
    CONSTRAINT sign_in_answers_sha256 CHECK ((attempt_sha256 ~ '^[0-9a-f]{64}$'::text))
);
CREATE INDEX sign_in_answers_by_time ON public.sign_in_answers USING btree (answered_at);
CREATE TRIGGER sign_in_answers_taken AFTER INSERT ON public.sign_in_answers FOR EACH ROW EXECUTE FUNCTION bound_sign_in_answers();
GRANT SELECT ON sign_in_answers TO mfaas_server;
GRANT INSERT (attempt_sha256) ON sign_in_answers TO mfaas_server;

CREATE TABLE site_isolation (
    only_row boolean NOT NULL DEFAULT true,
    revision bigint NOT NULL DEFAULT (EXTRACT(epoch FROM now()))::bigint,
    body jsonb NOT NULL,
    set_by text NOT NULL,
    set_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT site_isolation_pkey PRIMARY KEY (only_row),
    CONSTRAINT site_isolation_one_row CHECK (only_row),
    CONSTRAINT site_isolation_revision_positive CHECK ((revision > 0))
);
GRANT SELECT ON site_isolation TO mfaas_server;
GRANT INSERT (body, set_by) ON site_isolation TO mfaas_server;
GRANT UPDATE (revision, body, set_by, set_at) ON site_isolation TO mfaas_server;

CREATE TABLE spot_notes (
    review_id bigint NOT NULL,
    spot text NOT NULL,
    state text NOT NULL,
    note text NOT NULL DEFAULT ''::text,
    person text NOT NULL,
    at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT spot_notes_pkey PRIMARY KEY (review_id, spot),
    CONSTRAINT spot_notes_note_length CHECK ((length(note) <= 2000)),
    CONSTRAINT spot_notes_review_fkey FOREIGN KEY (review_id) REFERENCES reviews(id),
    CONSTRAINT spot_notes_spot_length CHECK (((length(spot) >= 1) AND (length(spot) <= 600))),
    CONSTRAINT spot_notes_state_known CHECK ((state = ANY (ARRAY['unseen'::text, 'seen'::text, 'justified'::text, 'unsound'::text])))
);
CREATE TRIGGER spot_notes_allowed BEFORE INSERT OR UPDATE ON public.spot_notes FOR EACH ROW EXECUTE FUNCTION check_voice();
GRANT SELECT ON spot_notes TO mfaas_acquirer;
GRANT SELECT ON spot_notes TO mfaas_server;
GRANT INSERT (review_id, spot, state, note, person) ON spot_notes TO mfaas_server;
GRANT UPDATE (state, note, person, at) ON spot_notes TO mfaas_server;

CREATE TABLE statements (
    digest text NOT NULL,
    artifact text NOT NULL,
    envelope text NOT NULL,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT statements_pkey PRIMARY KEY (digest),
    CONSTRAINT statements_artifact_fkey FOREIGN KEY (artifact) REFERENCES artifacts(digest)
);
GRANT SELECT ON statements TO mfaas_server;
GRANT SELECT ON statements TO mfaas_signer;
GRANT INSERT (digest, artifact, envelope) ON statements TO mfaas_signer;

CREATE TABLE tenants (
    name text NOT NULL,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT tenants_pkey PRIMARY KEY (name),
    CONSTRAINT tenants_name_known CHECK ((name ~ '^[a-z][a-z0-9_-]{0,39}$'::text)) NOT VALID
);
GRANT SELECT ON tenants TO mfaas_server;
GRANT INSERT (name) ON tenants TO mfaas_server;

CREATE TABLE tokens (
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    tenant text NOT NULL,
    name text NOT NULL,
    secret_sha256 text NOT NULL,
    scopes text[] NOT NULL,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    person text NOT NULL,
    vouched_by text NOT NULL DEFAULT 'nobody'::text,
    made_by text NOT NULL DEFAULT ''::text,
    CONSTRAINT tokens_pkey PRIMARY KEY (id),
    CONSTRAINT tokens_of_provider_end CHECK (((vouched_by <> 'provider'::text) OR ((expires_at IS NOT NULL) AND (expires_at <= (created_at + '24:00:00'::interval))))),
    CONSTRAINT tokens_person_known CHECK ((person ~ '^[a-z0-9][a-z0-9._@+:/-]{0,199}$'::text)),
    CONSTRAINT tokens_scopes_known CHECK (((scopes <@ ARRAY['read'::text, 'deploy'::text, 'review'::text, 'operate'::text, 'admin'::text]) AND (cardinality(scopes) > 0))),
    CONSTRAINT tokens_secret_unique UNIQUE (secret_sha256),
    CONSTRAINT tokens_tenant_fkey FOREIGN KEY (tenant) REFERENCES tenants(name),
    CONSTRAINT tokens_vouched_by_known CHECK ((vouched_by = ANY (ARRAY['nobody'::text, 'admin'::text, 'provider'::text])))
);
CREATE INDEX tokens_by_end ON public.tokens USING btree (LEAST(revoked_at, expires_at)) WHERE (LEAST(revoked_at, expires_at) IS NOT NULL);
CREATE INDEX tokens_by_tenant ON public.tokens USING btree (tenant, created_at DESC, id);
CREATE INDEX tokens_by_time ON public.tokens USING btree (created_at DESC, id);
CREATE TRIGGER tokens_old BEFORE DELETE ON public.tokens FOR EACH ROW EXECUTE FUNCTION check_old();
CREATE TRIGGER tokens_person BEFORE INSERT ON public.tokens FOR EACH ROW EXECUTE FUNCTION name_the_person();
CREATE TRIGGER tokens_time BEFORE UPDATE ON public.tokens FOR EACH ROW EXECUTE FUNCTION set_time();
GRANT DELETE, SELECT ON tokens TO mfaas_server;
GRANT INSERT (tenant, name, secret_sha256, scopes, expires_at, person, vouched_by, made_by) ON tokens TO mfaas_server;
GRANT UPDATE (revoked_at) ON tokens TO mfaas_server;

CREATE TABLE toolchains (
    id text NOT NULL,
    accepted boolean NOT NULL,
    decided_by text NOT NULL,
    decided_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT toolchains_pkey PRIMARY KEY (id)
);
CREATE TRIGGER toolchains_changed AFTER INSERT OR UPDATE OF accepted ON public.toolchains FOR EACH ROW EXECUTE FUNCTION note_toolchain_functions();
GRANT SELECT ON toolchains TO mfaas_acquirer;
GRANT SELECT ON toolchains TO mfaas_builder;
GRANT SELECT ON toolchains TO mfaas_server;
GRANT SELECT ON toolchains TO mfaas_signer;

CREATE TABLE triggers (
    tenant text NOT NULL,
    function text NOT NULL,
    name text NOT NULL,
    id uuid NOT NULL,
    resource text NOT NULL,
    prefix text NOT NULL,
    on_put boolean NOT NULL,
    on_delete boolean NOT NULL,
    set_at timestamp with time zone NOT NULL DEFAULT now(),
    set_by text NOT NULL,
    CONSTRAINT triggers_pkey PRIMARY KEY (tenant, function, name),
    CONSTRAINT triggers_changes_named CHECK ((on_put OR on_delete)),
    CONSTRAINT triggers_function_fkey FOREIGN KEY (tenant, function) REFERENCES functions(tenant, name),
    CONSTRAINT triggers_id_unique UNIQUE (id),
    CONSTRAINT triggers_name_valid CHECK ((name ~ '^[a-z][a-z0-9_-]{0,39}$'::text)),
    CONSTRAINT triggers_prefix_bounded CHECK ((octet_length(prefix) <= 512)),
    CONSTRAINT triggers_resource_fkey FOREIGN KEY (resource) REFERENCES resources(name)
);
GRANT DELETE, SELECT ON triggers TO mfaas_server;
GRANT INSERT (tenant, function, name, id, resource, prefix, on_put, on_delete, set_by) ON triggers TO mfaas_server;
GRANT UPDATE (id, resource, prefix, on_put, on_delete, set_at, set_by) ON triggers TO mfaas_server;

CREATE TABLE usage_boots (
    node text NOT NULL,
    boot uuid NOT NULL,
    sequence bigint NOT NULL,
    first_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
    last_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
    ended boolean NOT NULL DEFAULT false,
    CONSTRAINT usage_boots_pkey PRIMARY KEY (node, boot),
    CONSTRAINT usage_boots_node_fkey FOREIGN KEY (node) REFERENCES nodes(name)
);
GRANT DELETE, SELECT ON usage_boots TO mfaas_server;
GRANT INSERT (node, boot, sequence) ON usage_boots TO mfaas_server;
GRANT UPDATE (sequence, last_at, ended) ON usage_boots TO mfaas_server;

CREATE TABLE usage_hours (
    hour timestamp with time zone NOT NULL,
    tenant text NOT NULL,
    function text NOT NULL,
    version integer NOT NULL,
    calls bigint NOT NULL,
    cpu_ns bigint NOT NULL,
    run_ns bigint NOT NULL,
    run_ns_max bigint NOT NULL,
    queue_ns bigint NOT NULL,
    memory_bytes_max bigint NOT NULL,
    CONSTRAINT usage_hours_pkey PRIMARY KEY (hour, tenant, function, version),
    CONSTRAINT usage_hours_not_negative CHECK ((LEAST(calls, cpu_ns, run_ns, run_ns_max, queue_ns, memory_bytes_max) >= 0)),
    CONSTRAINT usage_hours_version_fkey FOREIGN KEY (tenant, function, version) REFERENCES versions(tenant, function, version),
    CONSTRAINT usage_hours_whole CHECK ((hour = date_trunc('hour'::text, hour, 'UTC'::text)))
);
CREATE INDEX usage_hours_by_function ON public.usage_hours USING btree (tenant, function, hour);
CREATE INDEX usage_hours_by_tenant ON public.usage_hours USING btree (tenant, hour);
CREATE TRIGGER usage_hours_old BEFORE DELETE ON public.usage_hours FOR EACH ROW EXECUTE FUNCTION check_old();
GRANT DELETE, SELECT ON usage_hours TO mfaas_server;
GRANT INSERT (hour, tenant, function, version, calls, cpu_ns, run_ns, run_ns_max, queue_ns, memory_bytes_max) ON usage_hours TO mfaas_server;
GRANT UPDATE (calls, cpu_ns, run_ns, run_ns_max, queue_ns, memory_bytes_max) ON usage_hours TO mfaas_server;

CREATE TABLE usage_kills (
    hour timestamp with time zone NOT NULL,
    tenant text NOT NULL,
    function text NOT NULL,
    version integer NOT NULL,
    reason text NOT NULL,
    kills bigint NOT NULL,
    CONSTRAINT usage_kills_pkey PRIMARY KEY (hour, tenant, function, version, reason),
    CONSTRAINT usage_kills_hour_fkey FOREIGN KEY (hour, tenant, function, version) REFERENCES usage_hours(hour, tenant, function, version) ON DELETE CASCADE,
    CONSTRAINT usage_kills_positive CHECK ((kills > 0)),
    CONSTRAINT usage_kills_reason_known CHECK ((reason = ANY (ARRAY['panicked'::text, 'over_budget'::text, 'stack_overflow'::text, 'out_of_memory'::text, 'denied'::text, 'fault'::text, 'aborted'::text, 'bad_output'::text, 'lost'::text, 'overdue'::text])))
);
CREATE INDEX usage_kills_by_tenant ON public.usage_kills USING btree (tenant, hour);
GRANT SELECT ON usage_kills TO mfaas_server;
GRANT INSERT (hour, tenant, function, version, reason, kills) ON usage_kills TO mfaas_server;
GRANT UPDATE (kills) ON usage_kills TO mfaas_server;

CREATE TABLE usage_totals (
    node text NOT NULL,
    boot uuid NOT NULL,
    tenant text NOT NULL,
    function text NOT NULL,
    version integer NOT NULL,
    calls bigint NOT NULL,
    cpu_ns bigint NOT NULL,
    run_ns bigint NOT NULL,
    queue_ns bigint NOT NULL,
    kills bigint[] NOT NULL,
    runs bigint[] NOT NULL DEFAULT '{}'::bigint[],
    CONSTRAINT usage_totals_pkey PRIMARY KEY (node, boot, tenant, function, version),
    CONSTRAINT usage_totals_boot_fkey FOREIGN KEY (node, boot) REFERENCES usage_boots(node, boot) ON DELETE CASCADE
);
GRANT DELETE, SELECT ON usage_totals TO mfaas_server;
GRANT INSERT (node, boot, tenant, function, version, calls, cpu_ns, run_ns, queue_ns, kills, runs) ON usage_totals TO mfaas_server;
GRANT UPDATE (calls, cpu_ns, run_ns, queue_ns, kills, runs) ON usage_totals TO mfaas_server;

CREATE TABLE version_bindings (
    tenant text NOT NULL,
    function text NOT NULL,
    version integer NOT NULL,
    name text NOT NULL,
    kind text NOT NULL,
    resource text NOT NULL,
    access text NOT NULL,
    CONSTRAINT version_bindings_pkey PRIMARY KEY (tenant, function, version, name),
    CONSTRAINT version_bindings_access_known CHECK ((access = ANY (ARRAY['read'::text, 'write'::text]))),
    CONSTRAINT version_bindings_kind_known CHECK ((kind = ANY (ARRAY['kv'::text, 'cache'::text, 'object'::text, 'volume'::text, 'http'::text, 'secret'::text, 'asset'::text]))),
    CONSTRAINT version_bindings_resource_fkey FOREIGN KEY (resource) REFERENCES resources(name),
    CONSTRAINT version_bindings_version_fkey FOREIGN KEY (tenant, function, version) REFERENCES versions(tenant, function, version)
);
CREATE INDEX version_bindings_by_resource ON public.version_bindings USING btree (resource, tenant);
GRANT SELECT ON version_bindings TO mfaas_server;
GRANT SELECT ON version_bindings TO mfaas_signer;
GRANT INSERT (tenant, function, version, name, kind, resource, access) ON version_bindings TO mfaas_signer;

CREATE TABLE version_calls (
    tenant text NOT NULL,
    function text NOT NULL,
    version integer NOT NULL,
    name text NOT NULL,
    callee text NOT NULL,
    CONSTRAINT version_calls_pkey PRIMARY KEY (tenant, function, version, name),
    CONSTRAINT version_calls_callee_valid CHECK ((callee ~ '^([a-z][a-z0-9_-]{0,39}/)?[a-z][a-z0-9_-]{0,62}$'::text)),
    CONSTRAINT version_calls_version_fkey FOREIGN KEY (tenant, function, version) REFERENCES versions(tenant, function, version)
);
GRANT SELECT ON version_calls TO mfaas_server;
GRANT SELECT ON version_calls TO mfaas_signer;
GRANT INSERT (tenant, function, version, name, callee) ON version_calls TO mfaas_signer;

CREATE TABLE version_crates (
    tenant text NOT NULL,
    function text NOT NULL,
    version integer NOT NULL,
    name text NOT NULL,
    crate_version text NOT NULL,
    checksum text NOT NULL,
    CONSTRAINT version_crates_pkey PRIMARY KEY (tenant, function, version, name, crate_version),
    CONSTRAINT version_crates_version_fkey FOREIGN KEY (tenant, function, version) REFERENCES versions(tenant, function, version)
);
CREATE INDEX version_crates_by_crate ON public.version_crates USING btree (name, crate_version);
GRANT SELECT ON version_crates TO mfaas_acquirer;
GRANT SELECT ON version_crates TO mfaas_server;
GRANT INSERT (tenant, function, version, name, crate_version, checksum) ON version_crates TO mfaas_signer;

CREATE TABLE versions (
    tenant text NOT NULL,
    function text NOT NULL,
    version integer NOT NULL,
    deployment_id uuid NOT NULL,
    artifact text NOT NULL,
    statement text NOT NULL,
    source_digest text NOT NULL,
    handler text NOT NULL,
    budget_us bigint NOT NULL,
    memory_bytes bigint NOT NULL,
    toolchain text NOT NULL,
    abi_version integer NOT NULL,
    policy_version bigint NOT NULL,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    retired_at timestamp with time zone,
    idempotent boolean NOT NULL DEFAULT false,
    isolation text NOT NULL DEFAULT 'shared'::text,
    access text NOT NULL DEFAULT 'tenant'::text,
    class text NOT NULL DEFAULT 'micro'::text,
    callers text[] NOT NULL DEFAULT '{}'::text[],
    CONSTRAINT versions_pkey PRIMARY KEY (tenant, function, version),
    CONSTRAINT versions_access_known CHECK ((access = ANY (ARRAY['public'::text, 'tenant'::text, 'token'::text]))),
    CONSTRAINT versions_artifact_fkey FOREIGN KEY (artifact) REFERENCES artifacts(digest),
    CONSTRAINT versions_callers_bounded CHECK ((cardinality(callers) <= 32)),
    CONSTRAINT versions_class_known CHECK ((class = ANY (ARRAY['micro'::text, 'bulk'::text]))) NOT VALID,
    CONSTRAINT versions_deployment_fkey FOREIGN KEY (deployment_id) REFERENCES deployments(id),
    CONSTRAINT versions_deployment_unique UNIQUE (deployment_id),
    CONSTRAINT versions_function_fkey FOREIGN KEY (tenant, function) REFERENCES functions(tenant, name),
    CONSTRAINT versions_isolation_known CHECK ((isolation = ANY (ARRAY['shared'::text, 'process'::text]))),
    CONSTRAINT versions_statement_fkey FOREIGN KEY (statement) REFERENCES statements(digest),
    CONSTRAINT versions_version_positive CHECK ((version >= 1))
);
CREATE INDEX versions_by_artifact_of_tenant ON public.versions USING btree (artifact, tenant);
CREATE TRIGGER versions_changed AFTER INSERT OR DELETE OR UPDATE OF statement, retired_at ON public.versions FOR EACH ROW EXECUTE FUNCTION note_changed_function();
GRANT SELECT ON versions TO mfaas_server;
GRANT SELECT ON versions TO mfaas_signer;
GRANT UPDATE (retired_at) ON versions TO mfaas_server;
GRANT INSERT (tenant, function, version, deployment_id, artifact, statement, source_digest, handler, budget_us, memory_bytes, toolchain, abi_version, policy_version, idempotent, isolation, access, class, callers) ON versions TO mfaas_signer;
GRANT UPDATE (statement) ON versions TO mfaas_signer;

CREATE TABLE votes (
    review_id bigint NOT NULL,
    person text NOT NULL,
    approve boolean NOT NULL,
    note text NOT NULL,
    actor text NOT NULL,
    at timestamp with time zone NOT NULL DEFAULT now(),
    token_id uuid,
    CONSTRAINT votes_pkey PRIMARY KEY (review_id, person),
    CONSTRAINT votes_note_length CHECK (((length(note) >= 1) AND (length(note) <= 4000))),
    CONSTRAINT votes_person_named CHECK ((person <> ''::text)),
    CONSTRAINT votes_review_fkey FOREIGN KEY (review_id) REFERENCES reviews(id),
    CONSTRAINT votes_token_fkey FOREIGN KEY (token_id) REFERENCES tokens(id)
);
CREATE INDEX votes_by_token ON public.votes USING btree (token_id);
CREATE TRIGGER votes_allowed BEFORE INSERT ON public.votes FOR EACH ROW EXECUTE FUNCTION check_voice();
CREATE TRIGGER votes_by_a_person BEFORE INSERT ON public.votes FOR EACH ROW EXECUTE FUNCTION check_speaker();
GRANT SELECT ON votes TO mfaas_acquirer;
GRANT SELECT ON votes TO mfaas_server;
GRANT INSERT (review_id, person, approve, note, actor, token_id) ON votes TO mfaas_server;

CREATE SEQUENCE fencing_token AS bigint MINVALUE 1 NO CYCLE;
GRANT USAGE ON fencing_token TO mfaas_builder;

CREATE OR REPLACE FUNCTION public.added_counts(a bigint[], b bigint[])
 RETURNS bigint[]
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO 'pg_catalog', 'public'
AS $function$
    SELECT coalesce(array_agg(least(coalesce(n.a, 0)::numeric + coalesce(n.b, 0), 9223372036854775807)::bigint ORDER BY n.i), '{}')
    FROM unnest(a, b) WITH ORDINALITY AS n (a, b, i)
$function$;

CREATE OR REPLACE FUNCTION public.append_audit(actor text, action text, tenant text, subject text, detail jsonb)
 RETURNS bigint
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
DECLARE
    program  name := program_of(session_user);
    own      text := replace(program, '_', '-');
BEGIN
    IF program <> '' AND NOT (actor = own OR starts_with(actor, own || ':'))
        AND (program <> 'mfaas_server' OR starts_with(actor, 'mfaas-')) THEN
        RAISE EXCEPTION '% writes no audit row in the name of %', program, actor
            USING ERRCODE = 'check_violation', CONSTRAINT = 'audit_own_name';
    END IF;
    INSERT INTO audit_pending (role, actor, action, tenant, subject, detail)
    VALUES (session_user, actor, action, tenant, subject, detail);
    RETURN 0;
END $function$;

CREATE OR REPLACE FUNCTION public.append_event(deployment uuid, body jsonb)
 RETURNS bigint
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public'
AS $function$
DECLARE number bigint;
BEGIN
    UPDATE deployments SET last_event = last_event + 1 WHERE id = deployment RETURNING last_event INTO number;
    INSERT INTO deployment_events (deployment_id, seq, body) VALUES (deployment, number, body);
    PERFORM pg_notify('mfaas_events', deployment::text);
    RETURN number;
END $function$;

CREATE OR REPLACE FUNCTION public.audit_hash(previous text, seq bigint, at timestamp with time zone, role text, actor text, action text, tenant text, subject text, detail jsonb)
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'public'
AS $function$
    SELECT encode(sha256(convert_to(string_agg(octet_length(convert_to(field, 'UTF8')) || ':' || field, '' ORDER BY position), 'UTF8')), 'hex')
    FROM unnest(ARRAY[
        previous, seq::text, (extract(epoch FROM at) * 1000000)::bigint::text, role, actor, action, tenant,
        subject, detail::text
    ]) WITH ORDINALITY AS fields (field, position)
$function$;

CREATE OR REPLACE FUNCTION public.begin_build()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public'
AS $function$
BEGIN
    NEW.attempt := 0;
    NEW.lease_holder := NULL;
    NEW.lease_expires_at := NULL;
    NEW.lease_role := NULL;
    NEW.fencing_token := NULL;
    NEW.committed_token := NULL;
    NEW.claim := NULL;
    NEW.queued_at := now();
    NEW.started_at := NULL;
    NEW.finished_at := NULL;
    NEW.not_before := NULL;
    NEW.postponed := 0;
    NEW.postponed_because := NULL;
    NEW.rebuild_for := NULL;
    RETURN NEW;
END $function$;

CREATE OR REPLACE FUNCTION public.begin_deployment()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public'
AS $function$
BEGIN
    NEW.state := 'received';
    NEW.diagnostics := '[]';
    NEW.version := NULL;
    NEW.last_event := 0;
    NEW.created_at := now();
    NEW.updated_at := now();
    RETURN NEW;
END $function$;

CREATE OR REPLACE FUNCTION public.bound_call_revocations()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
DECLARE
    everyone bigint;
    own      bigint;
BEGIN
    -- First: whoever revokes at the same time waits for this row, and is counted.
    PERFORM public.bump_desired_generation();
    IF NEW.token IS NULL THEN
        DELETE FROM call_revocations r WHERE r.tenant = NEW.tenant AND r.caller = NEW.caller AND r.id <> NEW.id
            AND r.issued_until <= NEW.issued_until AND r.ends_at > date_trunc('hour', now());
        -- One row in the place of others that count is not more than before.
        IF FOUND THEN
            RETURN NULL;
        END IF;
    END IF;
    -- By the hour, as the signer reads them: what ends does not change the document more often.
    SELECT count(*), count(*) FILTER (WHERE tenant = NEW.tenant) INTO everyone, own
    FROM call_revocations WHERE ends_at > date_trunc('hour', now());
    IF everyone > 800 OR (own > 1 AND own > least(64, (800 - everyone) / 8)) THEN
        RAISE EXCEPTION 'tenant % has % revocations of call tokens, the site %', NEW.tenant, own, everyone
            USING ERRCODE = 'check_violation', CONSTRAINT = 'call_revocations_bounded';
    END IF;
    RETURN NULL;
END $function$;

CREATE OR REPLACE FUNCTION public.bound_sessions()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
BEGIN
    -- One at a time: two would not count each other's row, and might wait for each other. Any number that nobody else takes.
    PERFORM pg_advisory_xact_lock(7881701939483243379);
    DELETE FROM sessions WHERE expires_at <= now();
    DELETE FROM sessions WHERE cookie_sha256 = ANY (ARRAY(
        SELECT s.cookie_sha256 FROM sessions s WHERE s.token_id = NEW.token_id
        ORDER BY s.opened_at DESC, s.cookie_sha256 OFFSET 16));
    DELETE FROM sessions WHERE cookie_sha256 = ANY (ARRAY(
        SELECT s.cookie_sha256 FROM sessions s ORDER BY s.opened_at DESC, s.cookie_sha256 OFFSET 1000));
    RETURN NULL;
END $function$;

CREATE OR REPLACE FUNCTION public.bound_sign_in_answers()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
BEGIN
    PERFORM pg_advisory_xact_lock(7881701939483243380);
    DELETE FROM sign_in_answers WHERE answered_at < now() - interval '1 hour';
    DELETE FROM sign_in_answers WHERE attempt_sha256 = ANY (ARRAY(
        SELECT a.attempt_sha256 FROM sign_in_answers a ORDER BY a.answered_at DESC, a.attempt_sha256 OFFSET 4096));
    RETURN NULL;
END $function$;

CREATE OR REPLACE FUNCTION public.builds_of_their_tenant()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    SELECT d.tenant INTO NEW.tenant FROM deployments d WHERE d.id = NEW.deployment_id;
    RETURN NEW;
END $function$;

CREATE OR REPLACE FUNCTION public.bump_desired_generation()
 RETURNS bigint
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public'
AS $function$
DECLARE number bigint;
BEGIN
    UPDATE desired_generation SET generation = generation + 1 RETURNING generation INTO number;
    PERFORM pg_notify('mfaas_signer', 'generation');
    RETURN number;
END $function$;

CREATE OR REPLACE FUNCTION public.bump_policy_version()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
BEGIN
    UPDATE policy_state SET version = version + 1;
    RETURN NULL;
END $function$;

CREATE OR REPLACE FUNCTION public.chain_audit()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
DECLARE
    head    audit_head%ROWTYPE;
    moment  timestamptz;
    number  bigint;
    link    text;
BEGIN
    DELETE FROM audit_pending WHERE id = NEW.id;
    SELECT * INTO head FROM audit_head FOR UPDATE;
    -- Behind the lock, so that times do not fall along the chain.
    moment := date_trunc('microseconds', clock_timestamp());
    number := head.seq + 1;
    link := audit_hash(head.hash, number, moment, NEW.role, NEW.actor, NEW.action, NEW.tenant, NEW.subject, NEW.detail);
    INSERT INTO audit_log
    VALUES (number, moment, NEW.role, NEW.actor, NEW.action, NEW.tenant, NEW.subject, NEW.detail, link);
    UPDATE audit_head SET seq = number, hash = link;
    RETURN NULL;
END $function$;

CREATE OR REPLACE FUNCTION public.check_build_change()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public'
AS $function$
DECLARE
    program   name := program_of(current_user);
    revision  text;
    round     smallint;
    kept      build_claims%ROWTYPE;
BEGIN
    IF program = 'mfaas_builder' THEN
        IF OLD.finished_at IS NOT NULL THEN
            RAISE EXCEPTION 'build % has ended', OLD.deployment_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'builds_ended';
        END IF;
        IF EXISTS (SELECT 1 FROM build_claims c WHERE c.deployment_id = OLD.deployment_id AND c.role = session_user) THEN
            RAISE EXCEPTION '% has given its claim about build %', session_user, OLD.deployment_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'builds_one_claim_each';
        END IF;
        IF OLD.lease_role <> session_user AND OLD.lease_expires_at >= now() THEN
            RAISE EXCEPTION 'another builder holds build %', OLD.deployment_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'builds_of_another';
        END IF;
        IF NEW.lease_expires_at > now() + interval '1 hour' THEN
            RAISE EXCEPTION 'a lease lasts an hour at most'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'builds_lease_bounded';
        END IF;
        IF NEW.not_before > now() + interval '1 hour' THEN
            RAISE EXCEPTION 'a build is postponed for an hour at most'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'builds_postponed_bounded';
        END IF;
        -- Tokens are granted here: whoever writes another number gets the next one.
        IF NEW.fencing_token IS DISTINCT FROM OLD.fencing_token THEN
            NEW.fencing_token := nextval('fencing_token');
        END IF;
        IF NEW.finished_at IS NOT NULL THEN
            NEW.finished_at := now();
        END IF;
        NEW.lease_role := session_user;
    ELSIF program IN ('mfaas_server', 'mfaas_acquirer') THEN
        IF OLD.claim IS NOT NULL OR NOT EXISTS (SELECT 1 FROM deployments d WHERE d.id = OLD.deployment_id
                                                AND d.state IN ('received', 'waiting')) THEN
            RAISE EXCEPTION 'build % does not wait', OLD.deployment_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'builds_not_waiting';
        END IF;
        NEW.lease_role := NULL;
        NEW.not_before := NULL;
        NEW.postponed := 0;
        NEW.postponed_because := NULL;
    ELSIF program = 'mfaas_signer' AND OLD.finished_at IS NULL AND NEW IS DISTINCT FROM OLD THEN
        -- Nothing of it is the signer's word: the claim is one that was kept, with what the database noted about it.
        SELECT * INTO kept FROM build_claims c WHERE c.deployment_id = OLD.deployment_id
            ORDER BY c.finished_at DESC, c.role LIMIT 1;
        IF NOT FOUND OR NOT EXISTS (SELECT 1 FROM deployments d WHERE d.id = OLD.deployment_id AND d.state = 'received') THEN
            RAISE EXCEPTION 'a signer changes no build'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'builds_not_by_signer';
        END IF;
        NEW := OLD;
        NEW.lease_holder := NULL;
        NEW.lease_expires_at := NULL;
        NEW.lease_role := kept.role;
        NEW.fencing_token := kept.committed_token;
        NEW.committed_token := kept.committed_token;
        NEW.claim := kept.claim;
        NEW.finished_at := kept.finished_at;
        NEW.not_before := NULL;
        NEW.postponed_because := NULL;
    ELSIF program = 'mfaas_signer' AND NEW IS DISTINCT FROM OLD THEN
        revision := NEW.rebuild_for;
        round := NEW.rounds;
        IF NOT EXISTS (SELECT 1 FROM deployments d WHERE d.id = OLD.deployment_id AND d.state = 'built')
            OR NOT (revision IS NOT NULL AND revision IS DISTINCT FROM OLD.rebuild_for OR round = OLD.rounds + 1) THEN
            RAISE EXCEPTION 'a signer changes no build'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'builds_not_by_signer';
        END IF;
        NEW := OLD;
        NEW.rebuild_for := revision;
        NEW.rounds := round;
        NEW.attempt := 0;
        NEW.lease_holder := NULL;
        NEW.lease_expires_at := NULL;
        NEW.lease_role := NULL;
        NEW.committed_token := NULL;
        NEW.claim := NULL;
        NEW.finished_at := NULL;
        NEW.not_before := now();
        IF round > 1 AND round > OLD.rounds THEN
            NEW.not_before := now() + make_interval(secs => least(60, power(2, round)));
        END IF;
    END IF;
    RETURN NEW;
END $function$;

CREATE OR REPLACE FUNCTION public.check_builder_holds()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public'
AS $function$
BEGIN
    IF program_of(current_user) = 'mfaas_builder'
        AND (NEW.deployment_id IS NULL OR NOT holds_build(NEW.deployment_id)) THEN
        RAISE EXCEPTION 'a builder speaks of what it builds'
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_of_builder';
    END IF;
    RETURN NEW;
END $function$;

CREATE OR REPLACE FUNCTION public.check_builder_row()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public'
AS $function$
BEGIN
    IF program_of(current_user) = 'mfaas_builder' THEN
        IF TG_OP <> 'INSERT' AND OLD.role <> session_user THEN
            RAISE EXCEPTION 'builder % is of another role', OLD.instance
                USING ERRCODE = 'check_violation', CONSTRAINT = 'builders_of_another';
        END IF;
        IF TG_OP <> 'DELETE' THEN
            NEW.role := session_user;
            NEW.seen_at := now();
        END IF;
    END IF;
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    RETURN NEW;
END $function$;

CREATE OR REPLACE FUNCTION public.check_crate_decision()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
DECLARE program name := program_of(session_user);
BEGIN
    IF NEW.status <> 'allowed' THEN
        RETURN NEW;
    END IF;
    IF NEW.review_id IS NOT NULL THEN
        IF EXISTS (SELECT 1 FROM reviews r WHERE r.id = NEW.review_id AND r.state = 'approved'
                   AND (r.name, r.version, r.checksum, r.features, r.toolchain, r.scope, r.grants)
                     = (NEW.name, NEW.version, NEW.checksum, NEW.features, NEW.toolchain, NEW.scope, NEW.grants)
                   AND r.expires_at IS NOT DISTINCT FROM NEW.expires_at) THEN
            RETURN NEW;
        END IF;
    ELSIF NEW.decided_by LIKE 'rules %' THEN
        IF program = 'mfaas_acquirer' AND NEW.grants = '{}' AND EXISTS (
            SELECT 1 FROM crate_archives a WHERE (a.name, a.version, a.checksum) = (NEW.name, NEW.version, NEW.checksum)
        ) THEN
            RETURN NEW;
        END IF;
    ELSIF NEW.decided_by = 'seed' AND program = '' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'nobody has decided that % % may be used like this', NEW.name, NEW.version
        USING ERRCODE = 'check_violation', CONSTRAINT = 'crates_decided';
END $function$;

CREATE OR REPLACE FUNCTION public.check_deployment_transition()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public'
AS $function$
DECLARE
    program  name := program_of(current_user);
    may      boolean;
BEGIN
    IF program = 'mfaas_builder' AND NOT holds_build(OLD.id) THEN
        RAISE EXCEPTION 'a builder changes what it builds'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deployments_state_of_builder';
    END IF;
    IF NEW.state IS DISTINCT FROM OLD.state THEN
        IF NOT (OLD.state, NEW.state) IN (
            ('received', 'building'), ('received', 'built'), ('received', 'failed'),
            ('building', 'received'), ('building', 'built'), ('building', 'refused'), ('building', 'waiting'),
            ('building', 'failed'),
            ('built', 'admitted'), ('built', 'refused'), ('built', 'failed'), ('built', 'received'),
            ('waiting', 'received'), ('waiting', 'refused')
        ) THEN
            RAISE EXCEPTION 'a deployment cannot go from % to %', OLD.state, NEW.state
                USING ERRCODE = 'check_violation', CONSTRAINT = 'deployments_state_transition';
        END IF;
        -- What has a claim is signed or ended; only a build that is open again goes back.
        IF OLD.state = 'built' AND NEW.state = 'received'
            AND EXISTS (SELECT 1 FROM builds b WHERE b.deployment_id = OLD.id AND b.finished_at IS NOT NULL) THEN
            RAISE EXCEPTION 'the build of % has ended', OLD.id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'deployments_state_transition';
        END IF;
        IF (OLD.state, NEW.state) = ('received', 'built')
            AND NOT EXISTS (SELECT 1 FROM builds b WHERE b.deployment_id = OLD.id AND b.finished_at IS NOT NULL
                            AND b.claim IS NOT NULL) THEN
            RAISE EXCEPTION 'deployment % has no claim', OLD.id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'deployments_state_transition';
        END IF;
        may := CASE program
            WHEN 'mfaas_builder' THEN OLD.state IN ('received', 'building')
                AND (OLD.state, NEW.state) <> ('received', 'built')
            WHEN 'mfaas_signer' THEN OLD.state = 'built' OR (OLD.state, NEW.state) = ('received', 'built')
            WHEN '' THEN true
            ELSE OLD.state = 'waiting'
        END;
        IF NOT may THEN
            RAISE EXCEPTION '% may not move a deployment out of %', program, OLD.state
                USING ERRCODE = 'check_violation', CONSTRAINT = 'deployments_state_of_' || substr(program, 7);
        END IF;
    END IF;
    IF NEW.forgotten_at IS NOT DISTINCT FROM OLD.forgotten_at THEN
        NEW.updated_at := now();
        RETURN NEW;
    END IF;
    IF OLD.forgotten_at IS NOT NULL OR NEW.state <> OLD.state OR NOT OLD.state IN ('admitted', 'refused', 'failed')
        OR OLD.updated_at > now() - interval '1 day' THEN
        RAISE EXCEPTION 'deployment % is not old', OLD.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deployments_forgotten_when_old';
    END IF;
    NEW.forgotten_at := now();
    NEW.updated_at := OLD.updated_at;
    RETURN NEW;
END $function$;

CREATE OR REPLACE FUNCTION public.check_old()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public'
AS $function$
DECLARE
    program  name := program_of(current_user);
    day      CONSTANT interval := '1 day';
    may      boolean;
BEGIN
    IF program = '' OR (program = 'mfaas_builder' AND TG_TABLE_NAME = 'builders') THEN
        RETURN OLD;
    END IF;
    IF TG_TABLE_NAME = 'deployment_events' THEN
        -- The last event tells the state, and ends the stream of whoever follows.
        may := EXISTS (SELECT 1 FROM deployments d WHERE d.id = OLD.deployment_id AND d.forgotten_at IS NOT NULL
                       AND OLD.seq < d.last_event);
    ELSIF TG_TABLE_NAME = 'tokens' THEN
        may := least(OLD.revoked_at, OLD.expires_at) < now() - day;
    ELSIF TG_TABLE_NAME = 'join_tokens' THEN
        may := OLD.expires_at < now() - day;
    ELSIF TG_TABLE_NAME = 'node_reports' THEN
        -- The signer begins above the highest epoch that anybody reported: one that nobody signed here is kept.
        may := OLD.at < now() - day AND OLD.epoch <= (SELECT coalesce(max(s.epoch), 0) FROM serving_sets s);
    ELSIF TG_TABLE_NAME = 'builders' THEN
        may := OLD.seen_at < now() - day;
    ELSIF TG_TABLE_NAME = 'usage_hours' THEN
        may := OLD.hour < now() - day;
    ELSIF TG_TABLE_NAME = 'call_tokens' THEN
        may := OLD.expires_at < now() - day;
    ELSIF TG_TABLE_NAME = 'call_revocations' THEN
        may := OLD.ends_at < now() - day;
    ELSIF TG_TABLE_NAME = 'revocations' THEN
        -- The same source gives the same artifact for as long as its toolchain counts.
        may := OLD.revoked_at < now() - day
            AND EXISTS (SELECT 1 FROM artifacts a WHERE a.digest = OLD.artifact
                        AND NOT EXISTS (SELECT 1 FROM toolchains t WHERE t.id = a.toolchain AND t.accepted))
            AND NOT EXISTS (SELECT 1 FROM versions v WHERE v.artifact = OLD.artifact AND v.retired_at IS NULL);
    END IF;
    IF may IS NOT TRUE THEN
        RAISE EXCEPTION '% may not delete this from %', program, TG_TABLE_NAME
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_deleted_when_old';
    END IF;
    RETURN OLD;
END $function$;

CREATE OR REPLACE FUNCTION public.check_review_transition()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
DECLARE
    yes      bigint;
    no       bigint;
    unsound  bigint;
BEGIN
    IF (NEW.scope, NEW.grants) <> (OLD.scope, OLD.grants) OR NEW.expires_at IS DISTINCT FROM OLD.expires_at THEN
        IF OLD.state <> 'open' OR EXISTS (SELECT 1 FROM votes WHERE review_id = OLD.id) THEN
            RAISE EXCEPTION 'somebody has voted on the terms of review %', OLD.id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'reviews_terms_stand';
        END IF;
    END IF;
    IF NEW.state = OLD.state THEN
        RETURN NEW;
    END IF;
    IF NOT (OLD.state, NEW.state) IN (
        ('open', 'approved'), ('open', 'denied'), ('open', 'withdrawn'), ('approved', 'revoked')
    ) THEN
        RAISE EXCEPTION 'a review cannot go from % to %', OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'reviews_state_transition';
    END IF;
    SELECT count(*) FILTER (WHERE approve), count(*) FILTER (WHERE NOT approve) INTO yes, no
        FROM votes WHERE review_id = NEW.id;
    SELECT count(*) INTO unsound FROM spot_notes WHERE review_id = NEW.id AND state = 'unsound';
    IF NEW.state = 'approved' AND (yes < OLD.people OR no > 0) THEN
        RAISE EXCEPTION 'review % has % of % voices, and % against', NEW.id, yes, OLD.people, no
            USING ERRCODE = 'check_violation', CONSTRAINT = 'reviews_enough_people';
    END IF;
    IF NEW.state = 'approved' AND unsound > 0 THEN
        RAISE EXCEPTION 'review % has % spots that somebody found unsound', NEW.id, unsound
            USING ERRCODE = 'check_violation', CONSTRAINT = 'reviews_nothing_unsound';
    END IF;
    IF NEW.state = 'denied' AND no = 0 THEN
        RAISE EXCEPTION 'nobody voted against review %', NEW.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'reviews_denied_by_somebody';
    END IF;
    RETURN NEW;
END $function$;

CREATE OR REPLACE FUNCTION public.check_series_old()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public'
AS $function$
BEGIN
    IF program_of(current_user) <> '' AND OLD.at >= now() - make_interval(secs => 150 * OLD.step_s) THEN
        RAISE EXCEPTION '% may not delete this from %', program_of(current_user), TG_TABLE_NAME
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_deleted_when_old';
    END IF;
    RETURN OLD;
END $function$;

CREATE OR REPLACE FUNCTION public.check_speaker()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
DECLARE voucher text;
BEGIN
    SELECT vouched_by INTO voucher FROM tokens
    WHERE id = NEW.token_id AND person = NEW.person AND vouched_by <> 'nobody'
        AND scopes && ARRAY['review', 'admin']
        AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now());
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no token lets % speak', NEW.person
            USING ERRCODE = 'check_violation', CONSTRAINT = 'votes_by_a_person';
    END IF;
    IF EXISTS (SELECT 1 FROM votes v LEFT JOIN tokens t ON t.id = v.token_id
               WHERE v.review_id = NEW.review_id AND coalesce(t.vouched_by, 'admin') <> voucher) THEN
        RAISE EXCEPTION 'voices on review % come from people that somebody else names', NEW.review_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'votes_of_one_kind';
    END IF;
    RETURN NEW;
END $function$;

CREATE OR REPLACE FUNCTION public.check_voice()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
DECLARE found text;
BEGIN
    SELECT state INTO found FROM reviews WHERE id = NEW.review_id FOR UPDATE;
    IF found IS DISTINCT FROM 'open' THEN
        RAISE EXCEPTION 'review % is not open', NEW.review_id
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_while_open';
    END IF;
    IF EXISTS (SELECT 1 FROM request_members m JOIN crate_requests r ON r.id = m.request_id
               WHERE m.review_id = NEW.review_id AND r.requested_by = NEW.person) THEN
        RAISE EXCEPTION '% asked for this crate', NEW.person
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_not_by_requester';
    END IF;
    RETURN NEW;
END $function$;

CREATE OR REPLACE FUNCTION public.hold_policy_version()
 RETURNS bigint
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$ SELECT version FROM policy_state FOR SHARE $function$;

CREATE OR REPLACE FUNCTION public.holds_build(deployment uuid)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'public'
AS $function$
    SELECT EXISTS (SELECT 1 FROM builds b WHERE b.deployment_id = deployment AND b.lease_role = session_user
                   AND (b.finished_at IS NULL OR b.finished_at = now()))
$function$;

CREATE OR REPLACE FUNCTION public.join_node(who text, secret text, key text, certificate text, actor text)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
DECLARE
    token join_tokens;
BEGIN
    SELECT * INTO token FROM join_tokens
    WHERE secret_sha256 = secret AND (node IS NULL OR node = who) AND expires_at > now() FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;
    UPDATE nodes
    SET certificate_sha256 = certificate, previous_certificate_sha256 = NULL, renewed_at = NULL, joined_at = now()
    WHERE name = who AND removed_at IS NULL AND joined_by = token.id AND key_sha256 = key;
    IF NOT FOUND THEN
        -- Used without a count: by a server of the release before.
        IF token.uses >= token.uses_max OR (token.used_at IS NOT NULL AND token.uses = 0) THEN
            RETURN 'unknown';
        END IF;
        INSERT INTO nodes AS n (name, certificate_sha256, joined_by, key_sha256)
        VALUES (who, certificate, token.id, key)
        ON CONFLICT ON CONSTRAINT nodes_pkey DO UPDATE
        SET certificate_sha256 = certificate, previous_certificate_sha256 = NULL, renewed_at = NULL, joined_at = now(),
            removed_at = NULL, joined_by = token.id, key_sha256 = key,
            availability = CASE WHEN n.removed_at IS NULL THEN n.availability ELSE 'active' END,
            availability_since = CASE WHEN n.removed_at IS NULL THEN n.availability_since END,
            cordoned = n.cordoned AND n.removed_at IS NULL
        WHERE token.node IS NOT NULL OR n.removed_at IS NOT NULL;
        IF NOT FOUND THEN
            RETURN 'taken';
        END IF;
        UPDATE join_tokens SET used_at = now(), uses = uses + 1 WHERE id = token.id;
    END IF;
    PERFORM append_audit(actor, 'node.joined', '', who,
        jsonb_build_object('certificate', certificate, 'token', token.id));
    RETURN 'joined';
END $function$;

CREATE OR REPLACE FUNCTION public.name_the_person()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public'
AS $function$
BEGIN
    IF NEW.person IS NULL THEN
        NEW.person := person_of_token(NEW.tenant, NEW.name);
        NEW.vouched_by := 'nobody';
    ELSIF NEW.vouched_by = 'nobody' THEN
        NEW.vouched_by := 'admin';
    END IF;
    -- A trigger and no constraint: what was made before must still be possible to revoke.
    IF NEW.vouched_by = 'nobody' AND NEW.scopes && ARRAY['review', 'admin'] THEN
        RAISE EXCEPTION 'a token with these scopes needs a person'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'tokens_reviewer_is_a_person';
    END IF;
    RETURN NEW;
END $function$;

CREATE OR REPLACE FUNCTION public.name_the_requester()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
BEGIN
    IF NEW.deployment_id IS NOT NULL THEN
        SELECT person INTO NEW.requested_by FROM deployments WHERE id = NEW.deployment_id;
    END IF;
    RETURN NEW;
END $function$;

CREATE OR REPLACE FUNCTION public.note_changed_function()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
DECLARE
    changed record;
BEGIN
    IF TG_OP = 'DELETE' THEN changed := OLD; ELSE changed := NEW; END IF;
    IF TG_TABLE_NAME = 'functions' THEN
        INSERT INTO changed_functions (tenant, name) VALUES (changed.tenant, changed.name);
    ELSE
        INSERT INTO changed_functions (tenant, name) VALUES (changed.tenant, changed.function);
    END IF;
    RETURN NULL;
END $function$;

CREATE OR REPLACE FUNCTION public.note_ended_build()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
DECLARE
    edges_ms CONSTANT bigint[] := '{100,200,500,1000,2000,5000,10000,20000,30000,60000,120000,300000,600000,1200000,3600000}';
    queued   bigint[] := '{}';
    built    bigint[] := '{}';
BEGIN
    IF NEW.started_at >= NEW.queued_at THEN
        SELECT array_agg((b = bucket.queue)::int ORDER BY b), array_agg((b = bucket.build)::int ORDER BY b) INTO queued, built
        FROM generate_series(0, cardinality(edges_ms)) b, (
            SELECT count(*) FILTER (WHERE edge < extract(epoch FROM NEW.started_at - NEW.queued_at) * 1000) AS queue,
                   count(*) FILTER (WHERE edge < extract(epoch FROM NEW.finished_at - NEW.started_at) * 1000) AS build
            FROM unnest(edges_ms) edge) bucket;
    END IF;
    INSERT INTO series_builds AS s (step_s, at, builds, queue_counts, build_counts)
        SELECT step_s, date_bin(make_interval(secs => step_s), now(), 'epoch'), 1, queued, built
        FROM unnest(ARRAY[60, 900, 21600]) step_s ORDER BY step_s
        ON CONFLICT ON CONSTRAINT series_builds_pkey DO UPDATE SET builds = s.builds + 1,
            queue_counts = added_counts(s.queue_counts, excluded.queue_counts),
            build_counts = added_counts(s.build_counts, excluded.build_counts);
    RETURN NULL;
END $function$;

CREATE OR REPLACE FUNCTION public.note_granted_functions()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
DECLARE
    changed record;
BEGIN
    IF TG_OP = 'DELETE' THEN changed := OLD; ELSE changed := NEW; END IF;
    -- First: an admission that binds the resource has ended before this goes on, and is seen, or waits and sees what this did.
    PERFORM public.bump_desired_generation();
    INSERT INTO changed_functions (tenant, name)
    SELECT DISTINCT b.tenant, b.function FROM version_bindings b
    WHERE b.resource = changed.resource AND b.tenant = changed.tenant;
    RETURN NULL;
END $function$;

CREATE OR REPLACE FUNCTION public.note_revoked_functions()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
DECLARE
    changed text;
BEGIN
    IF TG_OP = 'DELETE' THEN changed := OLD.artifact; ELSE changed := NEW.artifact; END IF;
    INSERT INTO changed_functions (tenant, name)
    SELECT DISTINCT v.tenant, v.function FROM versions v WHERE v.artifact = changed;
    RETURN NULL;
END $function$;

CREATE OR REPLACE FUNCTION public.note_toolchain_functions()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
BEGIN
    IF TG_OP = 'INSERT' OR OLD.accepted IS DISTINCT FROM NEW.accepted THEN
        INSERT INTO changed_functions (tenant, name)
        SELECT DISTINCT v.tenant, v.function FROM versions v WHERE v.toolchain = NEW.id;
    END IF;
    RETURN NULL;
END $function$;

CREATE OR REPLACE FUNCTION public.person_of_token(tenant text, name text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO 'pg_catalog', 'public'
AS $function$ SELECT left(tenant || '/' || regexp_replace(lower(name), '[^a-z0-9._@+:/-]', '_', 'g'), 200) $function$;

CREATE OR REPLACE FUNCTION public.program_of(who name)
 RETURNS name
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'public'
AS $function$
DECLARE programs name[];
BEGIN
    IF EXISTS (SELECT 1 FROM pg_roles r WHERE r.rolname = who AND (r.rolsuper OR r.oid =
               (SELECT c.relowner FROM pg_class c WHERE c.oid = 'public.builds'::regclass))) THEN
        RETURN '';
    END IF;
    WITH RECURSIVE held AS (
        SELECT oid, rolname FROM pg_roles WHERE rolname = who
        UNION
        SELECT r.oid, r.rolname FROM held h JOIN pg_auth_members m ON m.member = h.oid JOIN pg_roles r ON r.oid = m.roleid)
    SELECT array_agg(rolname) INTO programs FROM held
    WHERE rolname IN ('mfaas_server', 'mfaas_builder', 'mfaas_signer', 'mfaas_acquirer');
    IF cardinality(programs) IS DISTINCT FROM 1 THEN
        RAISE EXCEPTION 'the role % is not one of the programs', who USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN programs[1];
END $function$;

CREATE OR REPLACE FUNCTION public.renew_node(who text, shown text, certificate text, actor text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
BEGIN
    UPDATE nodes SET previous_certificate_sha256 = shown, certificate_sha256 = certificate, renewed_at = now()
    WHERE name = who AND removed_at IS NULL AND shown IN (certificate_sha256, previous_certificate_sha256)
          AND (renewed_at IS NULL OR renewed_at < now() - interval '30 minutes');
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM append_audit(actor, 'node.renewed', '', who, jsonb_build_object('by', shown, 'certificate', certificate));
    RETURN true;
END $function$;

CREATE OR REPLACE FUNCTION public.set_time()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public'
AS $function$
BEGIN
    IF program_of(current_user) = '' THEN
        RETURN NEW;
    END IF;
    IF TG_TABLE_NAME = 'tokens' THEN
        NEW.revoked_at := CASE WHEN OLD.revoked_at IS NOT NULL THEN OLD.revoked_at
                               WHEN NEW.revoked_at IS NOT NULL THEN now() END;
    ELSIF TG_TABLE_NAME = 'node_reports' THEN
        NEW.at := now();
    END IF;
    RETURN NEW;
END $function$;

CREATE OR REPLACE FUNCTION public.tell_orders()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public'
AS $function$
BEGIN
    PERFORM pg_notify('mfaas_orders', '');
    RETURN NULL;
END $function$;
