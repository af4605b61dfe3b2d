-- Values that all hosts share.
CREATE TABLE settings (
    -- 'decisions_key': the key of the codes of open questions
    -- 'copy': the data directory of a copy that has not finished; no host works meanwhile
    -- 'copied_audit': the number of audit records that this copy has written
    name text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);
INSERT INTO settings (name, value)
    VALUES ('decisions_key', replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''));

-- Earlier hosts would work during a copy.
UPDATE meta SET min_host = 2;
