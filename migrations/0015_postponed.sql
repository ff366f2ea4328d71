-- A fault of ours ends nobody's deployment: the build goes back into the queue, with a pause that grows, and costs no attempt.

-- When it may be taken again, how often in a row it was put back, and why, in a line for operators.
ALTER TABLE builds ADD COLUMN not_before timestamptz;
ALTER TABLE builds ADD COLUMN postponed integer NOT NULL DEFAULT 0;
ALTER TABLE builds ADD COLUMN postponed_because text
    CONSTRAINT builds_postponed_because_length CHECK (length(postponed_because) <= 500);
-- The revision of the rules for which the signer wants it built again: once for each.
ALTER TABLE builds ADD COLUMN rebuild_for text
    CONSTRAINT builds_rebuild_for_length CHECK (length(rebuild_for) BETWEEN 1 AND 100);
-- Why an instance takes no builds; NULL while it does.
ALTER TABLE builders ADD COLUMN unwell text CONSTRAINT builders_unwell_length CHECK (length(unwell) <= 500);

-- Builds that wait because of a fault, for operators.
CREATE INDEX builds_postponed ON builds (deployment_id) WHERE finished_at IS NULL AND postponed_because IS NOT NULL;

CREATE OR REPLACE FUNCTION begin_build()
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
    NEW.not_before := NULL;
    NEW.postponed := 0;
    NEW.postponed_because := NULL;
    NEW.rebuild_for := NULL;
    RETURN NEW;
END $$;

-- As before, and: a builder postpones for an hour at most; what server and acquirer put back waits no longer; the signer has
-- what is built built again, and chooses nothing but the revision.
CREATE OR REPLACE FUNCTION check_build_change()
RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public
AS $$
DECLARE
    program   name := program_of(current_user);
    revision  text;
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
    ELSIF program = 'mfaas_signer' AND NEW IS DISTINCT FROM OLD THEN
        revision := NEW.rebuild_for;
        IF revision IS NOT DISTINCT FROM OLD.rebuild_for OR revision IS NULL
            OR NOT EXISTS (SELECT 1 FROM deployments d WHERE d.id = OLD.deployment_id AND d.state = 'built') THEN
            RAISE EXCEPTION 'a signer changes no build'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'builds_not_by_signer';
        END IF;
        NEW := OLD;
        NEW.rebuild_for := revision;
        NEW.attempt := 0;
        NEW.lease_holder := NULL;
        NEW.lease_expires_at := NULL;
        NEW.lease_role := NULL;
        NEW.committed_token := NULL;
        NEW.claim := NULL;
        NEW.finished_at := NULL;
        NEW.not_before := now();
    END IF;
    RETURN NEW;
END $$;

-- As before, and what is built may have to be built again.
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
    NEW.updated_at := now();
    RETURN NEW;
END $$;

-- A builder says why it puts a build back and why it takes none; the signer for which rules it wants one again.
GRANT UPDATE (not_before, postponed, postponed_because) ON builds TO mfaas_builder;
GRANT UPDATE (unwell) ON builders TO mfaas_builder;
GRANT UPDATE (rebuild_for) ON builds TO mfaas_signer;
