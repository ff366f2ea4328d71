-- When fewer builders have to agree than before, the signer takes up by itself what enough of them have given a claim about.

-- What waits for another builder: the signer looks through it.
CREATE INDEX builds_asked_again ON builds (queued_at, deployment_id) WHERE finished_at IS NULL AND rounds > 0;

-- As before, and: the signer ends an open build with the newest claim that was kept about it.
CREATE OR REPLACE FUNCTION check_build_change()
RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public
AS $$
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
END $$;

-- As before, and: the signer, and nobody else, moves what has a claim again from `received` to `built`.
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
END $$;
