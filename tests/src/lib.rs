//! The test suite of the whole project: `tests/` contains the tests, `benches/` the benchmarks, and
//! `artifacts/` the guests that they run.
