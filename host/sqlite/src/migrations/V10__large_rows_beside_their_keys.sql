-- In a table without row ids, SQLite reads a whole row to compare its key, even if the row has megabytes.
-- These tables have large values, so their keys have an index of their own.
CREATE TABLE state_by_id (
    id INTEGER PRIMARY KEY,
    thread INTEGER NOT NULL REFERENCES threads (id),
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    UNIQUE (thread, key)
);
INSERT INTO state_by_id (thread, key, value) SELECT thread, key, value FROM state ORDER BY thread, key;
DROP TABLE state;
ALTER TABLE state_by_id RENAME TO state;

CREATE TABLE state_updates_by_id (
    id INTEGER PRIMARY KEY,
    thread INTEGER NOT NULL REFERENCES threads (id),
    key TEXT NOT NULL,
    position INTEGER NOT NULL,
    reducer TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (thread, key, position)
);
INSERT INTO state_updates_by_id (thread, key, position, reducer, body)
    SELECT thread, key, position, reducer, body FROM state_updates ORDER BY thread, key, position;
DROP TABLE state_updates;
ALTER TABLE state_updates_by_id RENAME TO state_updates;

CREATE TABLE changes_by_id (
    id INTEGER PRIMARY KEY,
    thread INTEGER NOT NULL REFERENCES threads (id),
    revision INTEGER NOT NULL,
    -- Not a reference: to remove a run, SQLite would look for it in the changes of all threads.
    run INTEGER,
    number INTEGER,
    -- JSON: the thread's keys that it wrote, each with whether it was folded. NULL if only the change tells.
    keys TEXT,
    body TEXT,
    UNIQUE (thread, revision)
);
INSERT INTO changes_by_id (thread, revision, run, number, body)
    SELECT thread, revision, run, number, body FROM changes ORDER BY thread, revision;
DROP TABLE changes;
ALTER TABLE changes_by_id RENAME TO changes;
