-- Join tokens are listed and revoked by an id, and a join whose answer was lost is asked for again.

ALTER TABLE join_tokens
    ADD COLUMN id uuid NOT NULL DEFAULT gen_random_uuid() CONSTRAINT join_tokens_id_unique UNIQUE,
    -- As audit rows name them; empty for a token of the release before.
    ADD COLUMN created_by text NOT NULL DEFAULT '',
    -- Its end is set with it: a server of the release before looks at that alone.
    ADD COLUMN revoked_at timestamptz;

-- By which token a node joined last, and over which key.
ALTER TABLE nodes
    ADD COLUMN joined_by uuid,
    ADD COLUMN key_sha256 text;

GRANT INSERT (created_by) ON join_tokens TO mfaas_server;
GRANT UPDATE (revoked_at, expires_at) ON join_tokens TO mfaas_server;

-- Lets a node join with the token whose secret has that digest, and records its certificate. What it says:
--   joined   it has joined
--   unknown  the token is unknown, used up, over, revoked or for another node
--   taken    a node has the name, and the token is not for it: that uses nothing
-- The same key under the same name, while the token lasts, is the same join: its answer was lost, and it uses nothing either.
CREATE FUNCTION join_node(who text, secret text, key text, certificate text, actor text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
    token join_tokens;
BEGIN
    SELECT * INTO token FROM join_tokens
    WHERE secret_sha256 = secret AND (node IS NULL OR node = who) AND expires_at > now() FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;
    UPDATE nodes
    SET certificate_sha256 = certificate, previous_certificate_sha256 = NULL, renewed_at = NULL, joined_at = now()
    WHERE name = who AND removed_at IS NULL AND joined_by = token.id AND key_sha256 = key;
    IF NOT FOUND THEN
        -- Used without a count: by a server of the release before.
        IF token.uses >= token.uses_max OR (token.used_at IS NOT NULL AND token.uses = 0) THEN
            RETURN 'unknown';
        END IF;
        INSERT INTO nodes AS n (name, certificate_sha256, joined_by, key_sha256)
        VALUES (who, certificate, token.id, key)
        ON CONFLICT ON CONSTRAINT nodes_pkey DO UPDATE
        SET certificate_sha256 = certificate, previous_certificate_sha256 = NULL, renewed_at = NULL, joined_at = now(),
            removed_at = NULL, joined_by = token.id, key_sha256 = key,
            availability = CASE WHEN n.removed_at IS NULL THEN n.availability ELSE 'active' END,
            availability_since = CASE WHEN n.removed_at IS NULL THEN n.availability_since END,
            cordoned = n.cordoned AND n.removed_at IS NULL
        WHERE token.node IS NOT NULL OR n.removed_at IS NOT NULL;
        IF NOT FOUND THEN
            RETURN 'taken';
        END IF;
        UPDATE join_tokens SET used_at = now(), uses = uses + 1 WHERE id = token.id;
    END IF;
    PERFORM append_audit(actor, 'node.joined', '', who,
        jsonb_build_object('certificate', certificate, 'token', token.id));
    RETURN 'joined';
END $$;
REVOKE ALL ON FUNCTION join_node(text, text, text, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION join_node(text, text, text, text, text) TO mfaas_server;
