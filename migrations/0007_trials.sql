-- How compiling a crate as it would be offered ended, before anybody votes. Empty for reviews from before.

ALTER TABLE reviews ADD COLUMN trial jsonb;
GRANT UPDATE (trial) ON reviews TO mfaas_acquirer;
