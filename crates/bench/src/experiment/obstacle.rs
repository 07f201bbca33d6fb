//! Obstacles: reasons why an arm cannot run here. Asked before the first run, so that an experiment
//! never ends in the middle for a reason that was known at its start.

use std::path::Path;
use std::process::Command;

use crate::experiment::arm_change;
use crate::experiment::measure::{fill_words, start_servers};
use crate::experiment::places::fill_places;
use crate::experiment::spec::Arm;
use crate::load::control::Control;
use crate::load::files::make_room;
use crate::load::settings::Target;
use crate::secrets::hide;

/// The reason to skip the arm, if there is one. May start the arm's server to ask it.
pub(super) fn obstacle(arm: &Arm, directory: &Path, change_machine: bool) -> Option<String> {
    check(arm, directory, change_machine).err()
}

fn check(arm: &Arm, directory: &Path, change_machine: bool) -> Result<(), String> {
    let changes = arm.apply.is_some() || !arm.settings.is_empty();
    if changes && !change_machine {
        return Err("it changes settings of this machine: allow that with --change-machine".into());
    }
    if let Some(needs) = &arm.needs {
        ask_shell(needs)?;
    }
    if let Some(reason) = arm_change::obstacle(&arm.settings) {
        return Err(reason);
    }
    if let Some(cpus) = &arm.cpus {
        fill_places(cpus)?;
        if !is_installed("taskset") {
            return Err("taskset is not installed".into());
        }
    }
    let held = arm.idle_connections + arm.subscribers;
    if held > 0 {
        make_room(held)?;
    }
    for line in [&arm.server, &arm.program].into_iter().flatten() {
        let words = fill_words(line, &[])?;
        let program = words.first().ok_or("an empty command")?;
        if !is_installed(program) {
            return Err(format!("{program} is not installed"));
        }
    }
    if arm.requires.is_empty() { Ok(()) } else { ask_server(arm, directory) }
}

fn ask_shell(needs: &str) -> Result<(), String> {
    let own = std::env::current_exe().unwrap_or_default();
    let needs = needs.replace("{tidemill}", &own.display().to_string());
    let output = Command::new("sh").args(["-c", needs.as_str()]).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_string();
    Err(if text.is_empty() { format!("`{}` failed", hide(&needs)) } else { text })
}

fn is_installed(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).exists();
    }
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).exists()))
}

/// Starts the server and reads its INFO: a server may accept a setting that it does not act on, but
/// what it reports about itself is what it does.
fn ask_server(arm: &Arm, directory: &Path) -> Result<(), String> {
    let directory = std::fs::canonicalize(directory).map_err(|error| error.to_string())?;
    let servers = start_servers(&Arm { instances: 1, ..arm.clone() }, &directory)?;
    let server = servers.first().ok_or("no server")?;
    let mut control = Control::connect(&Target::tcp("127.0.0.1", server.port))
        .map_err(|error| error.to_string())?;
    for (field, wanted) in &arm.requires {
        match control.info("server", field).map_err(|error| error.to_string())? {
            Some(value) if value == *wanted => {}
            Some(value) => return Err(format!("the server runs with {field} {value}")),
            None => return Err(format!("the server reports no {field} in INFO")),
        }
    }
    Ok(())
}
