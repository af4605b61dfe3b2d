-- Most rows are added behind all others: those of the newest run and conversation. Where
-- the key is an integer, what does not fit any more begins a new page; with a key of two
-- columns rows were moved among three pages then, which all had to be written, and a row of
-- more than a kilobyte had pages of its own. Ids of runs and threads must never be given
-- again while rows of theirs are here.
CREATE TABLE events_by_id (
    -- the run's id, and in the lower 32 bits the event's number within the run
    id INTEGER PRIMARY KEY,
    run INTEGER GENERATED ALWAYS AS (id >> 32) VIRTUAL,
    number INTEGER GENERATED ALWAYS AS (id & 0xffffffff) VIRTUAL,
    at_ms INTEGER NOT NULL,
    body TEXT NOT NULL
);
INSERT INTO events_by_id (id, at_ms, body)
    SELECT (run << 32) | number, at_ms, body FROM events ORDER BY run, number;
DROP TABLE events;
ALTER TABLE events_by_id RENAME TO events;

CREATE TABLE messages_by_id (
    -- the thread's id, and in the lower 32 bits the message's position
    id INTEGER PRIMARY KEY,
    thread INTEGER GENERATED ALWAYS AS (id >> 32) VIRTUAL,
    position INTEGER GENERATED ALWAYS AS (id & 0xffffffff) VIRTUAL,
    body TEXT NOT NULL
);
INSERT INTO messages_by_id (id, body)
    SELECT (thread << 32) | position, body FROM messages ORDER BY thread, position;
DROP TABLE messages;
ALTER TABLE messages_by_id RENAME TO messages;
