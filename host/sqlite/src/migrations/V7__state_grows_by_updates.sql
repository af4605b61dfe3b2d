-- An update that is folded into a large value is a row of its own. The value is written
-- anew once its updates have become as long as it is.
CREATE TABLE state_updates (
    thread INTEGER NOT NULL REFERENCES threads (id),
    key TEXT NOT NULL,
    position INTEGER NOT NULL,
    reducer TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (thread, key, position)
) WITHOUT ROWID;

-- How many of them there are, and of which length in all. Most keys have none.
CREATE TABLE state_sizes (
    thread INTEGER NOT NULL REFERENCES threads (id),
    key TEXT NOT NULL,
    updates INTEGER NOT NULL,
    update_bytes INTEGER NOT NULL,
    PRIMARY KEY (thread, key)
) WITHOUT ROWID;
