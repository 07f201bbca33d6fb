//! Events at the server during a run: begin and end of saves, changes of role.
//!
//! `INFO` is asked ten times a second on a connection of its own; that costs the server some CPU,
//! so an experiment asks for it. An event is known to 100 ms, and a save shorter than that shows
//! when it has ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::load::control::Control;
use crate::load::settings::Target;

const PAUSE: Duration = Duration::from_millis(100);
/// Marks of a run, at most: more would hide the drawing.
const MARKS_MAX: usize = 200;

/// State of a server of which changes are marked.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    is_saving: bool,
    save_count: u64,
    role: String,
}

impl State {
    fn read(control: &mut Control) -> Option<Self> {
        let mut field = |section, name| control.info(section, name).ok()?;
        Some(Self {
            is_saving: field("persistence", "rdb_bgsave_in_progress")? == "1",
            save_count: field("persistence", "rdb_saves").and_then(|text| text.parse().ok())?,
            // A server without replication has no role.
            role: field("replication", "role").unwrap_or_default(),
        })
    }

    fn changes(&self, earlier: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        let has_saved = self.save_count != earlier.save_count;
        if has_saved || (earlier.is_saving && !self.is_saving) {
            changes.push("save ends".to_string());
        }
        if self.is_saving && (has_saved || !earlier.is_saving) {
            changes.push("save begins".to_string());
        }
        if self.role != earlier.role {
            changes.push(format!("role: {}", self.role));
        }
        changes
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// Watches a server until `is_over`. Blocks. Milliseconds since 1970 and the event, in order;
/// nothing where the server cannot be asked.
pub(super) fn watch(target: &Target, is_over: &AtomicBool) -> Vec<(u64, String)> {
    let mut marks = Vec::new();
    let Ok(mut control) = Control::connect(target) else { return marks };
    let mut last = None;
    while !is_over.load(Ordering::Relaxed) && marks.len() < MARKS_MAX {
        let Some(state) = State::read(&mut control) else { return marks };
        if let Some(last) = &last {
            marks.extend(state.changes(last).into_iter().map(|name| (now_ms(), name)));
        }
        last = Some(state);
        std::thread::sleep(PAUSE);
    }
    marks
}

/// The marks within a run, in seconds from the start of the measurement.
pub(super) fn within(
    marks: Vec<(u64, String)>,
    started_ms: u64,
    duration: Duration,
) -> Vec<(f64, String)> {
    let seconds = |at_ms: u64| (at_ms as f64 - started_ms as f64) / 1e3;
    marks
        .into_iter()
        .map(|(at_ms, name)| (seconds(at_ms), name))
        .filter(|(second, _)| (0.0..=duration.as_secs_f64()).contains(second))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn save_that_ran_between_two_looks_is_marked_once_it_has_ended() {
        let idle = State { role: "master".into(), ..State::default() };
        let saving = State { is_saving: true, ..idle.clone() };
        let saved = State { save_count: 1, ..idle.clone() };
        let again = State { is_saving: true, save_count: 1, ..idle.clone() };
        let replica = State { role: "slave".into(), ..idle.clone() };
        assert!(idle.changes(&idle).is_empty());
        assert_eq!(saving.changes(&idle), ["save begins"]);
        assert_eq!(saved.changes(&saving), ["save ends"]);
        assert_eq!(saved.changes(&idle), ["save ends"]);
        assert_eq!(again.changes(&saving), ["save ends", "save begins"]);
        assert_eq!(replica.changes(&idle), ["role: slave"]);
    }

    #[test]
    fn marks_outside_of_the_measurement_are_left_out() {
        let marks = [900, 1_000, 2_500, 3_001].map(|at_ms| (at_ms, String::new())).to_vec();
        let kept = within(marks, 1_000, Duration::from_secs(2));
        assert_eq!(kept.iter().map(|mark| mark.0).collect::<Vec<_>>(), [0.0, 1.5]);
    }
}
