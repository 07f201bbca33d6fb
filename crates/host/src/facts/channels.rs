//! Number of combined queues of a network interface, present and possible: as `ethtool -l` shows
//! and `-L` sets them.
//!
//! The kernel has no file for them, so they get paths of our own,
//! `/tidemill/channels/INTERFACE/combined`: on the running machine a path means the ioctl, in a
//! capture a file. So a number of queues is proposed, journalled, verified and undone like any
//! other setting.

use std::io;

use crate::{ReadError, Refusal, Root, sys};

/// Directory of a capture that keeps them.
pub(crate) const CAPTURED_CHANNELS: &str = "/tidemill/channels/";
const COUNT: &str = "/combined";
const MAX: &str = "/combined_max";

/// Combined queues of one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    /// In use.
    pub combined: u32,
    /// As many as the device has.
    pub combined_max: u32,
}

/// Path that means an interface's number of combined queues.
pub(crate) fn channels_path(interface: &str) -> String {
    format!("{CAPTURED_CHANNELS}{interface}{COUNT}")
}

/// Interface whose number of queues a path means.
pub(crate) fn channels_interface(path: &str) -> Option<&str> {
    let interface = path.strip_prefix(CAPTURED_CHANNELS)?.strip_suffix(COUNT)?;
    (!interface.contains('/')).then_some(interface)
}

/// An interface's combined queues; `None` when its driver has no such number or a capture does not
/// tell it.
///
/// # Errors
/// The refusal, by the path that means the number.
pub fn channels(root: &Root, interface: &str) -> Result<Option<Channels>, ReadError> {
    let path = channels_path(interface);
    let found = match root.is_live() {
        true => match sys::combined_queues(interface) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(None),
            found => found.map_err(|error| ReadError::from_io(&path, &error))?,
        },
        false => match root.value(&path) {
            Err(error) if error.refusal == Refusal::Absent => return Ok(None),
            combined => (combined?, root.value(&format!("{CAPTURED_CHANNELS}{interface}{MAX}"))?),
        },
    };
    let (combined, combined_max) = found;
    Ok((combined_max > 0).then_some(Channels { combined, combined_max }))
}

/// Sets the number of combined queues of an interface of the running machine.
///
/// # Errors
/// The kernel's error: EINVAL beyond what the device has, EBUSY while queues are in use otherwise.
pub(crate) fn set_channels(interface: &str, count: &str) -> io::Result<()> {
    let count = count.parse().map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    sys::set_combined_queues(interface, count)
}

/// Files that a capture keeps of them, by path.
pub(crate) fn captured(interface: &str, channels: Channels) -> [(String, String); 2] {
    let Channels { combined, combined_max } = channels;
    [
        (channels_path(interface), combined.to_string()),
        (format!("{CAPTURED_CHANNELS}{interface}{MAX}"), combined_max.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn a_path_names_one_interface_and_nothing_else() {
        assert_eq!(channels_interface(&channels_path("eth0.7")), Some("eth0.7"));
        assert_eq!(channels_interface("/tidemill/channels/a/b/combined"), None);
        assert_eq!(channels_interface("/tidemill/channels/eth0/combined_max"), None);
        assert_eq!(channels_interface("/proc/sys/vm/swappiness"), None);
    }

    #[test]
    fn a_capture_tells_both_numbers_or_none() {
        let found = Channels { combined: 2, combined_max: 8 };
        let files = captured("eth0", found);
        let files =
            files.each_ref().map(|(path, text)| (path.trim_start_matches('/'), text.as_str()));
        let (_directory, root) = tree(&files);
        assert_eq!(channels(&root, "eth0").unwrap(), Some(found));
        assert_eq!(channels(&root, "eth1").unwrap(), None);
        let (_directory, root) = tree(&files[..1]);
        assert_eq!(channels(&root, "eth0").unwrap_err().refusal, Refusal::Absent);
    }

    #[test]
    fn the_kernel_answers_for_the_loopback_and_refuses_absent_interfaces() {
        // The loopback has no queues to set; a driver may have learnt to tell that it has none.
        assert_eq!(channels(&Root::live(), "lo").unwrap(), None);
        let refusal = channels(&Root::live(), "no-such-nic").unwrap_err().refusal;
        assert_eq!(refusal, Refusal::Absent);
        assert_eq!(set_channels("lo", "x").unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }
}
