//! The score by which the kernel chooses the process to kill when memory runs out.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidemill_engine::config::{OomScoreMode, ServerConfig};
use tidemill_engine::system_error::reason;

/// Bounds of the kernel.
const SCORE_MIN: i32 = -1000;
const SCORE_MAX: i32 = 1000;

/// Score that the configuration asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OomScore {
    /// Added to the score that the process was started with.
    Relative(i32),
    /// In its place.
    Absolute(i32),
}

impl OomScore {
    /// Score of a configuration; `None` leaves it to the kernel.
    pub(crate) fn of(config: &ServerConfig) -> Option<OomScore> {
        match config.oom_score_mode {
            OomScoreMode::Kept => None,
            OomScoreMode::Relative => Some(OomScore::Relative(config.oom_score)),
            OomScoreMode::Absolute => Some(OomScore::Absolute(config.oom_score)),
        }
    }
}

/// Setter of the process's score, which remembers the one that it was started with.
#[derive(Debug)]
pub(crate) struct OomScoreSetter {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Score in force; `None` while it is nobody's but the kernel's.
    wanted: Option<OomScore>,
    /// Score before the first one that was wanted.
    before: i32,
}

impl OomScoreSetter {
    /// Setter of this process's score, which a configuration asks for at start. A refusal is one
    /// line of the log.
    pub(crate) fn started(config: &ServerConfig) -> OomScoreSetter {
        let setter = OomScoreSetter::at(Path::new("/proc/self/oom_score_adj"));
        let _ = setter.set(OomScore::of(config));
        setter
    }

    fn at(path: &Path) -> OomScoreSetter {
        OomScoreSetter { path: path.to_owned(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Score in force; `None` while it is nobody's but the kernel's.
    pub(crate) fn wanted(&self) -> Option<OomScore> {
        self.state().wanted
    }

    /// Sets the score, or brings back the one before if `wanted` is none. A score that is in force
    /// is not written again, so that nothing is overwritten which an administrator did by hand.
    ///
    /// # Errors
    ///
    /// When the kernel refuses; the score is then what it was.
    pub(crate) fn set(&self, wanted: Option<OomScore>) -> io::Result<()> {
        let mut state = self.state();
        let last = state.wanted;
        if wanted == last {
            return Ok(());
        }
        let before = match last {
            None => fs::read_to_string(&self.path)?.trim().parse().unwrap_or(0),
            Some(_) => state.before,
        };
        let score = match wanted {
            None => before,
            Some(OomScore::Relative(score)) => before + score,
            Some(OomScore::Absolute(score)) => score,
        };
        fs::write(&self.path, format!("{}\n", score.clamp(SCORE_MIN, SCORE_MAX)))
            .inspect_err(|error| log::warn!("Unable to write oom_score_adj: {}", reason(error)))?;
        *state = State { wanted, before };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_of_before_is_the_base_and_comes_back() {
        let path = std::env::temp_dir().join(format!("tidemill-oom-{}", std::process::id()));
        let setter = OomScoreSetter::at(&path);
        let score = || fs::read_to_string(&path).expect("our file").trim().to_owned();
        assert!(setter.set(Some(OomScore::Absolute(5))).is_err(), "there is no such file yet");
        assert_eq!(setter.wanted(), None);
        setter.set(None).expect("nothing to do");
        fs::write(&path, "7\n").expect("our file");
        for (wanted, expected) in [
            (None, "7"),
            (Some(OomScore::Relative(10)), "17"),
            (Some(OomScore::Relative(-3)), "4"),
            (Some(OomScore::Absolute(100)), "100"),
            (Some(OomScore::Relative(2000)), "1000"),
            (Some(OomScore::Absolute(-2000)), "-1000"),
            (None, "7"),
        ] {
            setter.set(wanted).expect("our file");
            assert_eq!(score(), expected, "{wanted:?}");
        }
        // Changed by hand while it is nobody's.
        fs::write(&path, "50\n").expect("our file");
        setter.set(None).expect("our file");
        assert_eq!(score(), "50");
        setter.set(Some(OomScore::Relative(1))).expect("our file");
        assert_eq!(score(), "51");
        let _ = fs::remove_file(path);
    }
}
