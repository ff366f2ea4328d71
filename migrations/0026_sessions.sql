-- Sessions of the console, and answers of the OpenID provider that were taken: any server of a site takes any request, and
-- what is over at one server is over at all of them. A row holds the hash of a cookie and nothing that opens anything.

CREATE TABLE sessions (
    cookie_sha256 text        NOT NULL CONSTRAINT sessions_cookie_sha256 CHECK (cookie_sha256 ~ '^[0-9a-f]{64}$'),
    token_id      uuid        NOT NULL,
    opened_at     timestamptz NOT NULL DEFAULT now(),
    expires_at    timestamptz NOT NULL,
    CONSTRAINT sessions_pkey PRIMARY KEY (cookie_sha256),
    CONSTRAINT sessions_token_fkey FOREIGN KEY (token_id) REFERENCES tokens (id) ON DELETE CASCADE,
    CONSTRAINT sessions_end CHECK (expires_at <= opened_at + interval '1 day')
);
CREATE INDEX sessions_by_opening ON sessions (opened_at);
CREATE INDEX sessions_by_end ON sessions (expires_at);
CREATE INDEX sessions_of_token ON sessions (token_id, opened_at);

CREATE TABLE sign_in_answers (
    attempt_sha256 text        NOT NULL CONSTRAINT sign_in_answers_sha256 CHECK (attempt_sha256 ~ '^[0-9a-f]{64}$'),
    answered_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT sign_in_answers_pkey PRIMARY KEY (attempt_sha256)
);
CREATE INDEX sign_in_answers_by_time ON sign_in_answers (answered_at);

-- Whoever opens one: a token has 16 sessions at most and the site 1,000; what is over goes, and then the oldest.
CREATE FUNCTION bound_sessions()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public
AS $$
BEGIN
    -- One at a time: two would not count each other's row, and might wait for each other. Any number that nobody else takes.
    PERFORM pg_advisory_xact_lock(7881701939483243379);
    DELETE FROM sessions WHERE expires_at <= now();
    DELETE FROM sessions WHERE cookie_sha256 = ANY (ARRAY(
        SELECT s.cookie_sha256 FROM sessions s WHERE s.token_id = NEW.token_id
        ORDER BY s.opened_at DESC, s.cookie_sha256 OFFSET 16));
    DELETE FROM sessions WHERE cookie_sha256 = ANY (ARRAY(
        SELECT s.cookie_sha256 FROM sessions s ORDER BY s.opened_at DESC, s.cookie_sha256 OFFSET 1000));
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION bound_sessions() FROM PUBLIC;
CREATE TRIGGER sessions_opened AFTER INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION bound_sessions();

-- An attempt is over ten minutes after it began, so an answer is kept for longer than it could be repeated; 4,096 of them at
-- most. Whoever makes us forget one earlier can repeat an answer whose code the provider has taken.
CREATE FUNCTION bound_sign_in_answers()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(7881701939483243380);
    DELETE FROM sign_in_answers WHERE answered_at < now() - interval '1 hour';
    DELETE FROM sign_in_answers WHERE attempt_sha256 = ANY (ARRAY(
        SELECT a.attempt_sha256 FROM sign_in_answers a ORDER BY a.answered_at DESC, a.attempt_sha256 OFFSET 4096));
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION bound_sign_in_answers() FROM PUBLIC;
CREATE TRIGGER sign_in_answers_taken AFTER INSERT ON sign_in_answers
    FOR EACH ROW EXECUTE FUNCTION bound_sign_in_answers();

-- The server opens and ends sessions and changes none; what was answered stays so until the database forgets it.
GRANT SELECT, DELETE ON sessions TO mfaas_server;
GRANT INSERT (cookie_sha256, token_id, expires_at) ON sessions TO mfaas_server;
GRANT SELECT, INSERT (attempt_sha256) ON sign_in_answers TO mfaas_server;
