//! `tidemill tune ab`: the tuner switches, the load generator measures and decides.
//!
//! Neither crate knows the other, so both meet here.

use std::io;
use std::process::ExitCode;

use tidemill_bench::cli::{AbFlags, judge_change};
use tidemill_bench::experiment::ab::Change;
use tidemill_host::tune::{Judge, Trial, TrialPlan};

/// Judges as `tidemill experiment ab` does.
pub struct Bench;

struct Switch<'a>(&'a mut Trial);

impl Change for Switch<'_> {
    fn apply(&mut self) -> io::Result<()> {
        self.0.apply()
    }

    fn revert(&mut self) -> io::Result<()> {
        self.0.revert()
    }
}

impl Judge for Bench {
    fn judge(&self, trial: &mut Trial, plan: TrialPlan) -> ExitCode {
        let flags = AbFlags {
            address: None,
            server: None,
            load: plan.load,
            metric: plan.metric,
            blocks: plan.blocks,
            threshold: plan.threshold,
            seed: plan.seed,
            json: plan.json,
        };
        judge_change(&mut Switch(trial), &flags)
    }
}
