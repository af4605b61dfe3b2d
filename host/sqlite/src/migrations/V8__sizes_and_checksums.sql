-- How long the records are that belong to a thread, and that a component caused.
ALTER TABLE threads ADD COLUMN record_bytes INTEGER NOT NULL DEFAULT 0;
UPDATE threads SET record_bytes =
    (SELECT coalesce(sum(length(CAST(e.body AS BLOB)) + 64), 0) FROM runs r
     JOIN events e ON e.id >= r.id << 32 AND e.id < (r.id + 1) << 32 WHERE r.thread = threads.id)
    + (SELECT coalesce(sum(length(CAST(m.body AS BLOB)) + 64), 0) FROM messages m
     WHERE m.id >= threads.id << 32 AND m.id < (threads.id + 1) << 32);
CREATE TABLE component_sizes (
    component_id TEXT PRIMARY KEY,
    record_bytes INTEGER NOT NULL
) WITHOUT ROWID;

-- A checksum over the event and the checksum before it. Events of earlier versions have none.
ALTER TABLE events ADD COLUMN checksum BLOB;
