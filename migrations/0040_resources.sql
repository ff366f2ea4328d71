-- Data of functions: the resources of a site, which of them a tenant may bind, and which versions bind what.

-- Made by operators. A name is never used for something else: what lies under it stays in the database of functions' data.
CREATE TABLE resources (
    name       text        NOT NULL,
    kind       text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    created_by text        NOT NULL,
    CONSTRAINT resources_pkey PRIMARY KEY (name),
    CONSTRAINT resources_name_valid CHECK (name ~ '^[a-z][a-z0-9_-]{0,62}$'),
    CONSTRAINT resources_kind_known CHECK (kind IN ('kv'))
);
GRANT SELECT, INSERT (name, kind, created_by) ON resources TO mfaas_server;
GRANT SELECT ON resources TO mfaas_signer;

-- Which tenant may bind a resource, and what its functions may do with it.
CREATE TABLE resource_grants (
    resource   text        NOT NULL,
    tenant     text        NOT NULL,
    access     text        NOT NULL,
    granted_at timestamptz NOT NULL DEFAULT now(),
    granted_by text        NOT NULL,
    CONSTRAINT resource_grants_pkey PRIMARY KEY (resource, tenant),
    CONSTRAINT resource_grants_resource_fkey FOREIGN KEY (resource) REFERENCES resources (name),
    CONSTRAINT resource_grants_tenant_fkey FOREIGN KEY (tenant) REFERENCES tenants (name),
    CONSTRAINT resource_grants_access_known CHECK (access IN ('read', 'write'))
);
CREATE INDEX resource_grants_by_tenant ON resource_grants (tenant);
GRANT SELECT, DELETE, INSERT (resource, tenant, access, granted_by), UPDATE (access, granted_at, granted_by)
    ON resource_grants TO mfaas_server;
GRANT SELECT ON resource_grants TO mfaas_signer;

-- What versions bind, as their statements say.
CREATE TABLE version_bindings (
    tenant   text    NOT NULL,
    function text    NOT NULL,
    version  integer NOT NULL,
    name     text    NOT NULL,
    kind     text    NOT NULL,
    resource text    NOT NULL,
    access   text    NOT NULL,
    CONSTRAINT version_bindings_pkey PRIMARY KEY (tenant, function, version, name),
    CONSTRAINT version_bindings_version_fkey FOREIGN KEY (tenant, function, version)
        REFERENCES versions (tenant, function, version),
    CONSTRAINT version_bindings_resource_fkey FOREIGN KEY (resource) REFERENCES resources (name),
    CONSTRAINT version_bindings_kind_known CHECK (kind IN ('kv')),
    CONSTRAINT version_bindings_access_known CHECK (access IN ('read', 'write'))
);
CREATE INDEX version_bindings_by_resource ON version_bindings (resource, tenant);
GRANT SELECT ON version_bindings TO mfaas_server;
GRANT SELECT, INSERT (tenant, function, version, name, kind, resource, access) ON version_bindings TO mfaas_signer;

-- Nodes hear of what a tenant may do with a resource by the functions that bind it.
CREATE FUNCTION note_granted_functions()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public
AS $$
DECLARE
    changed record;
BEGIN
    IF TG_OP = 'DELETE' THEN changed := OLD; ELSE changed := NEW; END IF;
    -- First: an admission that binds the resource has ended before this goes on, and is seen, or waits and sees what this did.
    PERFORM public.bump_desired_generation();
    INSERT INTO changed_functions (tenant, name)
    SELECT DISTINCT b.tenant, b.function FROM version_bindings b
    WHERE b.resource = changed.resource AND b.tenant = changed.tenant;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION note_granted_functions() FROM PUBLIC;
CREATE TRIGGER resource_grants_changed AFTER INSERT OR DELETE OR UPDATE OF access ON resource_grants
    FOR EACH ROW EXECUTE FUNCTION note_granted_functions();
