//! The example in docs/tuning is what a machine printed.
#![allow(clippy::unwrap_used)] // helpers of tests; the lint knows only test functions

use std::path::Path;

fn read(name: &str) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tuning");
    std::fs::read_to_string(directory.join(name)).unwrap()
}

/// Lines of the blocks that begin with a command of `tidemill tune`.
fn quoted(text: &str) -> Vec<&str> {
    let blocks = text.split("```").skip(1).step_by(2).map(str::trim);
    let commands = blocks.filter(|block| block.starts_with("$ tidemill tune"));
    commands.flat_map(str::lines).filter(|line| *line != "...").collect()
}

#[test]
fn each_line_of_the_documented_example_is_in_the_transcript_and_in_its_order() {
    let (readme, transcript) = (read("README.md"), read("transcript.txt"));
    let quoted = quoted(&readme);
    assert!(quoted.len() > 50, "{} lines", quoted.len());
    let mut rest = transcript.lines();
    for line in quoted {
        assert!(rest.any(|said| said == line), "not in the transcript, or not there: {line}");
    }
}
