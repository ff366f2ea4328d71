-- A catalog with a million versions: nothing that a program asks by itself, or for a page, reads a growing table from end to
-- end, and what ended long ago is forgotten, by the server, a few rows at a time.

-- How many deployments are on their way, and how many ended lately; and which of those have still to be forgotten.
CREATE INDEX deployments_open ON deployments (state) WHERE state IN ('received', 'building', 'built', 'waiting');
ALTER TABLE deployments ADD COLUMN forgotten_at timestamptz;
CREATE INDEX deployments_ended ON deployments (updated_at, state)
    WHERE state IN ('admitted', 'refused', 'failed') AND forgotten_at IS NULL;

-- Lists and their order.
CREATE INDEX tokens_by_time ON tokens (created_at DESC, id);
CREATE INDEX tokens_by_tenant ON tokens (tenant, created_at DESC, id);
CREATE INDEX functions_live ON functions (tenant, name) WHERE deleted_at IS NULL;
CREATE INDEX reviews_by_state ON reviews (state, id);
CREATE INDEX reviews_closed ON reviews (state, closed_at DESC, id DESC);
CREATE INDEX bans_in_force ON bans (id) WHERE lifted_at IS NULL;
CREATE INDEX crate_requests_unanswered ON crate_requests (id) WHERE status IN ('open', 'reviewing', 'building');
CREATE INDEX request_members_by_crate ON request_members (name, version);
CREATE INDEX usage_hours_by_tenant ON usage_hours (tenant, hour);
CREATE INDEX usage_kills_by_tenant ON usage_kills (tenant, hour);
-- One artifact can belong to every tenant that uploads the same source.
CREATE INDEX versions_by_artifact_of_tenant ON versions (artifact, tenant);
DROP INDEX versions_by_artifact;

-- Which rows refer to a blob.
CREATE INDEX deployments_by_source ON deployments (source_digest);
CREATE INDEX crate_files_by_blob ON crate_files (blob);
CREATE INDEX index_entries_by_archive ON index_entries (archive);

-- What ended first is forgotten first.
CREATE INDEX tokens_by_end ON tokens (least(revoked_at, expires_at)) WHERE least(revoked_at, expires_at) IS NOT NULL;
CREATE INDEX votes_by_token ON votes (token_id);
CREATE INDEX join_tokens_by_end ON join_tokens (expires_at);
CREATE INDEX function_logs_by_time ON function_logs (at);
CREATE INDEX revocations_by_time ON revocations (revoked_at);

-- As before, and: what ended a day ago or earlier can be marked as forgotten, once, which is no news about it.
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
END $$;

-- What a program may delete is old and refers to nothing that still counts: a server that was taken over cannot hide what it did
-- today, and cannot bring a revoked artifact back.
CREATE FUNCTION check_old()
RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public
AS $$
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
END $$;
CREATE TRIGGER deployment_events_old BEFORE DELETE ON deployment_events FOR EACH ROW EXECUTE FUNCTION check_old();
CREATE TRIGGER tokens_old BEFORE DELETE ON tokens FOR EACH ROW EXECUTE FUNCTION check_old();
CREATE TRIGGER join_tokens_old BEFORE DELETE ON join_tokens FOR EACH ROW EXECUTE FUNCTION check_old();
CREATE TRIGGER node_reports_old BEFORE DELETE ON node_reports FOR EACH ROW EXECUTE FUNCTION check_old();
CREATE TRIGGER builders_old BEFORE DELETE ON builders FOR EACH ROW EXECUTE FUNCTION check_old();
CREATE TRIGGER revocations_old BEFORE DELETE ON revocations FOR EACH ROW EXECUTE FUNCTION check_old();

GRANT UPDATE (forgotten_at) ON deployments TO mfaas_server;
GRANT DELETE ON deployment_events, tokens, join_tokens, node_reports, builders, revocations TO mfaas_server;
