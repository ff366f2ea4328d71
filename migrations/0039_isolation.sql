-- Performance isolation: what nodes say of their machines' controllers, and what the site wants of all of them.

-- What a node said last.
ALTER TABLE node_reports
    ADD COLUMN isolation    jsonb,
    ADD COLUMN isolation_at timestamptz;
GRANT UPDATE (isolation, isolation_at) ON node_reports TO mfaas_server;

-- The last hour of each node, ten seconds a slot. A report takes the place of the one an hour before it, so no node has more rows
-- than there are slots, however often it reports.
CREATE TABLE isolation_samples (
    node text        NOT NULL,
    slot integer     NOT NULL,
    at   timestamptz NOT NULL DEFAULT now(),
    body jsonb       NOT NULL,
    CONSTRAINT isolation_samples_pkey PRIMARY KEY (node, slot),
    CONSTRAINT isolation_samples_node_fkey FOREIGN KEY (node) REFERENCES nodes (name),
    CONSTRAINT isolation_samples_slot_known CHECK (slot BETWEEN 0 AND 359)
) WITH (fillfactor = 80);
GRANT SELECT, INSERT (node, slot, body), UPDATE (at, body) ON isolation_samples TO mfaas_server;

-- What the site wants. A revision is the second of the change, or one more than the last: a database that was restored from a
-- backup gives none anew that a machine has put into force before.
CREATE TABLE site_isolation (
    only_row boolean     NOT NULL DEFAULT true,
    revision bigint      NOT NULL DEFAULT extract(epoch FROM now())::bigint,
    body     jsonb       NOT NULL,
    set_by   text        NOT NULL,
    set_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT site_isolation_pkey PRIMARY KEY (only_row),
    CONSTRAINT site_isolation_one_row CHECK (only_row),
    CONSTRAINT site_isolation_revision_positive CHECK (revision > 0)
);
GRANT SELECT, INSERT (body, set_by), UPDATE (revision, body, set_by, set_at) ON site_isolation TO mfaas_server;
