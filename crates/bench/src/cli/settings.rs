//! From flags to settings: everything that can be wrong is found here, with one clear line.

use std::path::PathBuf;
use std::time::Duration;

use clap::parser::ArgMatches;
use tidemill_host::output::note;

use crate::cli::flags::Flags;
use crate::limits::{
    CONNECT_JITTER_US_MAX, DEVIATION_RANGES_MAX, KEYS_PER_GET_MAX, PIPELINE_MAX, RATE_MAX,
    THREADS_MAX, VALUE_BYTES_MAX,
};
use crate::load::command::{Command, Piece, Role, split_words};
use crate::load::keys::Pattern;
use crate::load::replay::Recording;
use crate::load::settings::{
    Arrivals, End, Endpoint, Family, Keys, Pace, Protocol, Reconnect, Secret, Seeds, Settings,
    Sizes, Staircase, Target, Values, Window,
};
use crate::load::tls::{Tls, TlsOptions};

/// Seed when none is given: memtier's runs repeat, so do ours.
const DEFAULT_SEED: u64 = 12_345;

/// Makes the settings of a run.
pub(crate) fn from_flags(flags: &Flags, matches: &ArgMatches) -> Result<Settings, String> {
    let given =
        |name: &str| matches.value_source(name) == Some(clap::parser::ValueSource::CommandLine);
    let threads = if flags.native && !given("threads") { 1 } else { flags.threads };
    check_range("--threads", u64::from(threads), 1, u64::from(THREADS_MAX))?;
    check_range("--clients", u64::from(flags.clients), 1, 1 << 20)?;
    check_range("--pipeline", u64::from(flags.pipeline), 1, u64::from(PIPELINE_MAX))?;
    check_range("--run-count", u64::from(flags.run_count), 1, u64::from(u32::MAX))?;
    check_range("--multi-key-get", u64::from(flags.multi_key_get), 0, u64::from(KEYS_PER_GET_MAX))?;
    check_range("--data-size", flags.data_size as u64, 0, VALUE_BYTES_MAX as u64)?;
    check_range("--data-offset", flags.data_offset, 0, VALUE_BYTES_MAX as u64)?;
    check_range("--key-maximum", flags.key_maximum, 0, u64::MAX - 1)?;
    if flags.key_minimum > flags.key_maximum {
        return Err("--key-minimum is larger than --key-maximum".into());
    }
    if flags.key_maximum - flags.key_minimum >= 1 << 53 {
        return Err("the key range holds more than 2^53 keys".into());
    }
    for &percentile in &flags.print_percentiles {
        if !(0.0..=100.0).contains(&percentile) || percentile == 0.0 {
            return Err(format!("--print-percentiles: {percentile} is not above 0 and up to 100"));
        }
    }
    let values = values(flags)?;
    let keys = keys(flags)?;
    let commands = commands(flags, matches)?;
    let connections = u64::from(threads) * u64::from(flags.clients);
    if flags.cluster_mode {
        check_cluster(flags, &commands)?;
    }
    if flags.verify {
        check_verify(flags, &commands)?;
    }
    if !(0.0..=1e6).contains(&flags.reconnect_backoff_factor) {
        return Err("--reconnect-backoff-factor: must be 0 or more".into());
    }
    let end = end(flags, connections)?;
    let warmup = flags.warmup.unwrap_or(if flags.native { 5.0 } else { 0.0 });
    let warmup = seconds("--warmup", warmup)?;
    Ok(Settings {
        target: target(flags)?,
        threads,
        connections: flags.clients,
        pipeline: flags.pipeline,
        window: if flags.window == "batch" { Window::Batch } else { Window::Sliding },
        end,
        warmup,
        pace: pace(flags, connections, warmup, end)?,
        commands,
        keys,
        values,
        seeds: Seeds { run: seed(flags), distinct: flags.distinct_client_seed || flags.native },
        verify: flags.verify,
        reconnect: Reconnect {
            interval: flags.reconnect_interval,
            on_error: flags.reconnect_on_error,
            attempts_max: flags.max_reconnect_attempts,
            backoff_factor: flags.reconnect_backoff_factor,
        },
        staircase: staircase(flags)?,
        connect_jitter_us: jitter(flags)?,
        cpus: cpus(flags)?,
        scan_cursor: flags
            .scan_incremental_iteration
            .then_some(flags.scan_incremental_max_iterations),
    })
}

/// Settings from the flags in one text, as experiments give them, and whether to preload.
pub(crate) fn settings_from_words(line: &str) -> Result<(Settings, bool), String> {
    use clap::{CommandFactory, FromArgMatches};
    let words = split_words(line)?;
    let words = words.into_iter().map(|word| String::from_utf8_lossy(&word).into_owned());
    let words = std::iter::once("bench".to_string()).chain(words);
    let first_line = |error: clap::Error| {
        error
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches("error: ")
            .to_string()
    };
    let matches = Flags::command().try_get_matches_from(words).map_err(first_line)?;
    let flags = Flags::from_arg_matches(&matches).map_err(first_line)?;
    let without_effect = [
        ("--run-count", flags.run_count != 1),
        ("--cleanup", flags.cleanup),
        ("--calibrate", flags.calibrate),
        ("--serve-nothing", flags.serve_nothing),
        ("--server-pid", flags.server_pid.is_some()),
        ("--show-config", flags.show_config),
        ("--print-all-runs", flags.print_all_runs),
        ("--out-file", flags.out_file.is_some()),
        ("--json-out-file", flags.json_out_file.is_some()),
        ("--client-stats", flags.client_stats.is_some()),
        ("--hdr-file-prefix", flags.hdr_file_prefix.is_some()),
    ];
    if let Some((name, _)) = without_effect.iter().find(|entry| entry.1) {
        return Err(format!("{name}: has no effect in an experiment"));
    }
    Ok((from_flags(&flags, &matches)?, flags.preload))
}

/// Only a reply that is the whole value of one key can be compared.
fn check_verify(flags: &Flags, commands: &[Command]) -> Result<(), String> {
    if flags.multi_key_get > 0 || flags.data_offset > 0 {
        return Err("--verify: not with --multi-key-get or --data-offset".into());
    }
    match commands.iter().any(|command| command.role == Role::Get) {
        true => Ok(()),
        false => Err("--verify: compares the GETs of --ratio, and there are none".into()),
    }
}

/// A key belongs to one node, so a command may name one.
fn check_cluster(flags: &Flags, commands: &[Command]) -> Result<(), String> {
    let refused = [
        ("--clients-start", flags.clients_start.is_some()),
        ("--requests allkeys (use --preload)", flags.requests.as_deref() == Some("allkeys")),
        ("--unix-socket", flags.unix_socket.is_some()),
        ("--monitor-input", flags.monitor_input.is_some()),
        ("--select-db", flags.select_db != 0),
        ("a command with several keys", commands.iter().any(|command| command.key_count() > 1)),
    ];
    match refused.iter().find(|entry| entry.1) {
        Some((name, _)) => Err(format!("--cluster-mode: not with {name}")),
        None => Ok(()),
    }
}

fn check_range(name: &str, value: u64, minimum: u64, maximum: u64) -> Result<(), String> {
    if (minimum..=maximum).contains(&value) {
        Ok(())
    } else {
        Err(format!("{name}: {value} is not within {minimum} to {maximum}"))
    }
}

fn seconds(name: &str, value: f64) -> Result<Duration, String> {
    if (0.0..=1e7).contains(&value) {
        Ok(Duration::from_secs_f64(value))
    } else {
        Err(format!("{name}: {value} is not a number of seconds"))
    }
}

fn seed(flags: &Flags) -> u64 {
    if flags.randomize {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        return now.map_or(DEFAULT_SEED, |since| since.as_nanos() as u64);
    }
    flags.seed.unwrap_or(DEFAULT_SEED)
}

fn end(flags: &Flags, connections: u64) -> Result<End, String> {
    if let Some(time) = flags.test_time {
        let time = seconds("--test-time", time)?;
        if time.is_zero() {
            return Err("--test-time: must be above 0".into());
        }
        return Ok(End::Time(time));
    }
    match flags.requests.as_deref() {
        None if flags.native => Ok(End::Time(Duration::from_secs(10))),
        None => Ok(End::Requests(10_000)),
        Some("allkeys") => {
            let keys = flags.key_maximum - flags.key_minimum + 1;
            Ok(End::Requests(keys.div_ceil(connections)))
        }
        Some(number) => match number.parse() {
            Ok(0) | Err(_) => Err(format!("--requests: {number:?} is no number and not allkeys")),
            Ok(number) => Ok(End::Requests(number)),
        },
    }
}

fn staircase(flags: &Flags) -> Result<Option<Staircase>, String> {
    let (Some(start), Some(step), Some(duration)) =
        (flags.clients_start, flags.clients_step, flags.step_duration)
    else {
        return Ok(None);
    };
    if start >= flags.clients {
        return Err("--clients-start must be below --clients".into());
    }
    let duration = seconds("--step-duration", duration)?;
    if step == 0 || duration.is_zero() {
        return Err("--clients-step and --step-duration must be above 0".into());
    }
    Ok(Some(Staircase { start, step, duration }))
}

fn jitter(flags: &Flags) -> Result<(u64, u64), String> {
    let name = "--thread-conn-start-max-jitter-micros";
    check_range(name, flags.start_jitter_max_us, 0, CONNECT_JITTER_US_MAX)?;
    if flags.start_jitter_min_us > flags.start_jitter_max_us {
        return Err("--thread-conn-start-min-jitter-micros is above the maximum".into());
    }
    Ok((flags.start_jitter_min_us, flags.start_jitter_max_us))
}

/// CPUs that this process may not use would leave the load threads unbound without a word.
fn cpus(flags: &Flags) -> Result<Vec<usize>, String> {
    if flags.cpus.is_empty() {
        return Ok(Vec::new());
    }
    let allowed = rustix::thread::sched_getaffinity(None).map_err(|error| error.to_string())?;
    let is_allowed = |&cpu: &usize| cpu < rustix::thread::CpuSet::MAX_CPU && allowed.is_set(cpu);
    match flags.cpus.iter().find(|cpu| !is_allowed(cpu)) {
        Some(cpu) => Err(format!("--cpus: {cpu} is no CPU that this process may use")),
        None => Ok(flags.cpus.clone()),
    }
}

fn pace(flags: &Flags, connections: u64, warmup: Duration, end: End) -> Result<Pace, String> {
    if let Some(rate) = flags.rate_limiting {
        if !(rate > 0.0 && rate * connections as f64 <= RATE_MAX) {
            return Err(format!("--rate-limiting: must be above 0, and at most {RATE_MAX} in all"));
        }
        let steps = vec![(0.0, rate * connections as f64)];
        return Ok(Pace::Open { arrivals: Arrivals::Even, steps });
    }
    let Some(text) = &flags.rate else { return Ok(Pace::Closed) };
    let arrivals = if flags.arrivals == "even" { Arrivals::Even } else { Arrivals::Poisson };
    let mut steps = rate_steps(text, end)?;
    // The warm-up runs at the first rate.
    for (second, _) in &mut steps {
        *second += warmup.as_secs_f64();
    }
    Ok(Pace::Open { arrivals, steps })
}

/// (seconds from the start of the measurement, requests per second).
fn rate_steps(text: &str, end: End) -> Result<Vec<(f64, f64)>, String> {
    let wrong = || {
        format!(
            "--rate: {text:?} is not RATE, FROM..TO or SECOND:RATE,... with rates above 0 up to \
             {RATE_MAX}"
        )
    };
    let rate = |text: &str| {
        let rate = text.parse::<f64>().ok().filter(|rate| *rate > 0.0 && *rate <= RATE_MAX);
        rate.ok_or_else(wrong)
    };
    if let Some((from, to)) = text.split_once("..") {
        let End::Time(time) = end else {
            return Err("--rate FROM..TO needs --test-time: it ends with the run".into());
        };
        return Ok(vec![(0.0, rate(from)?), (time.as_secs_f64(), rate(to)?)]);
    }
    if !text.contains(':') {
        return Ok(vec![(0.0, rate(text)?)]);
    }
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for step in text.split(',') {
        let (second, step_rate) = step.split_once(':').ok_or_else(wrong)?;
        let second = second.parse::<f64>().ok().filter(|second| (0.0..=1e7).contains(second));
        let second = second.ok_or_else(wrong)?;
        if steps.last().is_some_and(|&(last, _)| second <= last) {
            return Err(wrong());
        }
        steps.push((second, rate(step_rate)?));
    }
    Ok(steps)
}

fn target(flags: &Flags) -> Result<Target, String> {
    let mut target = Target::tcp(&flags.host, flags.port);
    target.family = match (flags.ipv4, flags.ipv6) {
        (true, _) => Family::V4,
        (_, true) => Family::V6,
        _ => Family::Any,
    };
    target.protocol = match flags.protocol.as_str() {
        "resp2" => Protocol::Resp2,
        "resp3" => Protocol::Resp3,
        _ => Protocol::Default,
    };
    target.database = flags.select_db;
    target.cluster = flags.cluster_mode;
    target.timeout = Duration::from_secs(flags.connection_timeout);
    if let Some(credentials) = &flags.authenticate {
        match credentials.split_once(':') {
            Some((user, password)) => {
                target.user = Some(user.into());
                target.password = Some(Secret(password.into()));
            }
            None => target.password = Some(Secret(credentials.clone())),
        }
    }
    if flags.tls {
        target.tls = Some(tls(flags)?);
    }
    if let Some(uri) = &flags.uri {
        apply_uri(&mut target, uri, flags)?;
    }
    if let Some(path) = &flags.unix_socket {
        target.endpoint = Endpoint::Unix(path.clone());
    }
    if target.tls.is_some() && matches!(target.endpoint, Endpoint::Unix(_)) {
        return Err("--tls: not over a Unix socket".into());
    }
    Ok(target)
}

fn tls(flags: &Flags) -> Result<Tls, String> {
    Tls::new(&TlsOptions {
        certificate: flags.cert.clone(),
        key: flags.key.clone(),
        authorities: flags.cacert.clone(),
        skip_verify: flags.tls_skip_verify,
        server_name: flags.sni.clone(),
        versions: flags.tls_protocols.clone(),
    })
}

/// The text after the scheme never appears in an error: it may hold a password.
fn apply_uri(target: &mut Target, uri: &str, flags: &Flags) -> Result<(), String> {
    let wrong = || "--uri: not redis://[user:password@]host[:port][/db]".to_string();
    let (scheme, rest) = uri.split_once("://").ok_or_else(wrong)?;
    match scheme {
        "redis" | "tcp" => {}
        "rediss" => target.tls = Some(tls(flags)?),
        "unix" => {
            target.endpoint = Endpoint::Unix(PathBuf::from(rest));
            return Ok(());
        }
        _ => return Err(wrong()),
    }
    let (credentials, place) = match rest.rsplit_once('@') {
        Some((credentials, place)) => (Some(credentials), place),
        None => (None, rest),
    };
    if let Some(credentials) = credentials {
        let (user, password) = credentials.split_once(':').ok_or_else(wrong)?;
        target.user = (!user.is_empty()).then(|| percent_decode(user));
        target.password = Some(Secret(percent_decode(password)));
    }
    let (address, database) = place.split_once('/').unwrap_or((place, ""));
    if !database.is_empty() {
        target.database = database.parse().map_err(|_| wrong())?;
    }
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
            (host, port.strip_prefix(':'))
        }
        None => match address.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    let port = match port {
        Some(port) => port.parse().map_err(|_| wrong())?,
        None => 6379,
    };
    if host.is_empty() {
        return Err(wrong());
    }
    target.endpoint = Endpoint::Tcp(host.into(), port);
    Ok(())
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let escaped = (byte == b'%')
            .then(|| {
                let mut ahead = rest.clone();
                let high = (ahead.next()? as char).to_digit(16)?;
                let low = (ahead.next()? as char).to_digit(16)?;
                rest = ahead;
                Some((high * 16 + low) as u8)
            })
            .flatten();
        bytes.push(escaped.unwrap_or(byte));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn keys(flags: &Flags) -> Result<Keys, String> {
    let (minimum, maximum) = (flags.key_minimum, flags.key_maximum);
    let span = (maximum - minimum) as f64;
    let standard_deviation =
        flags.key_stddev.filter(|value| *value != 0.0).unwrap_or((span / 6.0).max(1e-9));
    let median =
        flags.key_median.filter(|value| *value != 0.0).unwrap_or(minimum as f64 + span / 2.0);
    if !(standard_deviation > 0.0 && standard_deviation <= DEVIATION_RANGES_MAX * (span + 1.0)) {
        let text = "--key-stddev: must be above 0, and at most {} times the key range";
        return Err(text.replace("{}", &DEVIATION_RANGES_MAX.to_string()));
    }
    if !(median >= minimum as f64 && median <= maximum as f64) {
        return Err("--key-median: must lie within the key range".into());
    }
    if !(0.0..=100.0).contains(&flags.key_zipf_exp) {
        return Err("--key-zipf-exp: must be 0 to 100".into());
    }
    Ok(Keys {
        prefix: flags.key_prefix.clone(),
        minimum,
        maximum,
        zipf_exponent: flags.key_zipf_exp,
        standard_deviation,
        median,
    })
}

fn values(flags: &Flags) -> Result<Values, String> {
    let sizes = match (&flags.data_size_range, &flags.data_size_list) {
        (Some(_), Some(_)) => {
            return Err("--data-size-range and --data-size-list exclude each other".into());
        }
        (Some(range), None) => {
            let (minimum, maximum) = number_range("--data-size-range", range)?;
            Sizes::Range(minimum as usize, maximum as usize)
        }
        (None, Some(list)) => Sizes::Weighted(size_list(list)?),
        (None, None) => Sizes::Fixed(flags.data_size),
    };
    let size_max = match &sizes {
        Sizes::Fixed(size) | Sizes::Range(_, size) => *size,
        Sizes::Weighted(list) => list.iter().map(|&(size, _)| size).max().unwrap_or(0),
    };
    check_range("value size", size_max as u64, 0, VALUE_BYTES_MAX as u64)?;
    let size_by_key = flags.data_size_pattern == "S";
    if size_by_key && flags.data_size_range.is_none() {
        return Err("--data-size-pattern=S needs --data-size-range".into());
    }
    Ok(Values { sizes, size_by_key, random: flags.random_data })
}

fn size_list(text: &str) -> Result<Vec<(usize, u32)>, String> {
    let wrong = || format!("--data-size-list: {text:?} is not SIZE:WEIGHT,...");
    let list = text
        .split(',')
        .map(|entry| {
            let (size, weight) = entry.split_once(':').ok_or_else(wrong)?;
            Ok((size.parse().map_err(|_| wrong())?, weight.parse().map_err(|_| wrong())?))
        })
        .collect::<Result<Vec<(usize, u32)>, String>>()?;
    let weights: u64 = list.iter().map(|&(_, weight)| u64::from(weight)).sum();
    if weights == 0 || weights > u64::from(u32::MAX) {
        return Err(wrong());
    }
    Ok(list)
}

fn number_range(name: &str, text: &str) -> Result<(u64, u64), String> {
    text.split_once('-')
        .and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)))
        .filter(|&(from, to)| from <= to)
        .ok_or_else(|| format!("{name}: {text:?} is not MIN-MAX"))
}

fn pair<'a>(name: &str, text: &'a str) -> Result<(&'a str, &'a str), String> {
    text.split_once(':').ok_or_else(|| format!("{name}: {text:?} is not SET:GET"))
}

fn commands(flags: &Flags, matches: &ArgMatches) -> Result<Vec<Command>, String> {
    let recording = recording(flags)?;
    if flags.command.is_empty() {
        return set_and_get(flags);
    }
    let range = (flags.key_minimum, flags.key_maximum);
    let mut commands = Vec::new();
    // Position at which each --command begins: __monitor_line@__ becomes several.
    let mut heads = Vec::new();
    for line in &flags.command {
        let line = line.as_str();
        heads.push(commands.len());
        if let Some(place) = line.strip_prefix("__monitor_line") {
            commands.extend(recorded(recording.as_ref(), place, flags)?);
            continue;
        }
        let mut command = Command::parse(line, range)?;
        if flags.scan_incremental_iteration {
            follow_cursor(&mut command, flags)?;
        }
        commands.push(command);
    }
    let places: Vec<usize> = matches.indices_of("command").into_iter().flatten().collect();
    let owner = |place: usize| {
        places.iter().rposition(|&command| command < place).map(|index| heads[index])
    };
    for (place, &ratio) in
        matches.indices_of("command_ratio").into_iter().flatten().zip(&flags.command_ratio)
    {
        let owner = owner(place).ok_or("--command-ratio stands before its --command")?;
        check_range("--command-ratio", u64::from(ratio), 1, u64::from(u32::MAX))?;
        commands[owner].ratio = ratio;
    }
    let patterns = matches.indices_of("command_key_pattern").into_iter().flatten();
    for (place, letter) in patterns.zip(&flags.command_key_pattern) {
        let owner = owner(place).ok_or("--command-key-pattern stands before its --command")?;
        commands[owner].pattern = Pattern::from_letter(letter)
            .ok_or_else(|| format!("--command-key-pattern: {letter:?} is none of R, S, P, G, Z"))?;
    }
    Ok(commands)
}

/// The file of `--monitor-input`, if one is given.
fn recording(flags: &Flags) -> Result<Option<Recording>, String> {
    let Some(path) = &flags.monitor_input else { return Ok(None) };
    if !flags.command.iter().any(|line| line.starts_with("__monitor_line")) {
        return Err("--monitor-input needs --command=__monitor_line@__ or __monitor_lineN__".into());
    }
    let bytes = std::fs::read(path)
        .map_err(|error| format!("--monitor-input: {}: {error}", path.display()))?;
    let recording = Recording::parse(&bytes);
    if recording.left_out > 0 {
        note(format_args!(
            "--monitor-input: {} commands; {} lines left out: no command of a client, or not to be \
             sent again",
            recording.commands.len(),
            recording.left_out
        ));
    }
    Ok(Some(recording))
}

/// Commands that `__monitor_line` followed by `place` names.
fn recorded(
    recording: Option<&Recording>,
    place: &str,
    flags: &Flags,
) -> Result<Vec<Command>, String> {
    let recording = recording.ok_or("--command=__monitor_line...: needs --monitor-input")?;
    match place.strip_suffix("__") {
        Some("@") => recording.commands_in_turn(flags.monitor_pattern == "R"),
        Some(number) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(vec![recording.command(number.parse().unwrap_or(usize::MAX))?])
        }
        _ => Err(format!(
            "--command=__monitor_line{place}: neither __monitor_line@__ nor __monitor_lineN__"
        )),
    }
}

fn follow_cursor(command: &mut Command, flags: &Flags) -> Result<(), String> {
    if flags.pipeline != 1 {
        return Err("--scan-incremental-iteration needs --pipeline 1".into());
    }
    if command.name != "SCAN" || command.arguments.len() < 2 {
        return Err("--scan-incremental-iteration needs --command=\"SCAN 0 ...\"".into());
    }
    command.arguments[1] = vec![Piece::Cursor];
    Ok(())
}

fn set_and_get(flags: &Flags) -> Result<Vec<Command>, String> {
    let (sets, gets) = pair("--ratio", &flags.ratio)?;
    let number =
        |text: &str| text.parse::<u32>().map_err(|_| format!("--ratio: {text:?} is not a number"));
    let (sets, gets) = (number(sets)?, number(gets)?);
    let (set_pattern, get_pattern) = pair("--key-pattern", &flags.key_pattern)?;
    let pattern = |letter: &str| {
        Pattern::from_letter(letter)
            .ok_or_else(|| format!("--key-pattern: {letter:?} is none of R, S, P, G, Z"))
    };
    let literal = |text: &str| vec![Piece::Literal(text.as_bytes().to_vec())];
    let (key, data) = (vec![Piece::Key], vec![Piece::Data]);
    let set_arguments = match (&flags.expiry_range, flags.data_offset) {
        (Some(_), 1..) => return Err("--expiry-range and --data-offset exclude each other".into()),
        (Some(range), 0) => {
            let (minimum, maximum) = number_range("--expiry-range", range)?;
            let expiry = vec![Piece::Number { minimum, maximum, width: 1 }];
            vec![literal("SETEX"), key.clone(), expiry, data]
        }
        (None, 0) => vec![literal("SET"), key.clone(), data],
        (None, offset) => {
            vec![literal("SETRANGE"), key.clone(), literal(&offset.to_string()), data]
        }
    };
    let get_arguments = if flags.data_offset > 0 {
        let end = flags.data_offset + flags.data_size as u64 - 1;
        let (start, end) = (literal(&flags.data_offset.to_string()), literal(&end.to_string()));
        vec![literal("GETRANGE"), key, start, end]
    } else if flags.multi_key_get > 0 {
        let mut arguments = vec![literal("MGET")];
        arguments.extend(std::iter::repeat_n(key, flags.multi_key_get as usize));
        arguments
    } else {
        vec![literal("GET"), key]
    };
    let command = |name: &str, role, arguments, ratio, pattern| Command {
        name: name.into(),
        line: name.into(),
        role,
        arguments,
        ratio,
        pattern,
        replay: None,
    };
    let mut commands = Vec::new();
    if sets > 0 {
        commands.push(command("SET", Role::Set, set_arguments, sets, pattern(set_pattern)?));
    }
    if gets > 0 {
        commands.push(command("GET", Role::Get, get_arguments, gets, pattern(get_pattern)?));
    }
    if commands.is_empty() {
        return Err("--ratio: 0:0 sends nothing".into());
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(words: &str) -> String {
        settings_from_words(words).map(|_| ()).expect_err(words)
    }

    #[test]
    fn numbers_out_of_range_are_one_clear_line() {
        let largest = u64::MAX;
        for words in [
            "--cpus 5000".to_string(),
            format!("--cpus {}", usize::MAX),
            "--run-count 0".into(),
            format!("--data-offset {largest}"),
            format!("--data-size {largest} --data-size-range 1-2 --data-offset 1"),
            format!("--data-size-range 1-{largest}"),
            format!("--data-size-list {largest}:1"),
            format!("--key-minimum {largest} --key-maximum {largest} --key-pattern P:P"),
            format!("--key-maximum {}", largest / 2),
            "--multi-key-get 4294967295".into(),
            "--thread-conn-start-max-jitter-micros 18446744073709551615".into(),
            "--rate 1e9".into(),
            "--rate 0:10,5:inf".into(),
            "--rate nan".into(),
            "--rate=-5".into(),
            "--rate 5:10,5:20".into(),
            "--rate-limiting 1e300".into(),
            "--key-stddev 1e300 --key-pattern G:G".into(),
            "--key-stddev nan".into(),
            "--test-time inf".into(),
            "--warmup=-1".into(),
            "--reconnect-backoff-factor nan".into(),
            "--print-percentiles 0".into(),
            "--print-percentiles 101".into(),
            "--pipeline 0".into(),
            "-n 0".into(),
            "--ratio 0:0".into(),
            "--verify --multi-key-get 2".into(),
            "--verify --data-offset 3".into(),
            "--verify --ratio 1:0".into(),
            "--verify --command PING".into(),
            "--cleanup".into(),
            "-x 2".into(),
            "-o out.txt".into(),
            "--ratio 1:99999999999".into(),
        ] {
            let error = error(&words);
            let known = ["--", "the key range", "value size"];
            let is_clear = known.iter().any(|begin| error.starts_with(begin));
            assert!(is_clear && !error.contains('\n'), "{words}: {error}");
        }
        assert!(error("--rate 1..2 -n 5").contains("needs --test-time"));
    }

    #[test]
    fn rates_begin_with_the_measurement() {
        let steps = |words: &str| match settings_from_words(words).unwrap().0.pace {
            Pace::Open { steps, .. } => steps,
            Pace::Closed => panic!("{words}"),
        };
        assert_eq!(steps("--rate 7 --warmup 2"), [(2.0, 7.0)]);
        assert_eq!(steps("--rate 1..3 --test-time 10 --warmup 2"), [(2.0, 1.0), (12.0, 3.0)]);
        assert_eq!(steps("--rate 1..3 --native"), [(5.0, 1.0), (15.0, 3.0)]);
        assert_eq!(steps("--rate 0:5,3:9 --warmup 1"), [(1.0, 5.0), (4.0, 9.0)]);
    }
}
