//! Runs every seed and a bounded number of mutations with every change.
//!
//! The test writes each finding to a file and prints its name. Put it among the seeds of its
//! target, fix the bug, and the seed prevents a regression. `TOLLGATE_FUZZ_SEED` repeats a run,
//! `TOLLGATE_FUZZ_TIMES` multiplies the number of mutations.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use tollgate_fuzz::mutator::{Random, mutated};
use tollgate_fuzz::{TARGETS, Target, seeds, target};

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn stands(name: &str) {
    let target = target(name);
    let seeds = seeds::of(name);
    assert!(!seeds.is_empty(), "{name} has no seeds");
    for (seed, input) in &seeds {
        attempt(target, input, seed);
    }
    let chosen = number("TOLLGATE_FUZZ_SEED", u64::from(std::process::id()));
    let mutations = target.mutations * number("TOLLGATE_FUZZ_TIMES", 1);
    println!("{mutations} mutations of {} seeds, TOLLGATE_FUZZ_SEED={chosen}", seeds.len());
    let inputs: Vec<Vec<u8>> = seeds.into_iter().map(|(_, input)| input).collect();
    let mut random = Random::new(chosen);
    for mutation in 0..mutations {
        let input = mutated(&inputs, &mut random);
        attempt(target, &input, &format!("mutation-{chosen}-{mutation}"));
    }
}

/// Runs one input and keeps it if it is a finding.
fn attempt(target: &Target, input: &[u8], name: &str) {
    if let Err(finding) = catch_unwind(AssertUnwindSafe(|| (target.run)(input))) {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", target.name));
        std::fs::write(&file, input).unwrap();
        println!("a finding: {}", file.display());
        resume_unwind(finding);
    }
}

#[test]
fn components_of_any_bytes_are_loaded_or_refused() {
    stands("loader");
}

#[test]
fn descriptors_and_arguments_of_any_shape_are_judged() {
    stands("descriptors");
}

#[test]
fn whatever_a_tool_returns_is_an_outcome() {
    stands("output");
}

#[test]
fn whatever_a_provider_answers_is_a_reply_or_a_fault() {
    stands("replies");
}

#[test]
fn configuration_that_is_read_can_be_changed_and_read_again() {
    stands("configuration");
}

#[test]
fn a_store_of_any_pages_is_read_or_refused() {
    stands("store");
}

#[test]
fn every_target_has_its_binary_and_its_folder_of_seeds() {
    let binaries = Path::new(env!("CARGO_MANIFEST_DIR")).join("libfuzzer/fuzz_targets");
    for Target { name, .. } in TARGETS {
        assert!(binaries.join(name).with_extension("rs").is_file(), "{name} has no binary");
        assert!(seeds::folder(name).is_dir(), "{name} has no seeds");
    }
}

#[test]
fn names_of_artifacts_and_keys_are_read_or_refused() {
    stands("registry");
}

#[test]
fn a_manifest_describes_one_component_or_is_refused() {
    stands("manifest");
}

#[test]
fn a_referrer_is_about_its_subject_or_does_not_count() {
    stands("referrers");
}

#[test]
fn no_bundle_vouches_for_an_unsigned_component() {
    stands("bundle");
}

#[test]
fn a_lock_file_reads_back_as_it_was_written() {
    stands("lock");
}

#[test]
fn a_list_of_packages_reads_back_as_it_was_written() {
    stands("packages");
}
