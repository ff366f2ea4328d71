-- Resources that do not lie here but in a Redis server, which has a number that no other one has; what their operators call it is for
-- messages. A resource without a row lies here.
CREATE TABLE homes (
    resource   text        PRIMARY KEY,
    server     uuid        NOT NULL,
    name       text        NOT NULL,
    claimed_at timestamptz NOT NULL DEFAULT now()
);

-- To be called in a serializable transaction of its own. Null: the resource lies there; no text: it has entries here; else what the
-- server was called where it lies.
CREATE FUNCTION claim_home(a_resource text, a_server uuid, a_name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    known homes%ROWTYPE;
BEGIN
    IF current_setting('transaction_isolation') <> 'serializable' THEN
        RAISE EXCEPTION 'a claim outside of a serializable transaction' USING ERRCODE = '25001';
    END IF;
    SELECT * INTO known FROM homes WHERE resource = a_resource;
    IF FOUND AND known.server <> a_server THEN
        RETURN known.name;
    END IF;
    IF EXISTS (SELECT FROM entries WHERE resource = a_resource) THEN
        RETURN '';
    END IF;
    INSERT INTO homes (resource, server, name) VALUES (a_resource, a_server, a_name) ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;

-- Nothing is written here of what lies elsewhere, also by a broker that was not told of that. Both transactions are serializable: of an
-- entry and a claim that do not see each other one is ended.
CREATE FUNCTION look_for_homes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM mfaas_data.homes h JOIN added a ON a.resource = h.resource) THEN
        RAISE EXCEPTION 'a resource that lies in another store' USING ERRCODE = 'MF002';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER entries_elsewhere AFTER INSERT ON entries
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION look_for_homes();

-- True. Ends the statement if one of these resources lies in another store: what a call has seen of it here is no more than that nothing
-- is here.
CREATE FUNCTION lie_here(resources text[]) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM mfaas_data.homes h WHERE h.resource = ANY (resources)) THEN
        RAISE EXCEPTION 'a resource that lies in another store' USING ERRCODE = 'MF002';
    END IF;
    RETURN true;
END
$$;

-- Calls whose audit records have come here from other stores: those of a call come together, and once. As old as its records get.
CREATE TABLE moved_calls (
    call     uuid        PRIMARY KEY,
    moved_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX moved_calls_by_time ON moved_calls (moved_at);
