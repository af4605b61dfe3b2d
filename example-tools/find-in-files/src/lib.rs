pub mod search;
pub mod walk;
