-- Events: changes of objects below a prefix that a function is to be called for. Each is written by the statement that changes the
-- object's entry, so there is none without a change, and no change without its events.

-- What is watched. The servers of the site write these rows, of what its tenants have set and may read.
CREATE TABLE triggers (
    id           uuid        PRIMARY KEY,
    tenant       text        NOT NULL,
    function     text        NOT NULL,
    resource     text        NOT NULL,
    prefix       bytea       NOT NULL,
    on_put       boolean     NOT NULL,
    on_delete    boolean     NOT NULL,
    -- Whether changes are events; where not, no event waits.
    enabled      boolean     NOT NULL DEFAULT true,
    -- Not called before then: how many calls a second there may be. One that was never called may be at once.
    next_call_at timestamptz NOT NULL DEFAULT '-infinity',
    -- Events that the function has answered, that it was called for in vain, and that were given up without a further call.
    delivered    bigint      NOT NULL DEFAULT 0,
    failed       bigint      NOT NULL DEFAULT 0,
    dropped      bigint      NOT NULL DEFAULT 0,
    -- The last call that ended.
    ended_at     timestamptz,
    outcome      text,
    status       integer,
    code         text
);
CREATE INDEX triggers_by_resource ON triggers (resource);
CREATE INDEX triggers_by_call ON triggers (next_call_at);

-- Those that wait. Rows that commits add and nobody looks up there, so that commits do not meet. Of one name later ones have larger
-- numbers: whoever changes the same entry waits for the change before.
CREATE TABLE events (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    trigger    uuid        NOT NULL,
    name       bytea       NOT NULL,
    event      text        NOT NULL CHECK (event IN ('put', 'delete')),
    -- Of the object that was put.
    bytes      bigint,
    changed_at timestamptz NOT NULL DEFAULT now(),
    -- Calls that were begun, and from when on there may be one more: while one runs, when it counts as lost.
    tries      integer     NOT NULL DEFAULT 0,
    due_at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX events_by_trigger ON events (trigger, id);
CREATE INDEX events_by_due ON events (trigger, due_at);

-- Where changes of an object are events. What the function itself changes is none for it: the commit says whose call it is.
CREATE FUNCTION watchers(a_resource text, a_key bytea) RETURNS SETOF triggers LANGUAGE sql STABLE AS $$
    SELECT t.* FROM mfaas_data.triggers t
    WHERE t.resource = a_resource AND t.enabled AND substring(a_key FROM 1 FOR octet_length(t.prefix)) = t.prefix
        AND t.tenant || '/' || t.function IS DISTINCT FROM current_setting('mfaas_data.caller', true)
$$;

-- As before, and with events. Statements that change no object look nothing up.
CREATE OR REPLACE FUNCTION note_blobs() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    named uuid[];
    found bigint;
BEGIN
    IF TG_OP = 'INSERT' THEN
        named := ARRAY(SELECT blob FROM added WHERE blob IS NOT NULL);
        IF cardinality(named) > 0 THEN
            PERFORM mfaas_data.name_blobs(named);
            INSERT INTO mfaas_data.events (trigger, name, event, bytes)
            SELECT t.id, a.key, 'put', a.blob_bytes FROM added a, mfaas_data.watchers(a.resource, a.key) t
            WHERE a.blob IS NOT NULL AND t.on_put;
        END IF;
    ELSIF TG_OP = 'UPDATE' THEN
        named := ARRAY(SELECT blob FROM added WHERE blob IS NOT NULL EXCEPT SELECT blob FROM removed);
        IF cardinality(named) > 0 THEN
            PERFORM mfaas_data.name_blobs(named);
            INSERT INTO mfaas_data.events (trigger, name, event, bytes)
            SELECT t.id, a.key, 'put', a.blob_bytes FROM added a, mfaas_data.watchers(a.resource, a.key) t
            WHERE a.blob = ANY (named) AND t.on_put;
        END IF;
        INSERT INTO mfaas_data.freed_blobs (id, resource, bytes)
        SELECT blob, resource, blob_bytes FROM removed
        WHERE blob IS NOT NULL AND NOT EXISTS (SELECT FROM added WHERE added.blob = removed.blob);
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO mfaas_data.freed_blobs (id, resource, bytes)
        SELECT blob, resource, blob_bytes FROM removed WHERE blob IS NOT NULL;
        GET DIAGNOSTICS found = ROW_COUNT;
        IF found > 0 THEN
            INSERT INTO mfaas_data.events (trigger, name, event)
            SELECT t.id, r.key, 'delete' FROM removed r, mfaas_data.watchers(r.resource, r.key) t
            WHERE r.blob IS NOT NULL AND t.on_delete;
        END IF;
    ELSE
        INSERT INTO mfaas_data.freed_blobs (id, resource, bytes)
        SELECT blob, resource, blob_bytes FROM mfaas_data.entries WHERE blob IS NOT NULL;
    END IF;
    RETURN NULL;
END
$$;
