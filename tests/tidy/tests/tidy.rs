//! The rules of style, over the whole repository.
//!
//! `make tidy-update` sets `TIDEMILL_TIDY_UPDATE`, and the list of exceptions is written anew; the
//! rules named in `TIDEMILL_TIDY_GROW`, separated by commas, may then grow.

use std::env;

use tidemill_tidy::layout::CRATES;
use tidemill_tidy::{Repository, Rule, check, exceptions};

#[test]
fn repository_keeps_its_rules() {
    let root = Repository::root();
    if !root.join(".git").exists() {
        // An archive of the sources, as packagers build: git cannot tell its files from others.
        println!("no repository: nothing checked");
        return;
    }
    let repository = Repository::read();
    let findings = check::findings(&repository, CRATES);
    let list = repository.text(exceptions::LIST).unwrap_or_default();
    let excepted = exceptions::parse(list).unwrap_or_else(|error| panic!("{error}"));
    if env::var_os("TIDEMILL_TIDY_UPDATE").is_some() {
        let may_grow = rules(&env::var("TIDEMILL_TIDY_GROW").unwrap_or_default());
        let updated = exceptions::update(&findings, &excepted, &may_grow)
            .unwrap_or_else(|error| panic!("the list of exceptions may only shrink\n{error}"));
        std::fs::write(root.join(exceptions::LIST), updated).expect("the list can be written");
        return;
    }
    let report = exceptions::judge(&findings, &excepted);
    assert!(report.is_empty(), "{} violations\n{}\n", report.len(), report.join("\n"));
}

fn rules(names: &str) -> Vec<Rule> {
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(|name| Rule::named(name).unwrap_or_else(|| panic!("no rule {name}"))).collect()
}
