-- The keys of requests that start a run at most once, whichever host gets them.
CREATE TABLE request_keys (
    -- the SHA-256 of the sender, the route and the key
    digest bytea PRIMARY KEY,
    -- the SHA-256 of the request's body
    body bytea NOT NULL,
    -- the run that the request starts or started
    run_id text COLLATE "C" NOT NULL,
    -- when the row was written, or a second host began to use it
    at_ms bigint NOT NULL
);
CREATE INDEX request_keys_by_time ON request_keys (at_ms);
