-- What a program that was taken over can still write: names that the others cannot read, times that it chose, other programs'
-- names, and rows of its neighbours.

-- Names, by the rules of policy/ident, which a test compares. Whoever reads a name that is none stops; the signer reads these
-- for all tenants. Rows of before are not looked at, and the signer
-- passes over them; a deployment on its way under such a name ends here, since nobody could end it later.
CREATE TEMPORARY TABLE unreadable ON COMMIT DROP AS
    SELECT id, CASE state WHEN 'waiting' THEN 'refused' ELSE 'failed' END AS ending FROM deployments
    WHERE state IN ('received', 'building', 'built', 'waiting') AND function !~ '^[a-z][a-z0-9_-]{0,62}$';
UPDATE deployments d SET state = u.ending FROM unreadable u WHERE d.id = u.id;
UPDATE builds b SET finished_at = now() FROM unreadable u WHERE b.deployment_id = u.id AND b.finished_at IS NULL;
SELECT append_event(id, jsonb_build_object('stage', 'claim', 'kind', 'state', 'state', ending)) FROM unreadable;

ALTER TABLE tenants ADD CONSTRAINT tenants_name_known CHECK (name ~ '^[a-z][a-z0-9_-]{0,39}$') NOT VALID;
ALTER TABLE functions ADD CONSTRAINT functions_name_known CHECK (name ~ '^[a-z][a-z0-9_-]{0,62}$') NOT VALID;
ALTER TABLE deployments ADD CONSTRAINT deployments_function_known CHECK (function ~ '^[a-z][a-z0-9_-]{0,62}$') NOT VALID;
ALTER TABLE aliases ADD CONSTRAINT aliases_alias_known CHECK (alias ~ '^[a-z][a-z0-9_-]{0,39}$') NOT VALID;
ALTER TABLE nodes ADD CONSTRAINT nodes_name_known CHECK (name ~ '^[a-z][a-z0-9_-]{0,62}$') NOT VALID;
ALTER TABLE join_tokens ADD CONSTRAINT join_tokens_node_known CHECK (node ~ '^[a-z][a-z0-9_-]{0,62}$') NOT VALID;
ALTER TABLE crates ADD CONSTRAINT crates_name_known CHECK (name ~ '^[A-Za-z][A-Za-z0-9_-]{0,63}$') NOT VALID;
-- Semantic Versioning 2.0.0, with numbers of 19 digits at most.
ALTER TABLE crates ADD CONSTRAINT crates_version_known CHECK (version ~ ('^(0|[1-9][0-9]{0,18})\.(0|[1-9][0-9]{0,18})\.(0|[1-9][0-9]{0,18})'
    || '(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?'
    || '(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$')) NOT VALID;

-- As before, and by program: a role that is a member of one is that one. What ships is decided by whoever owns the tables.
CREATE OR REPLACE FUNCTION check_crate_decision()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public
AS $$
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
END $$;

-- Times by which rows are old are the database's, whatever a program writes; what was revoked stays revoked since then.
CREATE FUNCTION set_time()
RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public
AS $$
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
END $$;
CREATE TRIGGER tokens_time BEFORE UPDATE ON tokens FOR EACH ROW EXECUTE FUNCTION set_time();
CREATE TRIGGER node_reports_time BEFORE INSERT OR UPDATE ON node_reports FOR EACH ROW EXECUTE FUNCTION set_time();

-- As before, and hours of usage.
CREATE OR REPLACE FUNCTION check_old()
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
END $$;
CREATE TRIGGER usage_hours_old BEFORE DELETE ON usage_hours FOR EACH ROW EXECUTE FUNCTION check_old();

-- As before, and each program signs with its own name. The server writes for people and nodes too, whom only it knows.
CREATE OR REPLACE FUNCTION append_audit(actor text, action text, tenant text, subject text, detail jsonb)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public
AS $$
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
END $$;

-- Whether a builder is well is its own to say.
CREATE FUNCTION check_builder_row()
RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public
AS $$
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
END $$;
CREATE TRIGGER builders_role BEFORE INSERT OR UPDATE OR DELETE ON builders FOR EACH ROW EXECUTE FUNCTION check_builder_row();
