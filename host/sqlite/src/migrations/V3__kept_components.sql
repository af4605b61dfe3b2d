-- Components as they were when a run called them, so that its calls can be run
-- again. One that no run refers to any more is let go of.
CREATE TABLE components (
    id INTEGER PRIMARY KEY,
    -- SHA-256, in hexadecimal
    digest TEXT NOT NULL UNIQUE,
    bytes BLOB NOT NULL
);

CREATE TABLE run_components (
    run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    component INTEGER NOT NULL REFERENCES components (id),
    PRIMARY KEY (run, component)
) WITHOUT ROWID;
CREATE INDEX run_components_by_component ON run_components (component);

CREATE TRIGGER component_let_go AFTER DELETE ON run_components
WHEN NOT EXISTS (SELECT 1 FROM run_components WHERE component = old.component)
BEGIN
    DELETE FROM components WHERE id = old.component;
END;
