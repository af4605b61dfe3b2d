-- What was loaded, granted, refused, called and denied. It is only added to.
CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    -- 'load', 'refusal', 'removal', 'call', 'denial', 'grant', 'revocation', 'enabling'
    kind TEXT NOT NULL,
    who TEXT NOT NULL,
    decision TEXT NOT NULL,
    file TEXT,
    component_id TEXT,
    digest TEXT,
    tool_name TEXT,
    power TEXT,
    detail TEXT,
    run_id TEXT,
    call_id TEXT,
    -- JSON
    usage TEXT
);
CREATE INDEX audit_by_file ON audit (file, id) WHERE file IS NOT NULL;
CREATE INDEX audit_by_tool ON audit (tool_name, id);
CREATE INDEX audit_by_component ON audit (component_id, id);

-- Tools whose last calls trapped. Derived from the calls above, in the same commit.
CREATE TABLE tool_health (
    tool_name TEXT PRIMARY KEY,
    component_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    traps INTEGER NOT NULL
) WITHOUT ROWID;
