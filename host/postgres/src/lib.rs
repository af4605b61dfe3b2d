//! A store that several hosts share: PostgreSQL 14 or later.
