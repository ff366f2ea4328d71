-- What a program that was taken over can still write: a row at a time, column by column, and only while the row is its own.

-- Which of the programs a database role is: one of the four roles, or a member of one, however far away. A site with several
-- builders gives each a role of its own that is a member of mfaas_builder. Empty for whoever owns the tables and for superusers.
-- Any other role has no business here, and neither has one that is two programs.
CREATE FUNCTION program_of(who name)
RETURNS name
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public
AS $$
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
END $$;

-- The database role that holds, or ended, a build.
ALTER TABLE builds ADD COLUMN lease_role name;
UPDATE builds SET lease_role = 'mfaas_builder' WHERE finished_at IS NULL AND lease_holder IS NOT NULL;

-- A row begins at the beginning, whoever makes it and whatever it says.
CREATE FUNCTION begin_deployment()
RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public
AS $$
BEGIN
    NEW.state := 'received';
    NEW.diagnostics := '[]';
    NEW.version := NULL;
    NEW.last_event := 0;
    NEW.created_at := now();
    NEW.updated_at := now();
    RETURN NEW;
END $$;
CREATE TRIGGER deployments_begin BEFORE INSERT ON deployments FOR EACH ROW EXECUTE FUNCTION begin_deployment();

CREATE FUNCTION begin_build()
RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public
AS $$
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
    RETURN NEW;
END $$;
CREATE TRIGGER builds_begin BEFORE INSERT ON builds FOR EACH ROW EXECUTE FUNCTION begin_build();

-- Whether the role that is connected holds the build, or has ended it in this very transaction.
CREATE FUNCTION holds_build(deployment uuid)
RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, public
AS $$
    SELECT EXISTS (SELECT 1 FROM builds b WHERE b.deployment_id = deployment AND b.lease_role = session_user
                   AND (b.finished_at IS NULL OR b.finished_at = now()))
$$;

-- Who may change a build: a builder one that nobody else holds and that has not ended; server and acquirer one that waits in
-- the queue, or is put back there; the signer none.
CREATE FUNCTION check_build_change()
RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public
AS $$
DECLARE program name := program_of(current_user);
BEGIN
    IF program = 'mfaas_builder' THEN
        IF OLD.finished_at IS NOT NULL THEN
            RAISE EXCEPTION 'build % has ended', OLD.deployment_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'builds_ended';
        END IF;
        IF OLD.lease_role <> session_user AND OLD.lease_expires_at >= now() THEN
            RAISE EXCEPTION 'another builder holds build %', OLD.deployment_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'builds_of_another';
        END IF;
        IF NEW.lease_expires_at > now() + interval '1 hour' THEN
            RAISE EXCEPTION 'a lease lasts an hour at most'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'builds_lease_bounded';
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
    ELSIF program = 'mfaas_signer' AND NEW IS DISTINCT FROM OLD THEN
        RAISE EXCEPTION 'a signer changes no build'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'builds_not_by_signer';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER builds_change BEFORE UPDATE ON builds FOR EACH ROW EXECUTE FUNCTION check_build_change();

-- As before, and each program moves a deployment from the states that are its own: a builder what it holds, the signer what is
-- built, server and acquirer what waits.
CREATE OR REPLACE FUNCTION check_deployment_transition()
RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public
AS $$
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
            ('received', 'building'), ('received', 'failed'),
            ('building', 'received'), ('building', 'built'), ('building', 'refused'), ('building', 'waiting'),
            ('building', 'failed'),
            ('built', 'admitted'), ('built', 'refused'), ('built', 'failed'),
            ('waiting', 'received'), ('waiting', 'refused')
        ) THEN
            RAISE EXCEPTION 'a deployment cannot go from % to %', OLD.state, NEW.state
                USING ERRCODE = 'check_violation', CONSTRAINT = 'deployments_state_transition';
        END IF;
        may := CASE program
            WHEN 'mfaas_builder' THEN OLD.state IN ('received', 'building')
            WHEN 'mfaas_signer' THEN OLD.state = 'built'
            WHEN '' THEN true
            ELSE OLD.state = 'waiting'
        END;
        IF NOT may THEN
            RAISE EXCEPTION '% may not move a deployment out of %', program, OLD.state
                USING ERRCODE = 'check_violation', CONSTRAINT = 'deployments_state_of_' || substr(program, 7);
        END IF;
    END IF;
    NEW.updated_at := now();
    RETURN NEW;
END $$;

-- What a builder tells about a deployment, and asks reviewers for its sake.
CREATE FUNCTION check_builder_holds()
RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public
AS $$
BEGIN
    IF program_of(current_user) = 'mfaas_builder'
        AND (NEW.deployment_id IS NULL OR NOT holds_build(NEW.deployment_id)) THEN
        RAISE EXCEPTION 'a builder speaks of what it builds'
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_of_builder';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER deployment_events_of_builder BEFORE INSERT ON deployment_events
    FOR EACH ROW EXECUTE FUNCTION check_builder_holds();
CREATE TRIGGER crate_requests_of_builder BEFORE INSERT OR UPDATE ON crate_requests
    FOR EACH ROW EXECUTE FUNCTION check_builder_holds();

-- Rights to insert, column by column. A column that is not named has its default.
REVOKE INSERT ON tenants, tokens, deployments, builds, crates, toolchains, nodes, join_tokens, node_reports, revocations,
    function_logs, deployment_events, aliases, votes, spot_notes, crate_requests, imported, bans, usage_boots, usage_totals,
    usage_hours, usage_kills FROM mfaas_server;
GRANT INSERT (name) ON tenants TO mfaas_server;
GRANT INSERT (tenant, name, secret_sha256, scopes, expires_at, person, vouched_by, made_by) ON tokens TO mfaas_server;
GRANT INSERT (tenant, function, idempotency_key, source_digest, source_bytes, submitted_by, person) ON deployments
    TO mfaas_server;
GRANT INSERT (deployment_id) ON builds TO mfaas_server;
GRANT INSERT (name, version, checksum, features, direct, status, decided_by, decided_at, reason, scope, toolchain, grants,
    expires_at, review_id) ON crates TO mfaas_server;
GRANT INSERT (name, certificate_sha256) ON nodes TO mfaas_server;
GRANT INSERT (secret_sha256, node, expires_at) ON join_tokens TO mfaas_server;
GRANT INSERT (node, boot, sequence, epoch, body) ON node_reports TO mfaas_server;
GRANT INSERT (artifact, reason, revoked_by) ON revocations TO mfaas_server;
GRANT INSERT (tenant, function, version, node, boot, line, at, level, text) ON function_logs TO mfaas_server;
GRANT INSERT (tenant, function, alias, version) ON aliases TO mfaas_server;
GRANT INSERT (review_id, person, approve, note, actor, token_id) ON votes TO mfaas_server;
GRANT INSERT (review_id, spot, state, note, person) ON spot_notes TO mfaas_server;
GRANT INSERT (tenant, requested_by, name, requirement, features, default_features, code, takeover) ON crate_requests
    TO mfaas_server;
GRANT INSERT (kind, body, imported_by) ON imported TO mfaas_server;
GRANT INSERT (told, tenant, function, version, artifact, node, crashes) ON bans TO mfaas_server;
GRANT INSERT (node, boot, sequence) ON usage_boots TO mfaas_server;
GRANT INSERT (node, boot, tenant, function, version, calls, cpu_ns, run_ns, queue_ns, kills) ON usage_totals
    TO mfaas_server;
GRANT INSERT (hour, tenant, function, version, calls, cpu_ns, run_ns, run_ns_max, queue_ns, memory_bytes_max)
    ON usage_hours TO mfaas_server;
GRANT INSERT (hour, tenant, function, version, reason, kills) ON usage_kills TO mfaas_server;

REVOKE INSERT ON deployment_events FROM mfaas_builder, mfaas_signer, mfaas_acquirer;
GRANT INSERT (deployment_id, seq, body) ON deployment_events TO mfaas_server, mfaas_builder, mfaas_signer, mfaas_acquirer;

-- Which toolchains count, the owner decides: whoever decides it decides what is compiled and signed.
REVOKE UPDATE (accepted, decided_by, decided_at) ON toolchains FROM mfaas_server;
REVOKE UPDATE (started_at) ON builds FROM mfaas_server, mfaas_acquirer;
REVOKE UPDATE ON node_reports FROM mfaas_server;
GRANT UPDATE (boot, sequence, epoch, body, at) ON node_reports TO mfaas_server;

REVOKE INSERT ON builders, crate_requests FROM mfaas_builder;
GRANT INSERT (instance) ON builders TO mfaas_builder;
GRANT INSERT (deployment_id, tenant, name, requirement, features, code, default_features) ON crate_requests
    TO mfaas_builder;

REVOKE INSERT ON crate_archives, crate_files, crate_reports, reviews, request_members, crates, dependency_caches,
    index_entries, crate_deltas, review_deltas FROM mfaas_acquirer;
GRANT INSERT (checksum, name, version, bytes) ON crate_archives TO mfaas_acquirer;
GRANT INSERT (checksum, path, blob, bytes) ON crate_files TO mfaas_acquirer;
GRANT INSERT (key, checksum, report) ON crate_reports TO mfaas_acquirer;
GRANT INSERT (name, version, checksum, features, toolchain, report, people, rules_revision, judgement, trial) ON reviews
    TO mfaas_acquirer;
GRANT INSERT (request_id, name, version, checksum, features, path, review_id) ON request_members TO mfaas_acquirer;
GRANT INSERT (name, version, checksum, features, direct, status, decided_by, reason, toolchain) ON crates
    TO mfaas_acquirer;
GRANT INSERT (key, base, toolchain, lock) ON dependency_caches TO mfaas_acquirer;
GRANT INSERT (name, version, decided, decided_as, archive, line, problem, revision) ON index_entries TO mfaas_acquirer;
GRANT INSERT (key, from_checksum, to_checksum, delta) ON crate_deltas TO mfaas_acquirer;
GRANT INSERT (review_id, volumes, from_version, from_checksum, from_features, from_scope, decided_by, decided_at, delta,
    problem) ON review_deltas TO mfaas_acquirer;

REVOKE INSERT ON functions, versions, aliases, artifacts, statements, serving_sets, key_lists, version_crates
    FROM mfaas_signer;
GRANT INSERT (tenant, name, last_version) ON functions TO mfaas_signer;
GRANT INSERT (tenant, function, version, deployment_id, artifact, statement, source_digest, handler, budget_us, memory_bytes,
    toolchain, abi_version, policy_version, idempotent, isolation, access) ON versions TO mfaas_signer;
GRANT INSERT (tenant, function, alias, version) ON aliases TO mfaas_signer;
GRANT INSERT (digest, bytes, toolchain) ON artifacts TO mfaas_signer;
GRANT INSERT (digest, artifact, envelope) ON statements TO mfaas_signer;
GRANT INSERT (epoch, generation, digest, envelope, issued_at, expires_at) ON serving_sets TO mfaas_signer;
GRANT INSERT (version, envelope) ON key_lists TO mfaas_signer;
GRANT INSERT (tenant, function, version, name, crate_version, checksum) ON version_crates TO mfaas_signer;
