-- The functions of a serving set lie in shards, a tree of documents by digest of which a set signs the root alone. The signer
-- changes it where functions have changed, so what a deploy costs it does not grow with the site.

-- The documents of the tree. The newest set's are all here; what it no longer leads to stays for a while, since a node may be
-- halfway through it.
CREATE TABLE shards (
    digest       text        NOT NULL CONSTRAINT shards_pkey PRIMARY KEY,
    body         text        NOT NULL,
    unused_since timestamptz
);
CREATE INDEX shards_unused ON shards (unused_since) WHERE unused_since IS NOT NULL;
-- The signer alone writes. A row is named by what is in it; it changes only where it was damaged.
GRANT SELECT, DELETE ON shards TO mfaas_signer;
GRANT INSERT (digest, body, unused_since) ON shards TO mfaas_signer;
GRANT UPDATE (body, unused_since) ON shards TO mfaas_signer;
GRANT SELECT ON shards TO mfaas_server;

-- Which tree a set leads to; nothing in sets of the release before.
ALTER TABLE serving_sets ADD COLUMN shard text, ADD COLUMN functions integer;
GRANT INSERT (shard, functions) ON serving_sets TO mfaas_signer;

-- Functions of which something changed that nodes must know, until a set says it. Rows are made by triggers alone: no program can
-- leave a change out, or invent one that matters.
CREATE TABLE changed_functions (
    id     bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT changed_functions_pkey PRIMARY KEY,
    tenant text   NOT NULL,
    name   text   NOT NULL
);
CREATE INDEX changed_functions_by_name ON changed_functions (tenant, name);
GRANT SELECT, DELETE ON changed_functions TO mfaas_signer;
-- To tell whether nodes can know what the catalog says.
GRANT SELECT ON changed_functions TO mfaas_server;

-- The first set that says what the function is now.
ALTER TABLE functions ADD COLUMN set_epoch bigint NOT NULL DEFAULT 0;
GRANT UPDATE (set_epoch) ON functions TO mfaas_signer;

CREATE FUNCTION note_changed_function()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public
AS $$
DECLARE
    changed record;
BEGIN
    IF TG_OP = 'DELETE' THEN changed := OLD; ELSE changed := NEW; END IF;
    IF TG_TABLE_NAME = 'functions' THEN
        INSERT INTO changed_functions (tenant, name) VALUES (changed.tenant, changed.name);
    ELSE
        INSERT INTO changed_functions (tenant, name) VALUES (changed.tenant, changed.function);
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION note_changed_function() FROM PUBLIC;
CREATE TRIGGER functions_changed AFTER INSERT OR DELETE OR UPDATE OF deleted_at ON functions
    FOR EACH ROW EXECUTE FUNCTION note_changed_function();
CREATE TRIGGER versions_changed AFTER INSERT OR DELETE OR UPDATE OF statement, retired_at ON versions
    FOR EACH ROW EXECUTE FUNCTION note_changed_function();
CREATE TRIGGER aliases_changed AFTER INSERT OR DELETE OR UPDATE OF version ON aliases
    FOR EACH ROW EXECUTE FUNCTION note_changed_function();

-- An artifact can belong to versions of many functions.
CREATE FUNCTION note_revoked_functions()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public
AS $$
DECLARE
    changed text;
BEGIN
    IF TG_OP = 'DELETE' THEN changed := OLD.artifact; ELSE changed := NEW.artifact; END IF;
    INSERT INTO changed_functions (tenant, name)
    SELECT DISTINCT v.tenant, v.function FROM versions v WHERE v.artifact = changed;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION note_revoked_functions() FROM PUBLIC;
CREATE TRIGGER revocations_changed AFTER INSERT OR DELETE ON revocations
    FOR EACH ROW EXECUTE FUNCTION note_revoked_functions();

-- And a toolchain to most of all; it is rare that one is accepted or no longer is.
CREATE FUNCTION note_toolchain_functions()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public
AS $$
BEGIN
    IF TG_OP = 'INSERT' OR OLD.accepted IS DISTINCT FROM NEW.accepted THEN
        INSERT INTO changed_functions (tenant, name)
        SELECT DISTINCT v.tenant, v.function FROM versions v WHERE v.toolchain = NEW.id;
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION note_toolchain_functions() FROM PUBLIC;
CREATE TRIGGER toolchains_changed AFTER INSERT OR UPDATE OF accepted ON toolchains
    FOR EACH ROW EXECUTE FUNCTION note_toolchain_functions();
