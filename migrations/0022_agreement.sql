-- How many builders have to agree is the signer's setting. It says here what it goes by, so that others can tell people why
-- builds wait. Nothing is decided by it.
CREATE TABLE agreement (
    one       boolean  NOT NULL DEFAULT true CONSTRAINT agreement_one_row CHECK (one),
    -- Null before a signer of this release has started.
    builders  integer  CONSTRAINT agreement_builders_bounded CHECK (builders BETWEEN 1 AND 4),
    CONSTRAINT agreement_pkey PRIMARY KEY (one)
);
INSERT INTO agreement DEFAULT VALUES;

GRANT SELECT ON agreement TO mfaas_server, mfaas_signer;
GRANT UPDATE (builders) ON agreement TO mfaas_signer;
