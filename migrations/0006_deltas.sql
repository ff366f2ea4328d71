-- What changed since a version that was decided about before, for whoever reviews the next one. The acquirer
-- compares, once; the server shows it. No row is ever changed: another question is another review.

CREATE TABLE crate_deltas (
    key            text        CONSTRAINT crate_deltas_pkey PRIMARY KEY
        CONSTRAINT crate_deltas_key_sha256 CHECK (key ~ '^[0-9a-f]{64}$'),
    from_checksum  text        NOT NULL
        CONSTRAINT crate_deltas_from_fkey REFERENCES crate_archives (checksum),
    to_checksum    text        NOT NULL
        CONSTRAINT crate_deltas_to_fkey REFERENCES crate_archives (checksum),
    delta          jsonb       NOT NULL,
    compared_at    timestamptz NOT NULL DEFAULT now()
);

-- The version that a review is compared with, as it was decided about then; without one, or when it could not be
-- compared, why.
CREATE TABLE review_deltas (
    review_id      bigint      CONSTRAINT review_deltas_pkey PRIMARY KEY
        CONSTRAINT review_deltas_review_fkey REFERENCES reviews (id),
    -- How much there is to read without a comparison; empty when the texts are not there.
    volumes        jsonb,
    from_version   text,
    from_checksum  text,
    from_features  text[],
    from_scope     text,
    decided_by     text,
    decided_at     timestamptz,
    delta          text        CONSTRAINT review_deltas_delta_fkey REFERENCES crate_deltas (key),
    problem        text        NOT NULL DEFAULT ''
        CONSTRAINT review_deltas_problem_length CHECK (length(problem) <= 1000),
    compared_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT review_deltas_delta_or_problem CHECK ((delta IS NULL) = (problem <> '')),
    CONSTRAINT review_deltas_delta_from_somewhere CHECK (delta IS NULL OR from_version IS NOT NULL),
    CONSTRAINT review_deltas_baseline_whole CHECK (num_nulls(from_version, from_checksum, from_features, from_scope,
        decided_by, decided_at) IN (0, 6))
);

-- Only the acquirer says what a crate is.
GRANT SELECT ON crate_deltas, review_deltas TO mfaas_server, mfaas_acquirer;
GRANT INSERT ON crate_deltas, review_deltas TO mfaas_acquirer;
