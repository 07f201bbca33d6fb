//! Runs an experiment: randomized complete blocks, a journal line per run.

use std::path::Path;
use std::sync::atomic::Ordering;

use crate::experiment::journal::Journal;
use crate::experiment::measure::{RunPlan, foreign_keys, measure_once};
use crate::experiment::metrics::title;
use crate::experiment::obstacle::obstacle;
use crate::experiment::record::{ExperimentOutcome, Record};
use crate::experiment::spec::{AA_ARM, Arm, Load, Spec};
use crate::load::Stop;
use crate::load::keys::{Random, below};

/// Makes the runs that the journal in `directory` does not hold yet. Blocks; prints a line per run
/// through `on_line`. Arms that change the machine are skipped unless `change_machine` is set.
///
/// # Errors
/// When the journal belongs to another experiment, cannot be written, or a run fails.
pub fn run_experiment(
    spec: &Spec,
    directory: &Path,
    change_machine: bool,
    stop: &Stop,
    mut on_line: impl FnMut(&str),
) -> Result<ExperimentOutcome, String> {
    std::fs::create_dir_all(directory)
        .map_err(|error| format!("{}: {error}", directory.display()))?;
    let shown = spec.without_secrets();
    let mut journal = Journal::open(&directory.join("journal.jsonl"), &shown)?;
    let seed = journal.seed;
    let mut records = std::mem::take(&mut journal.records);
    let (arms, skipped) = runnable(spec, directory, change_machine);
    for (arm, reason) in &skipped {
        on_line(&format!("skipped arm {arm}: {reason}"));
    }
    for arm in arms.iter().filter(|arm| arm.name != AA_ARM) {
        if let Some(warning) = spec.loads.first().and_then(|load| foreign_keys(arm, load)) {
            on_line(&format!("arm {}: {warning}", arm.name));
        }
    }
    let mut interrupted = false;
    let enough = arms.iter().filter(|arm| arm.name != AA_ARM).count() >= 2;
    'blocks: for block in 0..if enough { spec.blocks } else { 0 } {
        for (arm, load) in order(&arms, &spec.loads, seed, block) {
            let done = |record: &Record| {
                record.block == block && record.arm == arm.name && record.load == load.name
            };
            if records.iter().any(done) {
                continue;
            }
            let run = RunPlan { block, directory, marks: spec.marks };
            let measured = measure_once(arm, load, run, stop);
            // A run that was stopped is none, whether it ended early or in an error.
            if stop.load(Ordering::Relaxed) {
                if let Err(error) = measured {
                    on_line(&format!("arm {}, load {}: {error}", arm.name, load.name));
                }
                interrupted = true;
                break 'blocks;
            }
            let record = measured
                .map_err(|error| format!("arm {}, load {}: {error}", arm.name, load.name))?;
            journal.append(&record).map_err(|error| format!("journal: {error}"))?;
            on_line(&describe(&record, spec.blocks));
            records.push(record);
        }
    }
    Ok(ExperimentOutcome { spec: shown, seed, records, skipped, interrupted })
}

fn describe(record: &Record, blocks: usize) -> String {
    let shown = ["ops_per_second", "reads_per_second"];
    let rate = shown.iter().find_map(|name| Some((title(name), record.metrics.get(*name)?)));
    let rate = rate.map_or(String::new(), |(title, value)| format!("{value:>12.0} {title}"));
    let doubts = match record.warnings.len() {
        0 => String::new(),
        count => format!("  ({count} warnings)"),
    };
    format!(
        "block {}/{blocks}  {:<20} {:<16} {rate}{doubts}",
        record.block + 1,
        record.arm,
        record.load
    )
}

/// The order of a block: every arm with every load, shuffled (Fisher-Yates) from seed and block, so
/// that a resumed experiment keeps it.
fn order<'a>(
    arms: &'a [Arm],
    loads: &'a [Load],
    seed: u64,
    block: usize,
) -> Vec<(&'a Arm, &'a Load)> {
    let mut order: Vec<_> =
        arms.iter().flat_map(|arm| loads.iter().map(move |load| (arm, load))).collect();
    let mut random = Random::new(crate::load::keys::mix(seed, block as u64));
    for last in (1..order.len()).rev() {
        order.swap(last, below(&mut random, last as u64 + 1) as usize);
    }
    order
}

/// The arms that can run here, and why the others cannot.
fn runnable(
    spec: &Spec,
    directory: &Path,
    change_machine: bool,
) -> (Vec<Arm>, Vec<(String, String)>) {
    let mut skipped = Vec::new();
    let arms = spec.arms_to_run().into_iter().filter(|arm| {
        match obstacle(arm, directory, change_machine) {
            None => true,
            Some(reason) => {
                skipped.push((arm.name.clone(), reason));
                false
            }
        }
    });
    (arms.collect(), skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_complete_shuffled_and_repeatable() {
        let arms: Vec<Arm> =
            ["a", "b", "c"].map(|name| Arm { name: name.into(), ..Arm::default() }).into();
        let loads = [Load { name: "l".into(), ..Load::default() }];
        let names = |block| -> Vec<String> {
            order(&arms, &loads, 7, block).iter().map(|(arm, _)| arm.name.clone()).collect()
        };
        let mut first = [0; 3];
        for block in 0..600 {
            let order = names(block);
            assert_eq!(order, names(block));
            first[(order[0].as_bytes()[0] - b'a') as usize] += 1;
            let mut sorted = order.clone();
            sorted.sort();
            assert_eq!(sorted, ["a", "b", "c"]);
        }
        // Binomial(600, 1/3): standard deviation 11.5.
        assert!(first.iter().all(|count| (150..250).contains(count)), "{first:?}");
    }
}
