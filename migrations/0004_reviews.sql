-- Dependencies: who asks, what is known, who decides, and what was built from it.
--
-- The road of a request: open -> reviewing -> building -> ready; or denied, or failed. A request is resolved
-- by the acquirer, decided crate by crate in reviews, and ready when a dependency cache holds everything.
-- What counts as decided is held by constraints and triggers here, so that a faulty program cannot let a
-- crate in with one vote too few.

DO $$
BEGIN
    CREATE ROLE mfaas_acquirer NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END $$;

-- The person (or machine account) that a token speaks for. Two tokens of one person are one vote.
ALTER TABLE tokens ADD COLUMN person text;

-- A token without a person speaks for itself. Characters that a person's name cannot have become one that it
-- can: two names may become one voice, one never becomes two.
CREATE FUNCTION person_of_token(tenant text, name text)
RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, public
AS $$ SELECT left(tenant || '/' || regexp_replace(lower(name), '[^a-z0-9._@+:/-]', '_', 'g'), 200) $$;

UPDATE tokens SET person = person_of_token(tenant, name);

CREATE FUNCTION name_the_person()
RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public
AS $$
BEGIN
    NEW.person := coalesce(NEW.person, person_of_token(NEW.tenant, NEW.name));
    RETURN NEW;
END $$;

CREATE TRIGGER tokens_person BEFORE INSERT ON tokens FOR EACH ROW EXECUTE FUNCTION name_the_person();
ALTER TABLE tokens ALTER COLUMN person SET NOT NULL;
ALTER TABLE tokens ADD CONSTRAINT tokens_person_known CHECK (person ~ '^[a-z0-9][a-z0-9._@+:/-]{0,199}$');

-- On whose behalf an upload was made; empty for uploads from before there were persons.
ALTER TABLE deployments ADD COLUMN person text NOT NULL DEFAULT '';

-- The bytes of a crate version as its registry has them. The archive is a blob named by the checksum.
CREATE TABLE crate_archives (
    checksum     text        CONSTRAINT crate_archives_pkey PRIMARY KEY
        CONSTRAINT crate_archives_checksum_sha256 CHECK (checksum ~ '^[0-9a-f]{64}$'),
    name         text        NOT NULL,
    version      text        NOT NULL,
    bytes        bigint      NOT NULL CONSTRAINT crate_archives_bytes_positive CHECK (bytes > 0),
    acquired_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT crate_archives_version_unique UNIQUE (name, version)
);

-- The lines of the site's index, which cargo reads: one for each archive, and for the crates of our own. Which
-- of them a tenant is shown is decided each time from what is allowed, never here.
CREATE TABLE index_entries (
    name        text         NOT NULL,
    version     text         NOT NULL,
    -- What a decision about it names: the archive's checksum; of our own crates the digest of their sources.
    decided     text         NOT NULL
        CONSTRAINT index_entries_decided_sha256 CHECK (decided ~ '^[0-9a-f]{64}$'),
    -- The crate that the decision is about: itself, or the SDK that it is a part of.
    decided_as  text         NOT NULL,
    archive     text         NOT NULL
        CONSTRAINT index_entries_archive_sha256 CHECK (archive ~ '^[0-9a-f]{64}$'),
    -- Empty when the manifest makes no line; then `problem` says why.
    line        jsonb,
    problem     text         NOT NULL DEFAULT '',
    revision    integer      NOT NULL,
    CONSTRAINT index_entries_pkey PRIMARY KEY (name, version, decided),
    CONSTRAINT index_entries_line_or_problem CHECK ((line IS NULL) = (problem <> ''))
);
CREATE INDEX index_entries_by_lower_name ON index_entries (lower(name));

-- The text files of an archive, each a blob of its own: whoever shows one to a reviewer reads a blob, and
-- unpacks nothing. Paths are sanitised, as reports name them.
CREATE TABLE crate_files (
    checksum     text        NOT NULL
        CONSTRAINT crate_files_archive_fkey REFERENCES crate_archives (checksum),
    path         text        NOT NULL CONSTRAINT crate_files_path_length CHECK (length(path) BETWEEN 1 AND 500),
    blob         text        NOT NULL CONSTRAINT crate_files_blob_sha256 CHECK (blob ~ '^[0-9a-f]{64}$'),
    bytes        bigint      NOT NULL CONSTRAINT crate_files_bytes_known CHECK (bytes >= 0),
    CONSTRAINT crate_files_pkey PRIMARY KEY (checksum, path)
);

-- What is known about an archive with these features: facts, no verdict. Never changed, only added to.
CREATE TABLE crate_reports (
    key          text        CONSTRAINT crate_reports_pkey PRIMARY KEY
        CONSTRAINT crate_reports_key_sha256 CHECK (key ~ '^[0-9a-f]{64}$'),
    checksum     text        NOT NULL
        CONSTRAINT crate_reports_archive_fkey REFERENCES crate_archives (checksum),
    report       jsonb       NOT NULL,
    gathered_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX crate_reports_by_checksum ON crate_reports (checksum);

-- A question to people: may this version with these features be used?
CREATE TABLE reviews (
    id              bigint      GENERATED ALWAYS AS IDENTITY CONSTRAINT reviews_pkey PRIMARY KEY,
    name            text        NOT NULL,
    version         text        NOT NULL,
    checksum        text        NOT NULL,
    features        text[]      NOT NULL,
    toolchain       text        NOT NULL,
    report          text        NOT NULL CONSTRAINT reviews_report_fkey REFERENCES crate_reports (key),
    -- How many people have to say yes.
    people          smallint    NOT NULL CONSTRAINT reviews_people_known CHECK (people IN (1, 2)),
    rules_revision  text        NOT NULL,
    judgement       jsonb       NOT NULL,
    -- The terms of a yes: for which tenant (empty for all), with what of the standard library beyond what a
    -- function has, and until when. They stand from the first voice on.
    scope           text        NOT NULL DEFAULT '',
    grants          text[]      NOT NULL DEFAULT '{}',
    expires_at      timestamptz,
    state           text        NOT NULL DEFAULT 'open'
        CONSTRAINT reviews_state_known CHECK (state IN ('open', 'approved', 'denied', 'revoked', 'withdrawn')),
    reason          text        NOT NULL DEFAULT '',
    opened_at       timestamptz NOT NULL DEFAULT now(),
    closed_at       timestamptz,
    CONSTRAINT reviews_closed_when_decided CHECK ((state = 'open') = (closed_at IS NULL)),
    CONSTRAINT reviews_of_its_archive FOREIGN KEY (checksum) REFERENCES crate_archives (checksum)
);
CREATE UNIQUE INDEX reviews_one_open ON reviews (name, version, checksum, features, toolchain, scope)
    WHERE state = 'open';
CREATE INDEX reviews_by_crate ON reviews (name, version);

-- Who asks. A request without a deployment was made by hand.
ALTER TABLE crate_requests DROP CONSTRAINT crate_requests_status_known;
ALTER TABLE crate_requests ALTER COLUMN deployment_id DROP NOT NULL;
ALTER TABLE crate_requests ADD COLUMN default_features boolean NOT NULL DEFAULT true;
ALTER TABLE crate_requests ADD COLUMN requested_by text NOT NULL DEFAULT '';
-- People are to decide even about what ships.
ALTER TABLE crate_requests ADD COLUMN takeover boolean NOT NULL DEFAULT false;
ALTER TABLE crate_requests ADD COLUMN scope text NOT NULL DEFAULT '';
-- The version that the requirement came down to.
ALTER TABLE crate_requests ADD COLUMN chosen text;
-- Why it ended without a yes: a reviewer's words, or what could not be done.
ALTER TABLE crate_requests ADD COLUMN detail text NOT NULL DEFAULT '';
-- 'approved' and 'retried' are words of the release before.
ALTER TABLE crate_requests ADD CONSTRAINT crate_requests_status_known CHECK (status IN
    ('open', 'reviewing', 'building', 'ready', 'denied', 'failed', 'withdrawn', 'approved', 'retried'));
CREATE INDEX crate_requests_unfinished ON crate_requests (status, id)
    WHERE status IN ('open', 'reviewing', 'building');

-- Whoever inserts the row, the person is the one who made the upload.
CREATE FUNCTION name_the_requester()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public
AS $$
BEGIN
    IF NEW.deployment_id IS NOT NULL THEN
        SELECT person INTO NEW.requested_by FROM deployments WHERE id = NEW.deployment_id;
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER crate_requests_person BEFORE INSERT ON crate_requests
    FOR EACH ROW EXECUTE FUNCTION name_the_requester();

-- What a request comes down to: the crate and everything that it pulls in. A member without a review was
-- allowed already when the request was resolved.
CREATE TABLE request_members (
    request_id  bigint  NOT NULL CONSTRAINT request_members_request_fkey REFERENCES crate_requests (id),
    name        text    NOT NULL,
    version     text    NOT NULL,
    checksum    text    NOT NULL,
    features    text[]  NOT NULL,
    -- From the crate that was asked for to this one.
    path        text[]  NOT NULL,
    review_id   bigint  CONSTRAINT request_members_review_fkey REFERENCES reviews (id),
    CONSTRAINT request_members_pkey PRIMARY KEY (request_id, name, version)
);
CREATE INDEX request_members_by_review ON request_members (review_id);

-- One voice each; what was said is not taken back but by a new review.
CREATE TABLE votes (
    review_id  bigint      NOT NULL CONSTRAINT votes_review_fkey REFERENCES reviews (id),
    person     text        NOT NULL CONSTRAINT votes_person_named CHECK (person <> ''),
    approve    boolean     NOT NULL,
    note       text        NOT NULL CONSTRAINT votes_note_length CHECK (length(note) BETWEEN 1 AND 4000),
    actor      text        NOT NULL,
    at         timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT votes_pkey PRIMARY KEY (review_id, person)
);

-- What reviewers found at a spot. The spot's key is made of file, line, column and kind.
CREATE TABLE spot_notes (
    review_id  bigint      NOT NULL CONSTRAINT spot_notes_review_fkey REFERENCES reviews (id),
    spot       text        NOT NULL CONSTRAINT spot_notes_spot_length CHECK (length(spot) BETWEEN 1 AND 600),
    state      text        NOT NULL
        CONSTRAINT spot_notes_state_known CHECK (state IN ('unseen', 'seen', 'justified', 'unsound')),
    note       text        NOT NULL DEFAULT '' CONSTRAINT spot_notes_note_length CHECK (length(note) <= 2000),
    person     text        NOT NULL,
    at         timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT spot_notes_pkey PRIMARY KEY (review_id, spot)
);

-- Decisions bind bytes, features and toolchain; may be for one tenant, and may end by themselves.
ALTER TABLE crates ADD COLUMN scope text NOT NULL DEFAULT '';
-- Empty for what ships, which is compiled anew for each toolchain.
ALTER TABLE crates ADD COLUMN toolchain text NOT NULL DEFAULT '';
ALTER TABLE crates ADD COLUMN grants text[] NOT NULL DEFAULT '{}';
ALTER TABLE crates ADD COLUMN expires_at timestamptz;
ALTER TABLE crates ADD COLUMN review_id bigint CONSTRAINT crates_review_fkey REFERENCES reviews (id);
ALTER TABLE crates DROP CONSTRAINT crates_pkey;
ALTER TABLE crates ADD CONSTRAINT crates_pkey PRIMARY KEY (name, version, scope);

-- A voice, or a note about a spot, is refused from whoever asked for the crate, and when nothing is asked any
-- more. The lock orders it with the decision that it may lead to.
CREATE FUNCTION check_voice()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public
AS $$
DECLARE found text;
BEGIN
    SELECT state INTO found FROM reviews WHERE id = NEW.review_id FOR UPDATE;
    IF found IS DISTINCT FROM 'open' THEN
        RAISE EXCEPTION 'review % is not open', NEW.review_id
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_while_open';
    END IF;
    IF EXISTS (SELECT 1 FROM request_members m JOIN crate_requests r ON r.id = m.request_id
               WHERE m.review_id = NEW.review_id AND r.requested_by = NEW.person) THEN
        RAISE EXCEPTION '% asked for this crate', NEW.person
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_not_by_requester';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER votes_allowed BEFORE INSERT ON votes FOR EACH ROW EXECUTE FUNCTION check_voice();
CREATE TRIGGER spot_notes_allowed BEFORE INSERT OR UPDATE ON spot_notes
    FOR EACH ROW EXECUTE FUNCTION check_voice();

-- The state machine of a review.
CREATE FUNCTION check_review_transition()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public
AS $$
DECLARE
    yes      bigint;
    no       bigint;
    unsound  bigint;
BEGIN
    IF (NEW.scope, NEW.grants) <> (OLD.scope, OLD.grants) OR NEW.expires_at IS DISTINCT FROM OLD.expires_at THEN
        IF OLD.state <> 'open' OR EXISTS (SELECT 1 FROM votes WHERE review_id = OLD.id) THEN
            RAISE EXCEPTION 'somebody has voted on the terms of review %', OLD.id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'reviews_terms_stand';
        END IF;
    END IF;
    IF NEW.state = OLD.state THEN
        RETURN NEW;
    END IF;
    IF NOT (OLD.state, NEW.state) IN (
        ('open', 'approved'), ('open', 'denied'), ('open', 'withdrawn'), ('approved', 'revoked')
    ) THEN
        RAISE EXCEPTION 'a review cannot go from % to %', OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'reviews_state_transition';
    END IF;
    SELECT count(*) FILTER (WHERE approve), count(*) FILTER (WHERE NOT approve) INTO yes, no
        FROM votes WHERE review_id = NEW.id;
    SELECT count(*) INTO unsound FROM spot_notes WHERE review_id = NEW.id AND state = 'unsound';
    IF NEW.state = 'approved' AND (yes < OLD.people OR no > 0) THEN
        RAISE EXCEPTION 'review % has % of % voices, and % against', NEW.id, yes, OLD.people, no
            USING ERRCODE = 'check_violation', CONSTRAINT = 'reviews_enough_people';
    END IF;
    IF NEW.state = 'approved' AND unsound > 0 THEN
        RAISE EXCEPTION 'review % has % spots that somebody found unsound', NEW.id, unsound
            USING ERRCODE = 'check_violation', CONSTRAINT = 'reviews_nothing_unsound';
    END IF;
    IF NEW.state = 'denied' AND no = 0 THEN
        RAISE EXCEPTION 'nobody voted against review %', NEW.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'reviews_denied_by_somebody';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER reviews_transition BEFORE UPDATE ON reviews
    FOR EACH ROW EXECUTE FUNCTION check_review_transition();

-- What may become an allowed crate: what ships, by the owner of the database; what the rules admit, by the
-- acquirer; and what people have approved, with exactly the bytes, features, toolchain and scope of the review.
CREATE FUNCTION check_crate_decision()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public
AS $$
BEGIN
    IF NEW.status <> 'allowed' THEN
        RETURN NEW;
    END IF;
    IF NEW.review_id IS NOT NULL THEN
        IF EXISTS (SELECT 1 FROM reviews r WHERE r.id = NEW.review_id AND r.state = 'approved'
                   AND (r.name, r.version, r.checksum, r.features, r.toolchain, r.scope, r.grants)
                     = (NEW.name, NEW.version, NEW.checksum, NEW.features, NEW.toolchain, NEW.scope, NEW.grants)
                   AND r.expires_at IS NOT DISTINCT FROM NEW.expires_at) THEN
            RETURN NEW;
        END IF;
    ELSIF NEW.decided_by LIKE 'rules %' THEN
        IF session_user = 'mfaas_acquirer' AND NEW.grants = '{}' AND EXISTS (
            SELECT 1 FROM crate_archives a WHERE (a.name, a.version, a.checksum) = (NEW.name, NEW.version, NEW.checksum)
        ) THEN
            RETURN NEW;
        END IF;
    ELSIF NEW.decided_by = 'seed' AND session_user NOT IN
        ('mfaas_server', 'mfaas_builder', 'mfaas_signer', 'mfaas_acquirer') THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'nobody has decided that % % may be used like this', NEW.name, NEW.version
        USING ERRCODE = 'check_violation', CONSTRAINT = 'crates_decided';
END $$;

CREATE TRIGGER crates_decided BEFORE INSERT OR UPDATE ON crates
    FOR EACH ROW EXECUTE FUNCTION check_crate_decision();

-- As before, and what the acquirer may do with a deployment: let it go on, or end it.
CREATE OR REPLACE FUNCTION check_deployment_transition()
RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public
AS $$
BEGIN
    IF NEW.state IS DISTINCT FROM OLD.state AND NOT (OLD.state, NEW.state) IN (
        ('received', 'building'), ('received', 'failed'),
        ('building', 'received'), ('building', 'built'), ('building', 'refused'), ('building', 'waiting'),
        ('building', 'failed'),
        ('built', 'admitted'), ('built', 'refused'), ('built', 'failed'),
        ('waiting', 'received'), ('waiting', 'refused')
    ) THEN
        RAISE EXCEPTION 'a deployment cannot go from % to %', OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deployments_state_transition';
    END IF;
    IF current_user = 'mfaas_builder' AND NEW.state IS DISTINCT FROM OLD.state
        AND (NEW.state = 'admitted' OR OLD.state NOT IN ('received', 'building')) THEN
        RAISE EXCEPTION 'a builder may not do this'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deployments_state_of_builder';
    END IF;
    IF current_user = 'mfaas_acquirer' AND NEW.state IS DISTINCT FROM OLD.state AND OLD.state <> 'waiting' THEN
        RAISE EXCEPTION 'an acquirer may not do this'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'deployments_state_of_acquirer';
    END IF;
    NEW.updated_at := now();
    RETURN NEW;
END $$;

-- The crates inside each version, from its statement; how a revocation finds what it concerns.
CREATE TABLE version_crates (
    tenant         text    NOT NULL,
    function       text    NOT NULL,
    version        integer NOT NULL,
    name           text    NOT NULL,
    crate_version  text    NOT NULL,
    checksum       text    NOT NULL,
    CONSTRAINT version_crates_pkey PRIMARY KEY (tenant, function, version, name, crate_version),
    CONSTRAINT version_crates_version_fkey FOREIGN KEY (tenant, function, version)
        REFERENCES versions (tenant, function, version)
);
CREATE INDEX version_crates_by_crate ON version_crates (name, crate_version);

-- Versions from before this table: what their signed statements say.
INSERT INTO version_crates (tenant, function, version, name, crate_version, checksum)
SELECT v.tenant, v.function, v.version, used ->> 'name', used ->> 'version', used ->> 'checksum'
FROM versions v
JOIN statements s ON s.digest = v.statement
CROSS JOIN LATERAL jsonb_array_elements(
    convert_from(decode(s.envelope::jsonb ->> 'payload', 'base64'), 'UTF8')::jsonb #> '{predicate,decisions}'
) AS used;

-- What the world says about crates: advisories, and audits of others. Each kind is imported as a whole.
CREATE TABLE imported (
    kind         text        CONSTRAINT imported_pkey PRIMARY KEY
        CONSTRAINT imported_kind_known CHECK (kind IN ('advisories', 'audits')),
    body         jsonb       NOT NULL,
    imported_by  text        NOT NULL,
    imported_at  timestamptz NOT NULL DEFAULT now()
);

-- Every dependency cache that was built for the site; builders open the newest for their toolchain.
CREATE TABLE dependency_caches (
    id         bigint      GENERATED ALWAYS AS IDENTITY CONSTRAINT dependency_caches_pkey PRIMARY KEY,
    key        text        NOT NULL CONSTRAINT dependency_caches_key_sha256 CHECK (key ~ '^[0-9a-f]{64}$'),
    -- The key of the cache that ships, which it takes the place of.
    base       text        NOT NULL,
    toolchain  text        NOT NULL,
    -- The resolution: Cargo.lock. The next one keeps its versions.
    lock       text        NOT NULL,
    built_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT dependency_caches_key_unique UNIQUE (key)
);

-- Rights. The server asks, counts votes and takes back; only the acquirer says what a crate is.
GRANT USAGE ON SCHEMA public TO mfaas_acquirer;
GRANT SELECT ON _sqlx_migrations TO mfaas_acquirer;
GRANT EXECUTE ON FUNCTION append_audit(text, text, text, text, jsonb) TO mfaas_acquirer;

GRANT SELECT ON crate_archives, crate_files, crate_reports, reviews, request_members, votes, spot_notes, version_crates,
    imported, dependency_caches, index_entries TO mfaas_server, mfaas_acquirer;
GRANT INSERT ON votes, spot_notes, crate_requests, imported TO mfaas_server;
GRANT UPDATE (state, note, person, at) ON spot_notes TO mfaas_server;
GRANT UPDATE (state, scope, grants, expires_at, reason, closed_at) ON reviews TO mfaas_server;
GRANT UPDATE (status, decided_at, detail) ON crate_requests TO mfaas_server;
GRANT UPDATE (toolchain, grants, expires_at, review_id) ON crates TO mfaas_server;
GRANT UPDATE (body, imported_by, imported_at) ON imported TO mfaas_server;

GRANT SELECT ON crate_requests, crates, policy_state, deployments, builds, toolchains, deployment_events
    TO mfaas_acquirer;
GRANT INSERT ON crate_archives, crate_files, crate_reports, reviews, request_members, crates, dependency_caches,
    deployment_events, index_entries TO mfaas_acquirer;
GRANT UPDATE (decided_as, archive, line, problem, revision) ON index_entries TO mfaas_acquirer;
GRANT DELETE ON request_members TO mfaas_acquirer;
-- To take back what cannot be built; the trigger keeps it from deciding anything.
GRANT UPDATE (state, reason, closed_at) ON reviews TO mfaas_acquirer;
GRANT UPDATE (status, decided_at, detail, chosen) ON crate_requests TO mfaas_acquirer;
GRANT UPDATE (checksum, features, direct, status, decided_by, decided_at, reason, toolchain, grants, expires_at)
    ON crates TO mfaas_acquirer;
-- To put waiting deployments back into the queue, or to end them.
GRANT UPDATE (state, diagnostics, last_event, updated_at) ON deployments TO mfaas_acquirer;
GRANT UPDATE (attempt, lease_holder, lease_expires_at, committed_token, queued_at, started_at, finished_at)
    ON builds TO mfaas_acquirer;

GRANT SELECT ON dependency_caches TO mfaas_builder;
GRANT UPDATE (default_features, chosen, detail) ON crate_requests TO mfaas_builder;
GRANT INSERT ON version_crates TO mfaas_signer;
