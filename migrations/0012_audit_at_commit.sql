-- The audit chain grows when a transaction commits, not in the middle of it: its head is the one row that every transaction wants,
-- so it has to be the last lock of each, whatever the program does in which order. A row that is written stands in
-- `audit_pending` until then, and nobody ever sees it there.

CREATE TABLE audit_pending (
    id       bigint  GENERATED ALWAYS AS IDENTITY CONSTRAINT audit_pending_pkey PRIMARY KEY,
    role     text    NOT NULL,
    actor    text    NOT NULL,
    action   text    NOT NULL,
    tenant   text    NOT NULL,
    subject  text    NOT NULL,
    detail   jsonb   NOT NULL
);

-- As before it runs with the owner's rights and nobody else has any on the tables. What it returns means nothing.
CREATE OR REPLACE FUNCTION append_audit(actor text, action text, tenant text, subject text, detail jsonb)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public
AS $$
BEGIN
    INSERT INTO audit_pending (role, actor, action, tenant, subject, detail)
    VALUES (session_user, actor, action, tenant, subject, detail);
    RETURN 0;
END $$;

CREATE FUNCTION chain_audit()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public
AS $$
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
END $$;
REVOKE ALL ON FUNCTION chain_audit() FROM PUBLIC;

CREATE CONSTRAINT TRIGGER audit_pending_chain AFTER INSERT ON audit_pending
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION chain_audit();
