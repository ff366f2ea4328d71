-- Call tokens can be revoked before they end: what was issued is on record, and what was revoked goes into the next serving set.

-- Call tokens that were issued, without their text.
CREATE TABLE call_tokens (
    id         uuid        NOT NULL CONSTRAINT call_tokens_pkey PRIMARY KEY,
    tenant     text        NOT NULL CONSTRAINT call_tokens_tenant_fkey REFERENCES tenants (name),
    caller     text        NOT NULL,
    functions  text[]      NOT NULL,
    issued_at  timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    key        text        NOT NULL,
    issued_by  text        NOT NULL,
    CONSTRAINT call_tokens_life CHECK (expires_at > issued_at AND expires_at <= issued_at + interval '24 hours'),
    CONSTRAINT call_tokens_caller_length CHECK (length(caller) BETWEEN 1 AND 200)
);
CREATE INDEX call_tokens_by_tenant ON call_tokens (tenant, expires_at);
CREATE INDEX call_tokens_by_caller ON call_tokens (tenant, caller, issued_at);
CREATE INDEX call_tokens_by_end_of_caller ON call_tokens (tenant, caller, expires_at);
CREATE INDEX call_tokens_by_end ON call_tokens (expires_at);

-- What a server of the release before has issued can be revoked, too.
INSERT INTO call_tokens (id, tenant, caller, functions, issued_at, expires_at, key, issued_by)
SELECT subject::uuid, tenant, detail ->> 'caller', ARRAY(SELECT jsonb_array_elements_text(detail -> 'functions')),
       at, (detail ->> 'expires_at')::timestamptz, detail ->> 'key', actor
FROM audit_log
WHERE action = 'call_token.issued' AND at > now() - interval '1 day' AND subject ~ '^[0-9a-f-]{36}$'
  AND (detail ->> 'expires_at')::timestamptz > at;

-- Revocations: of one token, or of all tokens of a caller that were issued until a moment. Rows are made and, when no token is
-- left that they concern, deleted; no program changes one.
CREATE TABLE call_revocations (
    id           bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT call_revocations_pkey PRIMARY KEY,
    tenant       text        NOT NULL CONSTRAINT call_revocations_tenant_fkey REFERENCES tenants (name),
    caller       text        NOT NULL,
    -- NULL: every token of the caller.
    token        uuid        CONSTRAINT call_revocations_token_unique UNIQUE,
    -- A token's own time of issue.
    issued_until timestamptz NOT NULL,
    -- When the last of these tokens is over.
    ends_at      timestamptz NOT NULL,
    revoked_at   timestamptz NOT NULL DEFAULT now(),
    revoked_by   text        NOT NULL,
    CONSTRAINT call_revocations_end CHECK (ends_at > issued_until AND ends_at <= issued_until + interval '24 hours'),
    -- Clocks of servers may be ahead, but not so that a row stays for ever.
    CONSTRAINT call_revocations_begin CHECK (issued_until <= revoked_at + interval '1 hour'),
    CONSTRAINT call_revocations_caller_length CHECK (length(caller) BETWEEN 1 AND 200)
);
CREATE INDEX call_revocations_by_caller ON call_revocations (tenant, caller);
CREATE INDEX call_revocations_by_end ON call_revocations (ends_at);

-- Whatever makes a row: nodes hear of it, and all rows together stay within what one document of a serving set holds. A tenant
-- has 64 at most, and an eighth of what is left, so that a few tenants cannot use up what all of them share.
CREATE FUNCTION bound_call_revocations()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public
AS $$
DECLARE
    everyone bigint;
    own      bigint;
BEGIN
    -- First: whoever revokes at the same time waits for this row, and is counted.
    PERFORM public.bump_desired_generation();
    IF NEW.token IS NULL THEN
        DELETE FROM call_revocations r WHERE r.tenant = NEW.tenant AND r.caller = NEW.caller AND r.id <> NEW.id
            AND r.issued_until <= NEW.issued_until AND r.ends_at > date_trunc('hour', now());
        -- One row in the place of others that count is not more than before.
        IF FOUND THEN
            RETURN NULL;
        END IF;
    END IF;
    -- By the hour, as the signer reads them: what ends does not change the document more often.
    SELECT count(*), count(*) FILTER (WHERE tenant = NEW.tenant) INTO everyone, own
    FROM call_revocations WHERE ends_at > date_trunc('hour', now());
    IF everyone > 800 OR (own > 1 AND own > least(64, (800 - everyone) / 8)) THEN
        RAISE EXCEPTION 'tenant % has % revocations of call tokens, the site %', NEW.tenant, own, everyone
            USING ERRCODE = 'check_violation', CONSTRAINT = 'call_revocations_bounded';
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION bound_call_revocations() FROM PUBLIC;
CREATE TRIGGER call_revocations_made AFTER INSERT ON call_revocations
    FOR EACH ROW EXECUTE FUNCTION bound_call_revocations();

-- The document with the revocations, which lies beside the shards; nothing where no call token is revoked.
ALTER TABLE serving_sets ADD COLUMN revoked_calls text;
GRANT INSERT (revoked_calls) ON serving_sets TO mfaas_signer;

-- As before, and call tokens and their revocations go when a token's end is a day ago.
CREATE OR REPLACE FUNCTION check_old()
RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public
AS $$
DECLARE
    program  name := program_of(current_user);
    day      CONSTANT interval := '1 day';
    may      boolean;
BEGIN
    IF program = '' OR (program = 'mfaas_builder' AND TG_TABLE_NAME = 'builders') THEN
        RETURN OLD;
    END IF;
    IF TG_TABLE_NAME = 'deployment_events' THEN
        -- The last event tells the state, and ends the stream of whoever follows.
        may := EXISTS (SELECT 1 FROM deployments d WHERE d.id = OLD.deployment_id AND d.forgotten_at IS NOT NULL
                       AND OLD.seq < d.last_event);
    ELSIF TG_TABLE_NAME = 'tokens' THEN
        may := least(OLD.revoked_at, OLD.expires_at) < now() - day;
    ELSIF TG_TABLE_NAME = 'join_tokens' THEN
        may := OLD.expires_at < now() - day;
    ELSIF TG_TABLE_NAME = 'node_reports' THEN
        -- The signer begins above the highest epoch that anybody reported: one that nobody signed here is kept.
        may := OLD.at < now() - day AND OLD.epoch <= (SELECT coalesce(max(s.epoch), 0) FROM serving_sets s);
    ELSIF TG_TABLE_NAME = 'builders' THEN
        may := OLD.seen_at < now() - day;
    ELSIF TG_TABLE_NAME = 'revocations' THEN
        -- The same source gives the same artifact for as long as its toolchain counts.
        may := OLD.revoked_at < now() - day
            AND EXISTS (SELECT 1 FROM artifacts a WHERE a.digest = OLD.artifact
                        AND NOT EXISTS (SELECT 1 FROM toolchains t WHERE t.id = a.toolchain AND t.accepted))
            AND NOT EXISTS (SELECT 1 FROM versions v WHERE v.artifact = OLD.artifact AND v.retired_at IS NULL);
    ELSIF TG_TABLE_NAME = 'call_tokens' THEN
        may := OLD.expires_at < now() - day;
    ELSIF TG_TABLE_NAME = 'call_revocations' THEN
        may := OLD.ends_at < now() - day;
    END IF;
    IF may IS NOT TRUE THEN
        RAISE EXCEPTION '% may not delete this from %', program, TG_TABLE_NAME
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_deleted_when_old';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER call_tokens_old BEFORE DELETE ON call_tokens FOR EACH ROW EXECUTE FUNCTION check_old();
CREATE TRIGGER call_revocations_old BEFORE DELETE ON call_revocations FOR EACH ROW EXECUTE FUNCTION check_old();

-- The server writes them down, the signer puts the revocations into the set; nobody rewrites either.
GRANT SELECT, DELETE ON call_tokens, call_revocations TO mfaas_server;
GRANT INSERT (id, tenant, caller, functions, issued_at, expires_at, key, issued_by) ON call_tokens TO mfaas_server;
GRANT INSERT (tenant, caller, token, issued_until, ends_at, revoked_by) ON call_revocations TO mfaas_server;
GRANT SELECT ON call_revocations TO mfaas_signer;
