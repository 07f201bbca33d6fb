//! The `HELP` of containers.

use tidemill_resp::encode::ReplyBuffer;

/// Answers the subcommands of a container, with what each does.
pub(crate) fn reply(reply: &mut ReplyBuffer, container: &str, subcommands: &[(&str, &str)]) {
    reply.array(3 + 2 * subcommands.len());
    reply.simple_string(&format!(
        "{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    ));
    for (syntax, summary) in subcommands {
        reply.simple_string(syntax);
        reply.simple_string(&format!("    {summary}"));
    }
    reply.simple_string("HELP");
    reply.simple_string("    Print this help.");
}
