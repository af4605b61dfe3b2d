//! One suite over the whole of Tollgate: see `tests/` beside this folder for the
//! tests, `benches/` for the benches, and `artifacts/` for the guests they run.
