-- The signer takes less on the word of a builder: what comes along with a crate is recorded by whoever made the cache, and
-- several builders may have to make the same before it signs.

-- What each dependency cache holds, and what each crate needs there. The owner writes it for what ships, the acquirer for the
-- caches of the site. No builder may write it, and nobody changes it: a cache never changes either.
CREATE TABLE cached_crates (
    cache      text   NOT NULL CONSTRAINT cached_crates_cache_sha256 CHECK (cache ~ '^[0-9a-f]{64}$'),
    -- The key of the cache that ships, which it takes the place of; its own, if it ships itself.
    base       text   NOT NULL CONSTRAINT cached_crates_base_sha256 CHECK (base ~ '^[0-9a-f]{64}$'),
    toolchain  text   NOT NULL,
    name       text   NOT NULL,
    version    text   NOT NULL,
    checksum   text   NOT NULL,
    -- Everything that it needs, itself not included: name, version and checksum of each.
    closure    jsonb  NOT NULL CONSTRAINT cached_crates_closure_listed CHECK (jsonb_typeof(closure) = 'array'),
    CONSTRAINT cached_crates_pkey PRIMARY KEY (cache, name, version)
);
CREATE INDEX cached_crates_shipped ON cached_crates (toolchain, name) WHERE cache = base;

GRANT SELECT ON cached_crates TO mfaas_signer, mfaas_acquirer;
GRANT INSERT (cache, base, toolchain, name, version, checksum, closure) ON cached_crates TO mfaas_acquirer;
GRANT SELECT ON dependency_caches TO mfaas_signer;

-- Claims that wait for another builder's. The signer keeps them; a builder sees who has given one, and neither writes nor removes any.
CREATE TABLE build_claims (
    deployment_id    uuid         NOT NULL
        CONSTRAINT build_claims_build_fkey REFERENCES builds (deployment_id),
    -- The database role that gave it: one claim each.
    role             name         NOT NULL,
    committed_token  bigint       NOT NULL,
    claim            jsonb        NOT NULL,
    finished_at      timestamptz  NOT NULL,
    CONSTRAINT build_claims_pkey PRIMARY KEY (deployment_id, role)
);
-- How often the signer has asked another builder for a claim.
ALTER TABLE builds ADD COLUMN rounds smallint NOT NULL DEFAULT 0
    CONSTRAINT builds_rounds_bounded CHECK (rounds BETWEEN 0 AND 8);
-- Whose an instance is, as the database knows it, and not as it says.
ALTER TABLE builders ADD COLUMN role name;
ALTER TABLE builders ALTER COLUMN role SET DEFAULT session_user;

-- As before, and: a builder that has given its claim about a build leaves it to others; the signer asks another one, once more
-- each time and after a pause from the second time on.
CREATE OR REPLACE FUNCTION check_build_change()
RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public
AS $$
DECLARE
    program   name := program_of(current_user);
    revision  text;
    round     smallint;
BEGIN
    IF program = 'mfaas_builder' THEN
        IF OLD.finished_at IS NOT NULL THEN
            RAISE EXCEPTION 'build % has ended', OLD.deployment_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'builds_ended';
        END IF;
        IF EXISTS (SELECT 1 FROM build_claims c WHERE c.deployment_id = OLD.deployment_id AND c.role = session_user) THEN
            RAISE EXCEPTION '% has given its claim about build %', session_user, OLD.deployment_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'builds_one_claim_each';
        END IF;
        IF OLD.lease_role <> session_user AND OLD.lease_expires_at >= now() THEN
            RAISE EXCEPTION 'another builder holds build %', OLD.deployment_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'builds_of_another';
        END IF;
        IF NEW.lease_expires_at > now() + interval '1 hour' THEN
            RAISE EXCEPTION 'a lease lasts an hour at most'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'builds_lease_bounded';
        END IF;
        IF NEW.not_before > now() + interval '1 hour' THEN
            RAISE EXCEPTION 'a build is postponed for an hour at most'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'builds_postponed_bounded';
        END IF;
        -- Tokens are granted here: whoever writes another number gets the next one.
        IF NEW.fencing_token IS DISTINCT FROM OLD.fencing_token THEN
            NEW.fencing_token := nextval('fencing_token');
        END IF;
        IF NEW.finished_at IS NOT NULL THEN
            NEW.finished_at := now();
        END IF;
        NEW.lease_role := session_user;
    ELSIF program IN ('mfaas_server', 'mfaas_acquirer') THEN
        IF OLD.claim IS NOT NULL OR NOT EXISTS (SELECT 1 FROM deployments d WHERE d.id = OLD.deployment_id
                                                AND d.state IN ('received', 'waiting')) THEN
            RAISE EXCEPTION 'build % does not wait', OLD.deployment_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'builds_not_waiting';
        END IF;
        NEW.lease_role := NULL;
        NEW.not_before := NULL;
        NEW.postponed := 0;
        NEW.postponed_because := NULL;
    ELSIF program = 'mfaas_signer' AND NEW IS DISTINCT FROM OLD THEN
        revision := NEW.rebuild_for;
        round := NEW.rounds;
        IF NOT EXISTS (SELECT 1 FROM deployments d WHERE d.id = OLD.deployment_id AND d.state = 'built')
            OR NOT (revision IS NOT NULL AND revision IS DISTINCT FROM OLD.rebuild_for OR round = OLD.rounds + 1) THEN
            RAISE EXCEPTION 'a signer changes no build'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'builds_not_by_signer';
        END IF;
        NEW := OLD;
        NEW.rebuild_for := revision;
        NEW.rounds := round;
        NEW.attempt := 0;
        NEW.lease_holder := NULL;
        NEW.lease_expires_at := NULL;
        NEW.lease_role := NULL;
        NEW.committed_token := NULL;
        NEW.claim := NULL;
        NEW.finished_at := NULL;
        NEW.not_before := now();
        IF round > 1 AND round > OLD.rounds THEN
            NEW.not_before := now() + make_interval(secs => least(60, power(2, round)));
        END IF;
    END IF;
    RETURN NEW;
END $$;

GRANT SELECT ON build_claims TO mfaas_signer;
GRANT INSERT (deployment_id, role, committed_token, claim, finished_at), DELETE ON build_claims TO mfaas_signer;
GRANT SELECT (deployment_id, role) ON build_claims TO mfaas_builder;
GRANT UPDATE (rounds) ON builds TO mfaas_signer;
-- To say whether another builder is there.
GRANT SELECT ON builders TO mfaas_signer;
