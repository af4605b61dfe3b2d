//! Authentication: the middleware that admits keys and sessions, and signing in and out.

mod credential;
mod middleware;
pub(crate) mod sign_in;
mod watch;

pub(crate) use middleware::authenticate;
pub(crate) use watch::look_for_changes;
