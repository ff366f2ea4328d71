-- Calls that the site makes by itself, for changes of objects that a tenant names. Which changes there were is in the database of
-- functions' data, and what came of them.
CREATE TABLE triggers (
    tenant    text        NOT NULL,
    function  text        NOT NULL,
    name      text        NOT NULL,
    -- Under which the events are: another one as soon as it says something else.
    id        uuid        NOT NULL,
    resource  text        NOT NULL,
    -- What the names of the objects begin with.
    prefix    text        NOT NULL,
    on_put    boolean     NOT NULL,
    on_delete boolean     NOT NULL,
    set_at    timestamptz NOT NULL DEFAULT now(),
    set_by    text        NOT NULL,
    CONSTRAINT triggers_pkey PRIMARY KEY (tenant, function, name),
    CONSTRAINT triggers_id_unique UNIQUE (id),
    CONSTRAINT triggers_function_fkey FOREIGN KEY (tenant, function) REFERENCES functions (tenant, name),
    CONSTRAINT triggers_resource_fkey FOREIGN KEY (resource) REFERENCES resources (name),
    CONSTRAINT triggers_name_valid CHECK (name ~ '^[a-z][a-z0-9_-]{0,39}$'),
    CONSTRAINT triggers_prefix_bounded CHECK (octet_length(prefix) <= 512),
    CONSTRAINT triggers_changes_named CHECK (on_put OR on_delete)
);
GRANT SELECT, DELETE, INSERT (tenant, function, name, id, resource, prefix, on_put, on_delete, set_by),
    UPDATE (id, resource, prefix, on_put, on_delete, set_at, set_by)
    ON triggers TO mfaas_server;
