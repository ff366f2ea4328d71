-- The state of the registry. Constraint names are part of the contract: the catalog turns them
-- into errors. The roles exist before this runs, or are made here without a way to log in.

DO $$
DECLARE wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['mfaas_server', 'mfaas_builder', 'mfaas_signer'] LOOP
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
    END LOOP;
END $$;

-- Fencing tokens of build leases. Never reset, never reused: an old builder must never hold a
-- number that is granted again.
CREATE SEQUENCE fencing_token AS bigint MINVALUE 1 NO CYCLE;

CREATE TABLE tenants (
    name        text        CONSTRAINT tenants_pkey PRIMARY KEY,
    created_at  timestamptz NOT NULL DEFAULT now()
);

-- A token is stored as the SHA-256 of its secret; the secret is shown once.
CREATE TABLE tokens (
    id             uuid        CONSTRAINT tokens_pkey PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant         text        NOT NULL CONSTRAINT tokens_tenant_fkey REFERENCES tenants (name),
    name           text        NOT NULL,
    secret_sha256  text        NOT NULL CONSTRAINT tokens_secret_unique UNIQUE,
    scopes         text[]      NOT NULL
        CONSTRAINT tokens_scopes_known
        CHECK (scopes <@ ARRAY['read', 'deploy', 'review', 'admin'] AND cardinality(scopes) > 0),
    created_at     timestamptz NOT NULL DEFAULT now(),
    expires_at     timestamptz,
    revoked_at     timestamptz
);

-- A row is made by the signer together with the first version: a refused upload leaves none.
CREATE TABLE functions (
    tenant        text        NOT NULL CONSTRAINT functions_tenant_fkey REFERENCES tenants (name),
    name          text        NOT NULL,
    last_version  integer     NOT NULL DEFAULT 0,
    created_at    timestamptz NOT NULL DEFAULT now(),
    deleted_at    timestamptz,
    CONSTRAINT functions_pkey PRIMARY KEY (tenant, name)
);

CREATE TABLE deployments (
    id               uuid        CONSTRAINT deployments_pkey PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant           text        NOT NULL CONSTRAINT deployments_tenant_fkey REFERENCES tenants (name),
    function         text        NOT NULL,
    idempotency_key  text        NOT NULL
        CONSTRAINT deployments_idempotency_key_length CHECK (length(idempotency_key) BETWEEN 1 AND 200),
    -- Recorded by the server while it stored the upload; no other role may write it.
    source_digest    text        NOT NULL
        CONSTRAINT deployments_source_digest_sha256 CHECK (source_digest ~ '^[0-9a-f]{64}$'),
    source_bytes     bigint      NOT NULL,
    submitted_by     text        NOT NULL,
    state            text        NOT NULL DEFAULT 'received'
        CONSTRAINT deployments_state_known
        CHECK (state IN ('received', 'building', 'built', 'admitted', 'refused', 'waiting', 'failed')),
    -- What stopped it, or warnings; an array of diagnostics.
    diagnostics      jsonb       NOT NULL DEFAULT '[]',
    version          integer,
    last_event       bigint      NOT NULL DEFAULT 0,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT deployments_idempotency_key_unique UNIQUE (tenant, idempotency_key),
    CONSTRAINT deployments_version_when_admitted CHECK ((state = 'admitted') = (version IS NOT NULL))
);
CREATE INDEX deployments_by_function ON deployments (tenant, function, created_at DESC);

-- The builder's queue: one row a deployment. The lease ends by the database's clock.
CREATE TABLE builds (
    deployment_id     uuid        CONSTRAINT builds_pkey PRIMARY KEY
        CONSTRAINT builds_deployment_fkey REFERENCES deployments (id),
    attempt           integer     NOT NULL DEFAULT 0,
    lease_holder      text,
    lease_expires_at  timestamptz,
    -- The highest token granted for this build; whoever commits must hold exactly this one.
    fencing_token     bigint,
    -- The token that ended the build.
    committed_token   bigint,
    claim             jsonb,
    queued_at         timestamptz NOT NULL DEFAULT now(),
    started_at        timestamptz,
    finished_at       timestamptz,
    CONSTRAINT builds_claim_when_finished CHECK (claim IS NULL OR finished_at IS NOT NULL),
    CONSTRAINT builds_only_highest_token_commits
        CHECK (committed_token IS NULL OR (fencing_token IS NOT NULL AND committed_token = fencing_token))
);
CREATE INDEX builds_queue ON builds (queued_at) WHERE finished_at IS NULL;

-- Live builder processes, so that a retry prefers another one.
CREATE TABLE builders (
    instance  text        CONSTRAINT builders_pkey PRIMARY KEY,
    seen_at   timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE deployment_events (
    deployment_id  uuid        NOT NULL
        CONSTRAINT deployment_events_deployment_fkey REFERENCES deployments (id),
    seq            bigint      NOT NULL,
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    body           jsonb       NOT NULL,
    CONSTRAINT deployment_events_pkey PRIMARY KEY (deployment_id, seq)
);

-- Everything below is written by the signer.
CREATE TABLE artifacts (
    digest      text        CONSTRAINT artifacts_pkey PRIMARY KEY
        CONSTRAINT artifacts_digest_sha256 CHECK (digest ~ '^[0-9a-f]{64}$'),
    bytes       bigint      NOT NULL,
    toolchain   text        NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE statements (
    -- SHA-256 of the envelope's bytes.
    digest      text        CONSTRAINT statements_pkey PRIMARY KEY,
    artifact    text        NOT NULL CONSTRAINT statements_artifact_fkey REFERENCES artifacts (digest),
    envelope    text        NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE versions (
    tenant          text        NOT NULL,
    function        text        NOT NULL,
    version         integer     NOT NULL CONSTRAINT versions_version_positive CHECK (version >= 1),
    deployment_id   uuid        NOT NULL
        CONSTRAINT versions_deployment_unique UNIQUE
        CONSTRAINT versions_deployment_fkey REFERENCES deployments (id),
    artifact        text        NOT NULL CONSTRAINT versions_artifact_fkey REFERENCES artifacts (digest),
    statement       text        NOT NULL CONSTRAINT versions_statement_fkey REFERENCES statements (digest),
    source_digest   text        NOT NULL,
    handler         text        NOT NULL,
    budget_us       bigint      NOT NULL,
    memory_bytes    bigint      NOT NULL,
    toolchain       text        NOT NULL,
    abi_version     integer     NOT NULL,
    policy_version  bigint      NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    -- Set when the function is deleted; a later function of the same name goes on counting.
    retired_at      timestamptz,
    CONSTRAINT versions_pkey PRIMARY KEY (tenant, function, version),
    CONSTRAINT versions_function_fkey FOREIGN KEY (tenant, function) REFERENCES functions (tenant, name)
);
CREATE INDEX versions_by_artifact ON versions (artifact);

CREATE TABLE aliases (
    tenant      text        NOT NULL,
    function    text        NOT NULL,
    alias       text        NOT NULL,
    version     integer     NOT NULL,
    updated_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT aliases_pkey PRIMARY KEY (tenant, function, alias),
    CONSTRAINT aliases_version_fkey FOREIGN KEY (tenant, function, version)
        REFERENCES versions (tenant, function, version)
);

-- Toolchains whose artifacts may be signed and loaded.
CREATE TABLE toolchains (
    id          text        CONSTRAINT toolchains_pkey PRIMARY KEY,
    accepted    boolean     NOT NULL,
    decided_by  text        NOT NULL,
    decided_at  timestamptz NOT NULL DEFAULT now()
);

-- The allowlist: one row a crate version, with the last decision about it.
CREATE TABLE crates (
    name        text        NOT NULL,
    version     text        NOT NULL,
    checksum    text        NOT NULL
        CONSTRAINT crates_checksum_sha256 CHECK (checksum ~ '^[0-9a-f]{64}$'),
    features    text[]      NOT NULL,
    -- False for crates that others need but a tenant may not name.
    direct      boolean     NOT NULL,
    status      text        NOT NULL
        CONSTRAINT crates_status_known CHECK (status IN ('allowed', 'denied', 'revoked')),
    decided_by  text        NOT NULL,
    decided_at  timestamptz NOT NULL DEFAULT now(),
    reason      text        NOT NULL,
    CONSTRAINT crates_pkey PRIMARY KEY (name, version)
);

-- Grows with every change of the allowlist; statements name it.
CREATE TABLE policy_state (
    one      boolean CONSTRAINT policy_state_pkey PRIMARY KEY DEFAULT true
        CONSTRAINT policy_state_one_row CHECK (one),
    version  bigint NOT NULL
);
INSERT INTO policy_state (version) VALUES (1);

-- What waiting deployments wait for.
CREATE TABLE crate_requests (
    id             bigint      GENERATED ALWAYS AS IDENTITY CONSTRAINT crate_requests_pkey PRIMARY KEY,
    deployment_id  uuid        NOT NULL
        CONSTRAINT crate_requests_deployment_fkey REFERENCES deployments (id),
    tenant         text        NOT NULL,
    name           text        NOT NULL,
    requirement    text        NOT NULL,
    features       text[]      NOT NULL,
    code           text        NOT NULL,
    status         text        NOT NULL DEFAULT 'open'
        CONSTRAINT crate_requests_status_known CHECK (status IN ('open', 'approved', 'denied', 'retried')),
    created_at     timestamptz NOT NULL DEFAULT now(),
    decided_at     timestamptz,
    CONSTRAINT crate_requests_once UNIQUE (deployment_id, name)
);

CREATE TABLE nodes (
    name                text        CONSTRAINT nodes_pkey PRIMARY KEY,
    certificate_sha256  text        NOT NULL CONSTRAINT nodes_certificate_unique UNIQUE,
    cordoned            boolean     NOT NULL DEFAULT false,
    joined_at           timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE join_tokens (
    secret_sha256  text        CONSTRAINT join_tokens_pkey PRIMARY KEY,
    node           text        NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    expires_at     timestamptz NOT NULL,
    used_at        timestamptz
);

-- The latest report of each node; older ones are of no use to anybody.
CREATE TABLE node_reports (
    node      text        CONSTRAINT node_reports_pkey PRIMARY KEY
        CONSTRAINT node_reports_node_fkey REFERENCES nodes (name),
    boot      uuid        NOT NULL,
    sequence  bigint      NOT NULL,
    epoch     bigint      NOT NULL,
    at        timestamptz NOT NULL DEFAULT now(),
    body      jsonb       NOT NULL
);

-- Grows with everything that changes what nodes should serve.
CREATE TABLE desired_generation (
    one         boolean CONSTRAINT desired_generation_pkey PRIMARY KEY DEFAULT true
        CONSTRAINT desired_generation_one_row CHECK (one),
    generation  bigint NOT NULL
);
INSERT INTO desired_generation (generation) VALUES (1);

CREATE TABLE serving_sets (
    epoch       bigint      CONSTRAINT serving_sets_pkey PRIMARY KEY
        CONSTRAINT serving_sets_epoch_positive CHECK (epoch >= 1),
    generation  bigint      NOT NULL,
    digest      text        NOT NULL,
    envelope    text        NOT NULL,
    issued_at   timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL
);

CREATE TABLE key_lists (
    version     integer     CONSTRAINT key_lists_pkey PRIMARY KEY,
    envelope    text        NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now()
);

-- Artifacts that must not run anywhere any more.
CREATE TABLE revocations (
    artifact    text        CONSTRAINT revocations_pkey PRIMARY KEY,
    reason      text        NOT NULL,
    revoked_by  text        NOT NULL,
    revoked_at  timestamptz NOT NULL DEFAULT now()
);

-- The newest lines of each function; the catalog keeps the number of rows bounded.
CREATE TABLE function_logs (
    id        bigint      GENERATED ALWAYS AS IDENTITY CONSTRAINT function_logs_pkey PRIMARY KEY,
    tenant    text        NOT NULL,
    function  text        NOT NULL,
    version   integer     NOT NULL,
    node      text        NOT NULL,
    boot      uuid        NOT NULL,
    line      bigint      NOT NULL,
    at        timestamptz NOT NULL,
    level     text        NOT NULL
        CONSTRAINT function_logs_level_known CHECK (level IN ('debug', 'info', 'warn', 'error')),
    text      text        NOT NULL,
    -- A batch that a node sends twice is stored once.
    CONSTRAINT function_logs_once UNIQUE (node, boot, line)
);
CREATE INDEX function_logs_by_function ON function_logs (tenant, function, id);

-- Who did what. Each row's hash covers the hash before it; audit_head remembers the last one, so
-- that rows cut off at the end are missed as well.
CREATE TABLE audit_log (
    seq      bigint      CONSTRAINT audit_log_pkey PRIMARY KEY,
    at       timestamptz NOT NULL,
    -- The database role that wrote it; the row cannot lie about this.
    role     text        NOT NULL,
    actor    text        NOT NULL,
    action   text        NOT NULL,
    tenant   text        NOT NULL,
    subject  text        NOT NULL,
    detail   jsonb       NOT NULL,
    hash     text        NOT NULL
);
CREATE INDEX audit_log_by_subject ON audit_log (subject, action);

CREATE TABLE audit_head (
    one   boolean CONSTRAINT audit_head_pkey PRIMARY KEY DEFAULT true
        CONSTRAINT audit_head_one_row CHECK (one),
    seq   bigint NOT NULL,
    hash  text   NOT NULL
);
INSERT INTO audit_head (seq, hash) VALUES (0, repeat('0', 64));
