pub mod column;
pub mod statistics;
