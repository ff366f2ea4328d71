-- Functions that functions call.

-- Which function which version may call, as its statement says. The function need not be there.
CREATE TABLE version_calls (
    tenant   text    NOT NULL,
    function text    NOT NULL,
    version  integer NOT NULL,
    name     text    NOT NULL,
    callee   text    NOT NULL,
    CONSTRAINT version_calls_pkey PRIMARY KEY (tenant, function, version, name),
    CONSTRAINT version_calls_version_fkey FOREIGN KEY (tenant, function, version)
        REFERENCES versions (tenant, function, version),
    CONSTRAINT version_calls_callee_valid CHECK (callee ~ '^[a-z][a-z0-9_-]{0,62}$')
);
GRANT SELECT ON version_calls TO mfaas_server;
GRANT SELECT, INSERT (tenant, function, version, name, callee) ON version_calls TO mfaas_signer;
