//! What the tests that run loads share.

/// The warnings of a text report that a correct run never gives.
///
/// That the load thread was busy says how fast the machine is, not whether the run was right.
pub fn doubts(report: &str) -> Vec<&str> {
    let lines = report.lines().filter(|line| line.starts_with("WARNING"));
    lines.filter(|line| !line.ends_with("the client may be the bottleneck")).collect()
}
