//! Flags that must fit together.

use clap::CommandFactory;

use super::arguments::Arguments;

#[test]
fn the_flags_are_consistent() {
    Arguments::command().debug_assert();
}
