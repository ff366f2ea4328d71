-- Who speaks: a token that decides about dependencies names its person, and a voice is given with a token.
--
-- Before, a token without a person spoke for itself, so whoever held two of them had two voices. What was made
-- like that keeps everything but its voice.

ALTER TABLE tokens DROP CONSTRAINT tokens_scopes_known;
ALTER TABLE tokens ADD CONSTRAINT tokens_scopes_known
    CHECK (scopes <@ ARRAY['read', 'deploy', 'review', 'operate', 'admin'] AND cardinality(scopes) > 0);

-- Who says that the person is that person: nobody (the token speaks for itself), the admin who made the token
-- and named them, or the OpenID provider that signed them in.
ALTER TABLE tokens ADD COLUMN vouched_by text NOT NULL DEFAULT 'nobody'
    CONSTRAINT tokens_vouched_by_known CHECK (vouched_by IN ('nobody', 'admin', 'provider'));
-- Who made the token, as audit rows name them; empty for tokens from before.
ALTER TABLE tokens ADD COLUMN made_by text NOT NULL DEFAULT '';

UPDATE tokens SET vouched_by = 'admin' WHERE person <> person_of_token(tenant, name);

CREATE OR REPLACE FUNCTION name_the_person()
RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public
AS $$
BEGIN
    IF NEW.person IS NULL THEN
        NEW.person := person_of_token(NEW.tenant, NEW.name);
        NEW.vouched_by := 'nobody';
    ELSIF NEW.vouched_by = 'nobody' THEN
        NEW.vouched_by := 'admin';
    END IF;
    -- A trigger and no constraint: what was made before must still be possible to revoke.
    IF NEW.vouched_by = 'nobody' AND NEW.scopes && ARRAY['review', 'admin'] THEN
        RAISE EXCEPTION 'a token with these scopes needs a person'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'tokens_reviewer_is_a_person';
    END IF;
    RETURN NEW;
END $$;

-- What a provider said about somebody is true for a day at most.
ALTER TABLE tokens ADD CONSTRAINT tokens_of_provider_end
    CHECK (vouched_by <> 'provider' OR (expires_at IS NOT NULL AND expires_at <= created_at + interval '24 hours'));

-- The token that a voice was given with; empty for voices from before.
ALTER TABLE votes ADD COLUMN token_id uuid CONSTRAINT votes_token_fkey REFERENCES tokens (id);

-- Voices of the nameless do not count where nothing is decided yet. The audit log keeps them.
DELETE FROM votes v USING reviews r
WHERE r.id = v.review_id AND r.state = 'open'
    AND NOT EXISTS (SELECT 1 FROM tokens t WHERE t.person = v.person AND t.vouched_by <> 'nobody');

-- A voice is given by a person with a token that opens reviews now. All voices of a review come from people
-- whom the same kind of authority names: an admin and a provider may know one human by two names.
CREATE FUNCTION check_speaker()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public
AS $$
DECLARE voucher text;
BEGIN
    SELECT vouched_by INTO voucher FROM tokens
    WHERE id = NEW.token_id AND person = NEW.person AND vouched_by <> 'nobody'
        AND scopes && ARRAY['review', 'admin']
        AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now());
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no token lets % speak', NEW.person
            USING ERRCODE = 'check_violation', CONSTRAINT = 'votes_by_a_person';
    END IF;
    IF EXISTS (SELECT 1 FROM votes v LEFT JOIN tokens t ON t.id = v.token_id
               WHERE v.review_id = NEW.review_id AND coalesce(t.vouched_by, 'admin') <> voucher) THEN
        RAISE EXCEPTION 'voices on review % come from people that somebody else names', NEW.review_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'votes_of_one_kind';
    END IF;
    RETURN NEW;
END $$;

-- Behind `votes_allowed`, which locks the review: two voices cannot pass each other.
CREATE TRIGGER votes_by_a_person BEFORE INSERT ON votes FOR EACH ROW EXECUTE FUNCTION check_speaker();
