//! The system's text of an error, as Valkey prints it.

use std::io;

/// An error's text without what `std` adds: the number behind it, and before it which call could
/// not find a host.
#[must_use]
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.trim_start_matches("failed to lookup address information: ");
    text.split(" (os error").next().unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_what_strerror_says() {
        assert_eq!(reason(&io::Error::from_raw_os_error(98)), "Address already in use");
        let unknown = "failed to lookup address information: Name or service not known";
        assert_eq!(reason(&io::Error::other(unknown)), "Name or service not known");
    }
}
