//! Exceptions: every violation of today with its extent. The list can only shrink: an exception
//! that is larger than needed fails as well, and an update refuses to let a rule's total grow.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use crate::{Finding, Rule};

/// Path of the list.
pub const LIST: &str = "tests/tidy/exceptions.txt";

/// Head of the list.
const HEAD: &str = "\
# Violations of the rules of tests/tidy, with their extent: RULE EXTENT PLACE [# REASON].
# `make tidy-update` lowers and removes entries; it refuses to let a rule's total grow. An entry
# without a reason is a debt, one with a reason may stay.
";

/// An exception.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    /// The rule.
    pub rule: Rule,
    /// Extent that is allowed.
    pub extent: usize,
    /// Place, as in [`Finding::place`].
    pub place: String,
    /// Reason to stay, if any.
    pub reason: String,
    /// Line in the list, counted from 1.
    pub line: usize,
}

/// Exceptions of a list.
///
/// # Errors
///
/// The lines that are no exceptions, or name a place twice.
pub fn parse(list: &str) -> Result<Vec<Exception>, String> {
    let mut exceptions: Vec<Exception> = Vec::new();
    let mut errors = String::new();
    for (index, text) in list.lines().enumerate() {
        let (entry, reason) = text.split_once('#').unwrap_or((text, ""));
        let fields: Vec<&str> = entry.split_whitespace().collect();
        let parsed = match fields.as_slice() {
            [] => continue,
            [rule, extent, place] => {
                Rule::named(rule).zip(extent.parse().ok()).map(|(rule, extent)| Exception {
                    rule,
                    extent,
                    place: (*place).to_owned(),
                    reason: reason.trim().to_owned(),
                    line: index + 1,
                })
            }
            _ => None,
        };
        let is_same = |other: &Exception, new: &Exception| {
            (other.rule, &other.place) == (new.rule, &new.place)
        };
        match parsed {
            Some(new) if !exceptions.iter().any(|other| is_same(other, &new)) => {
                exceptions.push(new);
            }
            _ => {
                let _ =
                    writeln!(errors, "{LIST}:{}: not an exception, or twice: {text}", index + 1);
            }
        }
    }
    if errors.is_empty() { Ok(exceptions) } else { Err(errors) }
}

/// Extent of an exception for a finding: its measure, rounded up to the rule's step.
fn extent(finding: &Finding) -> usize {
    finding.measure.next_multiple_of(finding.rule.step())
}

/// Report of what no exception allows and of exceptions that are larger than needed; empty if the
/// tree is tidy.
#[must_use]
pub fn judge(findings: &[Finding], exceptions: &[Exception]) -> Vec<String> {
    let allowed: HashMap<(Rule, &str), &Exception> = exceptions
        .iter()
        .map(|exception| ((exception.rule, exception.place.as_str()), exception))
        .collect();
    let mut report = Vec::new();
    for finding in findings {
        let exception = allowed.get(&(finding.rule, finding.place.as_str()));
        let allowed = exception.map_or(0, |exception| exception.extent);
        if finding.measure > allowed {
            report.extend(excess(finding, allowed));
        } else if let Some(exception) = exception.filter(|_| extent(finding) < allowed) {
            report.push(stale(exception, extent(finding)));
        }
    }
    let is_found = |exception: &&Exception| {
        findings
            .iter()
            .any(|finding| (finding.rule, &finding.place) == (exception.rule, &exception.place))
    };
    let unneeded = exceptions.iter().filter(|exception| !is_found(exception));
    report.extend(unneeded.map(|exception| stale(exception, 0)));
    report
}

fn excess(finding: &Finding, allowed: usize) -> Vec<String> {
    let Finding { rule, place, measure, sites } = finding;
    let (name, remedy) = (rule.name(), rule.remedy());
    let mut lines: Vec<String> = sites
        .iter()
        .map(|site| format!("{}:{}: {name}: {}; {remedy}", site.path, site.line, site.fact))
        .collect();
    if allowed > 0 {
        let excess = format!("{measure} at {place}, {LIST} allows {allowed}");
        lines.push(format!("  {name}: {excess}: mend those in the lines that you changed"));
    }
    lines
}

fn stale(exception: &Exception, needed: usize) -> String {
    let Exception { rule, extent, place, line, .. } = exception;
    let name = rule.name();
    format!(
        "{LIST}:{line}: {name}: {place} needs {needed}, not {extent}; run `make tidy-update` and \
         commit the shorter list"
    )
}

/// List that allows the findings and no more; reasons are kept.
///
/// # Errors
///
/// The new and larger entries of each rule whose total grows, if it is not among `may_grow`.
pub fn update(
    findings: &[Finding],
    exceptions: &[Exception],
    may_grow: &[Rule],
) -> Result<String, String> {
    let before: BTreeMap<(Rule, &str), &Exception> = exceptions
        .iter()
        .map(|exception| ((exception.rule, exception.place.as_str()), exception))
        .collect();
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| (finding.rule, &finding.place));
    let mut errors = String::new();
    let mut list = HEAD.to_owned();
    for rule in Rule::ALL {
        let of_rule: Vec<&Finding> =
            sorted.iter().copied().filter(|finding| finding.rule == rule).collect();
        let total: usize = of_rule.iter().map(|finding| extent(finding)).sum();
        let of_rule_before = exceptions.iter().filter(|exception| exception.rule == rule);
        let total_before: usize = of_rule_before.map(|exception| exception.extent).sum();
        if !of_rule.is_empty() {
            let _ = writeln!(list, "\n# {}", rule.name());
        }
        let is_growth = total > total_before && !may_grow.contains(&rule);
        if is_growth {
            let _ = writeln!(errors, "{}: {total_before} grows to {total}:", rule.name());
        }
        for finding in of_rule {
            let old = before.get(&(rule, finding.place.as_str()));
            let reason = old.map_or("", |old| old.reason.as_str());
            let mark = if reason.is_empty() { "" } else { "  # " };
            let entry = format!("{} {} {}", rule.name(), extent(finding), finding.place);
            let _ = writeln!(list, "{entry}{mark}{reason}");
            if is_growth && old.is_none_or(|old| old.extent < extent(finding)) {
                let _ = writeln!(errors, "  {entry}");
            }
        }
    }
    if errors.is_empty() { Ok(list) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Site;

    fn finding(rule: Rule, place: &str, measure: usize) -> Finding {
        Finding::new(rule, place, measure, Site::new(place, 7, "fact"))
    }

    fn judged(findings: &[Finding], list: &str) -> Vec<String> {
        judge(findings, &parse(list).expect("a valid list"))
    }

    #[test]
    fn violation_without_exception_names_file_line_rule_and_remedy() {
        let report = judged(&[finding(Rule::LineWidth, "a.rs", 1)], "");
        assert_eq!(report, ["a.rs:7: line-width: fact; wrap the line"]);
    }

    #[test]
    fn violation_beyond_its_exception_fails() {
        let findings = [finding(Rule::LineWidth, "a.rs", 3)];
        assert!(judged(&findings, "line-width 3 a.rs\n").is_empty());
        let report = judged(&findings, "line-width 2 a.rs\n");
        assert!(report[1].contains("3 at a.rs") && report[1].contains("allows 2"), "{report:?}");
        assert_eq!(judged(&findings, "file-length 3 a.rs\nline-width 3 b.rs\n").len(), 3);
    }

    #[test]
    fn exception_larger_than_needed_is_stale() {
        let findings = [finding(Rule::LineWidth, "a.rs", 3)];
        let report = judged(&findings, "# head\nline-width 4 a.rs\n");
        assert!(report[0].starts_with("tests/tidy/exceptions.txt:2: line-width: a.rs needs 3"));
        assert_eq!(judged(&[], "line-width 1 a.rs\n").len(), 1);
    }

    #[test]
    fn exception_of_a_long_file_has_room_for_small_edits() {
        let list = "file-length 900 a.rs\n";
        let judged = |measure| judged(&[finding(Rule::FileLength, "a.rs", measure)], list).len();
        assert_eq!([judged(850), judged(851), judged(900), judged(901)], [1, 0, 0, 2]);
    }

    #[test]
    fn list_with_a_wrong_or_repeated_line_is_refused() {
        assert!(parse("line-length 1 a.rs\n").is_err());
        assert!(parse("line-width a.rs 1\n").is_err());
        assert!(parse("line-width 1 a.rs\nline-width 1 a.rs\n").is_err());
        assert!(parse("\n# comment\nline-width 1 a.rs # reason\n").is_ok());
    }

    #[test]
    fn update_lowers_moves_and_keeps_reasons() {
        let before = parse("line-width 4 a.rs # table\nline-width 2 b.rs\n").expect("valid");
        let findings = [finding(Rule::LineWidth, "c.rs", 3), finding(Rule::LineWidth, "a.rs", 3)];
        let list = update(&findings, &before, &[]).expect("the total does not grow");
        assert!(list.ends_with("line-width 3 a.rs  # table\nline-width 3 c.rs\n"), "{list}");
        assert!(judged(&findings, &list).is_empty());
    }

    #[test]
    fn update_refuses_growth() {
        let before = parse("line-width 1 a.rs\nphrase 1 docs\n").expect("valid");
        let findings = [finding(Rule::LineWidth, "b.rs", 2), finding(Rule::Phrase, "docs", 1)];
        let error = update(&findings, &before, &[]).expect_err("the total grows");
        assert_eq!(error, "line-width: 1 grows to 2:\n  line-width 2 b.rs\n");
        assert!(update(&findings, &before, &[Rule::LineWidth]).is_ok());
    }
}
