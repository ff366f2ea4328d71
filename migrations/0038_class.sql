-- The class of a version's function, for whoever looks; nodes believe the signed statement alone. All that was admitted before is
-- of the class that there was, and so is what a signer of the release before admits.
ALTER TABLE versions ADD COLUMN class text NOT NULL DEFAULT 'micro';
ALTER TABLE versions ADD CONSTRAINT versions_class_known CHECK (class IN ('micro', 'bulk')) NOT VALID;

GRANT INSERT (class) ON versions TO mfaas_signer;
