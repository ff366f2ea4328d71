-- Certificates of nodes are issued by the signer: a server writes what it was asked for, and what it was shown for it, and the
-- signer decides by itself.

CREATE TABLE certificate_requests (
    id            uuid        NOT NULL DEFAULT gen_random_uuid(),
    node          text        NOT NULL,
    -- PKCS#10 in PEM.
    csr           text        NOT NULL,
    -- To join: the digest of the join token's secret.
    secret_sha256 text,
    -- To renew: the certificate (DER) that the node showed.
    shown         bytea,
    asked_at      timestamptz NOT NULL DEFAULT now(),
    -- What the signer says: one of them.
    certificate   text,
    refusal       text,
    CONSTRAINT certificate_requests_pkey PRIMARY KEY (id),
    CONSTRAINT certificate_requests_one_reason CHECK ((secret_sha256 IS NULL) <> (shown IS NULL)),
    CONSTRAINT certificate_requests_one_answer CHECK (certificate IS NULL OR refusal IS NULL),
    CONSTRAINT certificate_requests_refusal_known
        CHECK (refusal IN ('unknown', 'taken', 'unusable', 'again', 'too_many')),
    CONSTRAINT certificate_requests_bytes_bounded
        CHECK (octet_length(csr) <= 16384 AND octet_length(shown) <= 16384 AND octet_length(certificate) <= 16384)
);
GRANT SELECT, DELETE ON certificate_requests TO mfaas_server;
GRANT INSERT (node, csr, secret_sha256, shown) ON certificate_requests TO mfaas_server;
GRANT SELECT ON certificate_requests TO mfaas_signer;
GRANT UPDATE (certificate, refusal) ON certificate_requests TO mfaas_signer;

-- Records a new certificate of a node that shows the one whose digest is `shown`; false if that opens nothing any more, or it
-- was done within half an hour. Both open until the next time: the node may never hear of the new one.
CREATE FUNCTION renew_node(who text, shown text, certificate text, actor text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
BEGIN
    UPDATE nodes SET previous_certificate_sha256 = shown, certificate_sha256 = certificate, renewed_at = now()
    WHERE name = who AND removed_at IS NULL AND shown IN (certificate_sha256, previous_certificate_sha256)
          AND (renewed_at IS NULL OR renewed_at < now() - interval '30 minutes');
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM append_audit(actor, 'node.renewed', '', who, jsonb_build_object('by', shown, 'certificate', certificate));
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION renew_node(text, text, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION renew_node(text, text, text, text) TO mfaas_server, mfaas_signer;
GRANT EXECUTE ON FUNCTION join_node(text, text, text, text, text) TO mfaas_signer;
