-- Builders take builds by tenants' turns: whoever has the fewest running comes first, then whoever had the last turn
-- longest ago. The tenant stands beside the build, so that a turn is a few looks into indexes, however long the queue is.

ALTER TABLE builds ADD COLUMN tenant text;
UPDATE builds b SET tenant = d.tenant FROM deployments d WHERE d.id = b.deployment_id;

-- Always the deployment's, whatever a row says: the release before does not name it.
CREATE FUNCTION builds_of_their_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT d.tenant INTO NEW.tenant FROM deployments d WHERE d.id = NEW.deployment_id;
    RETURN NEW;
END $$;
CREATE TRIGGER builds_tenant BEFORE INSERT ON builds FOR EACH ROW EXECUTE FUNCTION builds_of_their_tenant();

ALTER TABLE builds ALTER COLUMN tenant SET NOT NULL;

-- Each tenant's oldest, and which tenants have any.
CREATE INDEX builds_by_tenant ON builds (tenant, queued_at, deployment_id) WHERE finished_at IS NULL;
-- How many a tenant has running.
CREATE INDEX builds_leased ON builds (tenant) WHERE finished_at IS NULL AND lease_expires_at IS NOT NULL;
-- When a tenant had its last turn.
CREATE INDEX builds_turns ON builds (tenant, started_at);
