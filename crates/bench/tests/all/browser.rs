//! The HTML report in a real browser: nothing is fetched, nothing is complained of, every run is
//! drawn, on a phone and on a desk, by day and by night.

#![allow(clippy::unwrap_used)] // A helper that fails fails its test.

use std::process::{Command, ExitCode};

use crate::common::Scratch;
use serde_json::Value;
use tidemill_bench::cli::run_experiment;

const BLOCKS: usize = 3;

/// Two arms, one of them with a name that is no HTML, and two loads, each of a number of requests:
/// which percentiles have enough samples must not depend on the machine.
fn experiment() -> String {
    let arm = |name: &str| {
        format!(
            "[[arm]]\nname = '{name}'\nserver = \"redis-server --port {{port}} --bind 127.0.0.1 \
             --save ''\"\n"
        )
    };
    let load = |name: &str, flags: &str| {
        format!(
            "[[load]]\nname = '{name}'\nflags = \"-t 1 -c 4 --key-maximum 1000 --preload \
             {flags}\"\n"
        )
    };
    format!(
        "name = \"browser\"\ndescription = \"<script>console.log('no')</script>\"\nblocks = \
         {BLOCKS}\n{}{}{}{}",
        arm("plain"),
        arm("<b>\"second\" & bold</b>"),
        load("pipeline 1", "-n 12000"),
        load("pipeline 16 <i>", "-n 100000 --pipeline 16"),
    )
}

fn chromium() -> &'static str {
    let known = ["chromium-headless-shell", "chromium"];
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    known.into_iter().find(runs).expect("Chromium is installed (scripts/setup)")
}

/// Contents that each reader of the page gets to see. `TIDEMILL_PICTURES` names a directory for
/// screenshots.
fn look(report: &std::path::Path) -> Vec<Value> {
    let top = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let mut command = Command::new("node");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/browser/look.cjs"));
    command.arg(format!("{top}build/tools/browser/node_modules/playwright-core"));
    let path =
        Command::new("sh").args(["-c", &format!("command -v {}", chromium())]).output().unwrap();
    command.arg(String::from_utf8(path.stdout).unwrap().trim()).arg(report);
    command.args(std::env::var_os("TIDEMILL_PICTURES"));
    let output = command.output().expect("node is installed (scripts/setup)");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn the_report_is_whole_in_a_browser() {
    let scratch = Scratch::new("browser");
    std::fs::write(scratch.0.join("e.toml"), experiment()).unwrap();
    let path = |name: &str| scratch.0.join(name).display().to_string();
    let words = ["run", &path("e.toml"), "--out", &path("out")];
    assert_eq!(run_experiment(words.iter().map(Into::into).collect()), ExitCode::SUCCESS);
    let document: Value = serde_json::from_str(&scratch.file("out/report.json")).unwrap();
    let url = format!("file://{}", path("out/report.html"));
    let seen = look(&scratch.0.join("out/report.html"));
    assert_eq!(seen.len(), 4);
    for page in &seen {
        let reader = page["reader"].as_str().unwrap();
        assert_eq!(page["messages"], Value::Array(Vec::new()), "{reader}");
        assert_eq!(page["requests"], serde_json::json!([url]), "{reader}");
        check_page(page, reader);
        check_charts(page, &document, reader);
    }
}

fn check_page(page: &Value, reader: &str) {
    assert_eq!(number(&page["paper"]) < 0.1, reader.ends_with("dark"), "{reader}");
    assert!(number(&page["contrast"]) > 7.0, "{reader}");
    assert!(
        number(&page["pageWidth"]) <= number(&page["windowWidth"]),
        "{reader}: the page is wider than its window"
    );
    let text = page["text"].as_str().unwrap();
    assert!(
        text.contains("<b>\"second\" & bold</b>") && text.contains("<script>"),
        "{reader}: {text}"
    );
    let headings: Vec<&str> =
        page["headings"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for wanted in [
        "Verdicts",
        "pipeline 1",
        "pipeline 16 <i>",
        "All figures",
        "ops/s [pipeline 1]",
        "GET p99, ms [pipeline 16 <i>]",
    ] {
        assert!(headings.contains(&wanted), "{reader}: no {wanted:?} in {headings:?}");
    }
    // The second arm in two metrics under two loads; then three arms, the repeated one among them,
    // in each.
    let rows: Vec<u64> =
        page["rows"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
    assert_eq!(rows[0], 4, "{reader}");
    assert!(rows.len() > 20 && rows[1..].iter().all(|&count| count == 3), "{reader}: {rows:?}");
}

/// Every run that the JSON report holds is drawn in each chart that shows it.
fn check_charts(page: &Value, document: &Value, reader: &str) {
    let charts = page["charts"].as_array().unwrap();
    let kinds = |kind: &str| charts.iter().filter(|chart| chart["chart"] == kind).count();
    // Per load two metrics, one panel of curves, one of series.
    assert_eq!(
        (kinds("ratios"), kinds("points"), kinds("curves"), kinds("series")),
        (1, 4, 2, 2),
        "{reader}"
    );
    for chart in charts {
        let name = format!("{reader}: {} {} {}", chart["chart"], chart["load"], chart["metric"]);
        assert!(number(&chart["width"]) > 200.0 && number(&chart["height"]) > 60.0, "{name}");
        assert!(number(&chart["smallestText"]) > 10.0, "{name}: {}", chart["smallestText"]);
        assert!(number(&chart["faintestText"]) > 4.5, "{name}: {}", chart["faintestText"]);
        assert_eq!(chart["beyond"], Value::Array(Vec::new()), "{name}");
        let drawn = chart["drawn"].as_object().unwrap();
        if chart["chart"] == "ratios" {
            assert_eq!(
                *drawn,
                *serde_json::json!({"<b>\"second\" & bold</b>": 4}).as_object().unwrap()
            );
            continue;
        }
        for arm in ["plain", "<b>\"second\" & bold</b>", "A/A"] {
            let runs = document["runs"].as_array().unwrap().iter();
            let shown = |run: &&Value| {
                let measured = match chart["chart"].as_str() {
                    Some("points") => {
                        run["metrics"].get(chart["metric"].as_str().unwrap()).is_some()
                    }
                    Some("curves") => run["curve"].as_array().unwrap().len() > 1,
                    Some("tails") => run["tails"].as_array().unwrap().len() > 1,
                    _ => run["slots"].as_array().unwrap().len() > 1,
                };
                run["arm"] == arm && run["load"] == chart["load"] && measured
            };
            let expected = runs.filter(shown).count() as u64;
            // A run on a fast machine may be over within a second, of which there is no line.
            let least = u64::from(chart["chart"] != "tails");
            assert!(expected >= least && expected <= BLOCKS as u64, "{name} {arm}: {expected}");
            let drawn = drawn.get(arm).and_then(Value::as_u64).unwrap_or_default();
            assert_eq!(drawn, expected, "{name} {arm}");
        }
    }
}
