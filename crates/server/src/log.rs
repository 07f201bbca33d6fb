//! The log: one line per event, in the form that Redis's tools read.
//!
//! `12345:M 21 Nov 2026 11:58:09.694 * text`: process, role, local time, level, text. The levels of
//! the directive `loglevel` are those of the crate `log` under other names: `warning` is error and
//! warn, `notice` info, `verbose` debug, `debug` trace. A file is opened for each line, as in
//! Redis, so that its rotation needs no signal. Writing blocks the thread that logs; a line that
//! cannot be written is lost, since there is nowhere to report it.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{Timestamp, Zoned};
use log::{Level, LevelFilter, Log, Metadata, Record};

static LOG: ServerLog = ServerLog { file: Mutex::new(None) };

/// Destination of lines: the file, or standard output while there is none.
struct ServerLog {
    file: Mutex<Option<PathBuf>>,
}

impl Log for ServerLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let now = Zoned::now();
        // Relaxed: a number by itself, which a crash reads.
        OFFSET_S.store(now.offset().seconds(), Ordering::Relaxed);
        let line = line(record.level(), &Stamp(now.datetime()), &record.args().to_string());
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // Lost when it cannot be written, here and below.
        let _ = match &*file {
            Some(path) => OpenOptions::new()
                .append(true)
                .create(true)
                .open(path)
                .and_then(|mut file| file.write_all(line.as_bytes())),
            None => std::io::stdout().write_all(line.as_bytes()),
        };
    }

    fn flush(&self) {}
}

/// Seconds by which local time was ahead of UTC at the last line.
static OFFSET_S: AtomicI32 = AtomicI32::new(0);

/// A local time as lines begin with it.
#[derive(Debug)]
pub(crate) struct Stamp(DateTime);

impl Stamp {
    /// Now, by the offset that local time had at the last line: neither this nor printing it
    /// allocates or reads a file.
    pub(crate) fn now() -> Stamp {
        // Relaxed: see where it is stored.
        let offset = Offset::from_seconds(OFFSET_S.load(Ordering::Relaxed)).unwrap_or(Offset::UTC);
        Stamp(offset.to_datetime(Timestamp::now()))
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let (date, time) = (self.0.date(), self.0.time());
        let month = MONTHS[(date.month() - 1) as usize];
        write!(f, "{:02} {month} {:04} ", date.day(), date.year())?;
        write!(f, "{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())?;
        write!(f, ".{:03}", time.millisecond())
    }
}

fn line(level: Level, now: &Stamp, text: &str) -> String {
    let mark = match level {
        Level::Error | Level::Warn => '#',
        Level::Info => '*',
        Level::Debug => '-',
        Level::Trace => '.',
    };
    format!("{}:M {now} {mark} {text}\n", std::process::id())
}

/// The level that a value of `loglevel` asks for.
pub(crate) fn level(name: &str) -> LevelFilter {
    match name {
        "debug" => LevelFilter::Trace,
        "verbose" => LevelFilter::Debug,
        "warning" => LevelFilter::Warn,
        "nothing" => LevelFilter::Off,
        _ => LevelFilter::Info,
    }
}

/// Begins to log to `file`, or to standard output, what is as important as `level_name` or more.
///
/// # Errors
///
/// Text for the operator when the file cannot be opened.
pub(crate) fn start(file: Option<&str>, level_name: &str) -> Result<(), String> {
    if let Some(path) = file {
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .map_err(|error| format!("Can't open the log file '{path}': {error}"))?;
    }
    // Absolute, so that it stays the same file whatever the working directory.
    let path = file.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.into()));
    *LOG.file.lock().unwrap_or_else(PoisonError::into_inner) = path;
    log::set_max_level(level(level_name));
    // Installed already is as good: the destination was set above.
    let _ = log::set_logger(&LOG);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_valkeys_form() {
        let time = Stamp("2026-11-01T08:05:09.0425".parse().expect("a time"));
        let process = std::process::id();
        assert_eq!(
            line(Level::Warn, &time, "text"),
            format!("{process}:M 01 Nov 2026 08:05:09.042 # text\n")
        );
        let marks = [Level::Error, Level::Info, Level::Debug, Level::Trace]
            .map(|level| line(level, &time, "").chars().rev().nth(2));
        assert_eq!(marks, ['#', '*', '-', '.'].map(Some));
    }

    #[test]
    fn levels_are_those_of_the_directive() {
        let levels = ["debug", "verbose", "notice", "warning", "nothing"].map(level);
        assert!(levels.is_sorted_by(|more, less| more > less), "{levels:?}");
    }
}
