//! Texts of a form: addresses and names of nodes, the template of the process' title.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::value::Reason;

/// Form of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextForm {
    /// Address or name of a node, up to 45 characters.
    NodeAddress,
    /// Name of a host: letters, digits, hyphens and dots, up to 255 characters.
    HostName,
    /// Name of a node for people.
    NodeName,
    /// IPv4 address, or empty.
    Ipv4,
    /// IPv6 address without a zone, or empty.
    Ipv6,
    /// Path of a Unix socket, up to 107 bytes.
    SocketPath,
    /// Template of the process' title, with variables in braces.
    TitleTemplate,
    /// Name of a file or directory, without its path.
    BaseName {
        /// The directive.
        of: &'static str,
        /// Valkey's word for that which it names.
        kind: &'static str,
    },
}

const ADDRESS_BYTES_MAX: usize = 45;
const HOST_NAME_BYTES_MAX: usize = 255;

/// Longest path in the address of a Unix socket, of which one byte ends it.
const SOCKET_PATH_BYTES_MAX: usize = 107;

impl TextForm {
    /// The texts of the form, in Markdown.
    pub(super) fn describe(self) -> &'static str {
        match self {
            TextForm::NodeAddress => "address or host name",
            TextForm::HostName => "host name",
            TextForm::NodeName => "text without blanks, quotes and brackets",
            TextForm::Ipv4 => "IPv4 address",
            TextForm::Ipv6 => "IPv6 address",
            TextForm::SocketPath => "path of up to 107 bytes",
            TextForm::TitleTemplate => {
                "text with `{title}`, `{listen-addr}`, `{server-mode}`, `{port}`, `{tls-port}`, \
                 `{unixsocket}`, `{config-file}`"
            }
            TextForm::BaseName { .. } => "name without `/`",
        }
    }

    pub(super) fn check(self, text: &str) -> Result<(), Reason> {
        let reason = match self {
            TextForm::NodeAddress if text.len() > ADDRESS_BYTES_MAX => {
                "cluster-announce-ip is too long"
            }
            TextForm::NodeAddress if !text.bytes().all(is_of_node) => {
                "cluster-announce-ip contains invalid character"
            }
            TextForm::HostName if text.len() > HOST_NAME_BYTES_MAX => {
                "Hostnames must be less than 256 characters"
            }
            TextForm::HostName if !text.bytes().all(is_of_host) => {
                "Hostnames may only contain alphanumeric characters, hyphens or dots"
            }
            TextForm::NodeName if !text.bytes().all(is_of_node) => {
                "Announced human node name contained invalid character"
            }
            TextForm::Ipv4 if !text.is_empty() && text.parse::<Ipv4Addr>().is_err() => {
                "Invalid IPv4 address"
            }
            TextForm::Ipv6 if !text.is_empty() && text.parse::<Ipv6Addr>().is_err() => {
                "Invalid IPv6 address"
            }
            TextForm::SocketPath if text.len() > SOCKET_PATH_BYTES_MAX => {
                "the path of a Unix socket has up to 107 bytes"
            }
            TextForm::TitleTemplate if !is_title_template(text) => {
                "template format is invalid or contains unknown variables"
            }
            TextForm::BaseName { of, .. } if text.is_empty() => {
                return Err(format!("{of} can't be empty").into());
            }
            TextForm::BaseName { of, kind } if !is_base_name(text) => {
                return Err(format!("{of} can't be a path, just a {kind}").into());
            }
            _ => return Ok(()),
        };
        Err(Cow::Borrowed(reason))
    }
}

/// Bytes that need no quotes in the file of a cluster's nodes, as Valkey has it.
fn is_of_node(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-./:_`".contains(&byte) || !byte.is_ascii()
}

fn is_of_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-.".contains(&byte)
}

fn is_base_name(text: &str) -> bool {
    !text.contains(['/', '\\', '\0']) && text != "." && text != ".."
}

/// True if all variables are known and the title is not empty.
fn is_title_template(text: &str) -> bool {
    let mut has_text = false;
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('{') {
        has_text |= before.bytes().any(|byte| byte != b' ');
        if let Some(behind) = behind.strip_prefix('{') {
            // Twice: the brace itself.
            (has_text, rest) = (true, behind);
            continue;
        }
        let Some((name, behind)) = behind.split_once('}') else { return false };
        match name {
            "listen-addr" | "port" | "tls-port" | "config-file" => has_text = true,
            "title" | "server-mode" | "unixsocket" => {}
            _ => return false,
        }
        rest = behind;
    }
    has_text || rest.bytes().any(|byte| byte != b' ')
}

#[cfg(test)]
mod tests {
    use super::TextForm;

    #[test]
    fn texts_of_each_form_are_told_from_others() {
        let longest_name = "n".repeat(255);
        for (form, accepted, refused) in [
            (
                TextForm::NodeAddress,
                vec!["", "127.0.0.256", "::1", "a_b`c/d", "\u{e9}", &longest_name[..45]],
                vec!["a b", "a,b", "a;b", "a@b", "[::1]", "a^b", "{a}", "~", &longest_name[..46]],
            ),
            (
                TextForm::HostName,
                vec!["", "A-b.c9", &longest_name],
                vec!["a_b", "::1", "a b", "\u{e9}", "a\0"],
            ),
            (TextForm::NodeName, vec!["", "a:b", &longest_name], vec!["a b", "a\u{7f}b", "\"a\""]),
            (TextForm::Ipv4, vec!["", "255.0.0.1"], vec!["1.2.3", "1.2.3.04", "1.2.3.256", "::1"]),
            (
                TextForm::Ipv6,
                vec!["", "::", "::ffff:1.2.3.4", "1:2:3:4:5:6:7:8"],
                vec!["1.2.3.4", "[::1]", "::1%lo", "1:2:3:4:5:6:7:8:9", "12345::"],
            ),
            (
                TextForm::SocketPath,
                vec!["", "a b", &longest_name[..107]],
                vec![&longest_name[..108]],
            ),
            (
                TextForm::TitleTemplate,
                vec!["{title} {listen-addr} {server-mode}", "{port}", "x}", "{{title", "\t"],
                vec!["", "  ", "{title}", " {server-mode}{unixsocket}", "x{", "x{Title}", "{}"],
            ),
            (
                TextForm::BaseName { of: "dbfilename", kind: "filename" },
                vec!["dump.rdb", "..a", "a b"],
                vec!["", ".", "..", "/", "a/b", "../a", "a\\b", "a\0"],
            ),
        ] {
            for text in accepted {
                assert_eq!(form.check(text), Ok(()), "{form:?}: {text:?}");
            }
            for text in refused {
                assert!(form.check(text).is_err(), "{form:?}: {text:?}");
            }
        }
    }
}
