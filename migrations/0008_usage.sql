-- What calls cost, which versions are banned from every node, and which nodes take no new versions or calls.

-- What an operator wants of a node. `cordoned` stays beside it for programs of the release before, and follows it.
ALTER TABLE nodes ADD COLUMN availability text NOT NULL DEFAULT 'active'
    CONSTRAINT nodes_availability_known CHECK (availability IN ('active', 'cordoned', 'draining'));
ALTER TABLE nodes ADD COLUMN availability_since timestamptz;
GRANT UPDATE (availability, availability_since) ON nodes TO mfaas_server;

-- A version that crashed its worker too often on some node. It is banned on all of them until somebody lifts it;
-- the row stays.
CREATE TABLE bans (
    id         bigint      GENERATED ALWAYS AS IDENTITY CONSTRAINT bans_pkey PRIMARY KEY,
    -- Made by the node, so that a ban that it tells twice is one ban, also after it was lifted.
    told       uuid        NOT NULL CONSTRAINT bans_told_once UNIQUE,
    tenant     text        NOT NULL,
    function   text        NOT NULL,
    version    integer     NOT NULL,
    artifact   text        NOT NULL,
    node       text        NOT NULL CONSTRAINT bans_node_fkey REFERENCES nodes (name),
    crashes    integer     NOT NULL CONSTRAINT bans_crashes_positive CHECK (crashes > 0),
    since      timestamptz NOT NULL DEFAULT now(),
    lifted_at  timestamptz,
    lifted_by  text,
    CONSTRAINT bans_version_fkey FOREIGN KEY (tenant, function, version)
        REFERENCES versions (tenant, function, version),
    CONSTRAINT bans_lifted_by_somebody CHECK ((lifted_at IS NULL) = (lifted_by IS NULL))
);
CREATE UNIQUE INDEX bans_one_in_force ON bans (tenant, function, artifact) WHERE lifted_at IS NULL;
GRANT SELECT, INSERT ON bans TO mfaas_server;
GRANT UPDATE (lifted_at, lifted_by) ON bans TO mfaas_server;

-- The starts of each node. Only the last one may still report, and its reports count upwards.
CREATE TABLE usage_boots (
    node      text        NOT NULL CONSTRAINT usage_boots_node_fkey REFERENCES nodes (name),
    boot      uuid        NOT NULL,
    sequence  bigint      NOT NULL,
    first_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended     boolean     NOT NULL DEFAULT false,
    CONSTRAINT usage_boots_pkey PRIMARY KEY (node, boot)
);

-- What the present start of each node has told so far, a total for each version. No number here ever falls.
CREATE TABLE usage_totals (
    node        text    NOT NULL,
    boot        uuid    NOT NULL,
    tenant      text    NOT NULL,
    function    text    NOT NULL,
    version     integer NOT NULL,
    calls       bigint  NOT NULL,
    cpu_ns      bigint  NOT NULL,
    run_ns      bigint  NOT NULL,
    queue_ns    bigint  NOT NULL,
    -- Calls that did not end well, in the order of the reasons.
    kills       bigint[] NOT NULL,
    CONSTRAINT usage_totals_pkey PRIMARY KEY (node, boot, tenant, function, version),
    CONSTRAINT usage_totals_boot_fkey FOREIGN KEY (node, boot) REFERENCES usage_boots (node, boot)
        ON DELETE CASCADE
);

-- What was used in which hour, by the database's clock: the hour in which the server was told.
CREATE TABLE usage_hours (
    hour              timestamptz NOT NULL
        CONSTRAINT usage_hours_whole CHECK (hour = date_trunc('hour', hour, 'UTC')),
    tenant            text        NOT NULL,
    function          text        NOT NULL,
    version           integer     NOT NULL,
    calls             bigint      NOT NULL,
    cpu_ns            bigint      NOT NULL,
    run_ns            bigint      NOT NULL,
    run_ns_max        bigint      NOT NULL,
    queue_ns          bigint      NOT NULL,
    memory_bytes_max  bigint      NOT NULL,
    CONSTRAINT usage_hours_pkey PRIMARY KEY (hour, tenant, function, version),
    CONSTRAINT usage_hours_version_fkey FOREIGN KEY (tenant, function, version)
        REFERENCES versions (tenant, function, version),
    CONSTRAINT usage_hours_not_negative
        CHECK (least(calls, cpu_ns, run_ns, run_ns_max, queue_ns, memory_bytes_max) >= 0)
);
CREATE INDEX usage_hours_by_function ON usage_hours (tenant, function, hour);

-- Calls of such an hour that did not end well, by reason.
CREATE TABLE usage_kills (
    hour      timestamptz NOT NULL,
    tenant    text        NOT NULL,
    function  text        NOT NULL,
    version   integer     NOT NULL,
    reason    text        NOT NULL
        CONSTRAINT usage_kills_reason_known CHECK (reason IN ('panicked', 'over_budget', 'stack_overflow',
            'out_of_memory', 'denied', 'fault', 'aborted', 'bad_output', 'lost', 'overdue')),
    kills     bigint      NOT NULL CONSTRAINT usage_kills_positive CHECK (kills > 0),
    CONSTRAINT usage_kills_pkey PRIMARY KEY (hour, tenant, function, version, reason),
    CONSTRAINT usage_kills_hour_fkey FOREIGN KEY (hour, tenant, function, version)
        REFERENCES usage_hours (hour, tenant, function, version) ON DELETE CASCADE
);

GRANT SELECT, INSERT ON usage_boots, usage_totals, usage_hours, usage_kills TO mfaas_server;
GRANT UPDATE (sequence, last_at, ended), DELETE ON usage_boots TO mfaas_server;
GRANT UPDATE (calls, cpu_ns, run_ns, queue_ns, kills), DELETE ON usage_totals TO mfaas_server;
GRANT UPDATE (calls, cpu_ns, run_ns, run_ns_max, queue_ns, memory_bytes_max), DELETE ON usage_hours TO mfaas_server;
GRANT UPDATE (kills) ON usage_kills TO mfaas_server;

-- Wakes the servers that hold nodes' questions for their orders.
CREATE FUNCTION tell_orders()
RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public
AS $$
BEGIN
    PERFORM pg_notify('mfaas_orders', '');
    RETURN NULL;
END $$;

CREATE TRIGGER bans_orders AFTER INSERT OR UPDATE ON bans FOR EACH STATEMENT EXECUTE FUNCTION tell_orders();
CREATE TRIGGER nodes_orders AFTER UPDATE OF availability ON nodes
    FOR EACH STATEMENT EXECUTE FUNCTION tell_orders();
