-- The rules that hold whoever writes: the audit chain, the event stream, the state machine.

-- Appends one audit row. Runs with the owner's rights, so that no role needs (or has) rights on
-- the table; `session_user` is who really asked. The lock on audit_head orders the chain.
CREATE FUNCTION append_audit(actor text, action text, tenant text, subject text, detail jsonb)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public
AS $$
DECLARE
    head    audit_head%ROWTYPE;
    moment  timestamptz := date_trunc('microseconds', clock_timestamp());
    number  bigint;
    link    text;
BEGIN
    SELECT * INTO head FROM audit_head FOR UPDATE;
    number := head.seq + 1;
    link := audit_hash(head.hash, number, moment, session_user::text, actor, action, tenant, subject, detail);
    INSERT INTO audit_log VALUES (number, moment, session_user, actor, action, tenant, subject, detail, link);
    UPDATE audit_head SET seq = number, hash = link;
    RETURN number;
END $$;

-- SHA-256 over the previous hash and every field, each with its length in bytes before it, so
-- that no two different rows have the same input.
CREATE FUNCTION audit_hash(
    previous text, seq bigint, at timestamptz, role text, actor text, action text, tenant text,
    subject text, detail jsonb
) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, public
AS $$
    SELECT encode(sha256(convert_to(string_agg(octet_length(convert_to(field, 'UTF8')) || ':' || field, '' ORDER BY position), 'UTF8')), 'hex')
    FROM unnest(ARRAY[
        previous, seq::text, (extract(epoch FROM at) * 1000000)::bigint::text, role, actor, action, tenant,
        subject, detail::text
    ]) WITH ORDINALITY AS fields (field, position)
$$;

-- Appends one event to a deployment's stream and wakes whoever watches it.
CREATE FUNCTION append_event(deployment uuid, body jsonb)
RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, public
AS $$
DECLARE number bigint;
BEGIN
    UPDATE deployments SET last_event = last_event + 1 WHERE id = deployment RETURNING last_event INTO number;
    INSERT INTO deployment_events (deployment_id, seq, body) VALUES (deployment, number, body);
    PERFORM pg_notify('mfaas_events', deployment::text);
    RETURN number;
END $$;

-- Says that nodes should serve something else than before, and wakes the signer.
CREATE FUNCTION bump_desired_generation()
RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, public
AS $$
DECLARE number bigint;
BEGIN
    UPDATE desired_generation SET generation = generation + 1 RETURNING generation INTO number;
    PERFORM pg_notify('mfaas_signer', 'generation');
    RETURN number;
END $$;

-- The state machine of a deployment. A final state never changes, and a builder can neither
-- admit anything nor touch what is no longer its own.
CREATE FUNCTION check_deployment_transition()
RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public
AS $$
BEGIN
    IF NEW.state IS DISTINCT FROM OLD.state AND NOT (OLD.state, NEW.state) IN (
        ('received', 'building'), ('received', 'failed'),
        ('building', 'received'), ('building', 'built'), ('building', 'refused'), ('building', 'waiting'),
        ('building', 'failed'),
        ('built', 'admitted'), ('built', 'refused'), ('built', 'failed'),
        ('waiting', 'received'), ('waiting', 'refused')
    ) THEN
        RAISE EXCEPTION 'a deployment cannot go from % to %', OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deployments_state_transition';
    END IF;
    IF current_user = 'mfaas_builder' AND NEW.state IS DISTINCT FROM OLD.state
        AND (NEW.state = 'admitted' OR OLD.state NOT IN ('received', 'building')) THEN
        RAISE EXCEPTION 'a builder may not do this'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deployments_state_of_builder';
    END IF;
    NEW.updated_at := now();
    RETURN NEW;
END $$;

CREATE TRIGGER deployments_transition BEFORE UPDATE ON deployments
    FOR EACH ROW EXECUTE FUNCTION check_deployment_transition();

CREATE FUNCTION bump_policy_version()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public
AS $$
BEGIN
    UPDATE policy_state SET version = version + 1;
    RETURN NULL;
END $$;

CREATE TRIGGER crates_policy_version AFTER INSERT OR UPDATE OR DELETE ON crates
    FOR EACH STATEMENT EXECUTE FUNCTION bump_policy_version();

-- The version of the allowlist, held until the caller's transaction ends: no decision can change
-- between the signer's look at the allowlist and its signature.
CREATE FUNCTION hold_policy_version()
RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public
AS $$ SELECT version FROM policy_state FOR SHARE $$;

REVOKE ALL ON FUNCTION hold_policy_version() FROM PUBLIC;
REVOKE ALL ON FUNCTION append_audit(text, text, text, text, jsonb) FROM PUBLIC;
