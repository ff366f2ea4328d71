-- Who may call a version, for whoever looks; nodes believe the signed statement alone. Versions from before do not say, which
-- nodes read as `tenant`: deploy a function again with `access = "public"` if anybody may call it.

ALTER TABLE versions
    ADD COLUMN access text NOT NULL DEFAULT 'tenant'
        CONSTRAINT versions_access_known CHECK (access IN ('public', 'tenant', 'token'));

-- Public halves of the keys that call tokens are signed with. The server makes them and keeps the private halves; the signer
-- puts those that have not ended into every serving set.
CREATE TABLE call_keys (
    id         text        NOT NULL CONSTRAINT call_keys_pkey PRIMARY KEY,
    public_key text        NOT NULL,
    made_at    timestamptz NOT NULL DEFAULT now(),
    -- Nodes hear of a key before anything is signed with it.
    used_from  timestamptz NOT NULL,
    not_after  timestamptz NOT NULL,
    CONSTRAINT call_keys_is_a_key CHECK (public_key ~ '^[0-9a-f]{64}$'),
    CONSTRAINT call_keys_named_by_digest CHECK (id = encode(sha256(decode(public_key, 'hex')), 'hex')),
    CONSTRAINT call_keys_end CHECK (not_after <= made_at + interval '100 days')
);
GRANT SELECT, INSERT (id, public_key, used_from, not_after), UPDATE (not_after) ON call_keys TO mfaas_server;
GRANT SELECT ON call_keys TO mfaas_signer;
