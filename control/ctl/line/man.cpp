#include <fmt/format.h>

#include "common/manual/roff.h"
#include "control/ctl/line/pages.h"

namespace weir::control::ctl {

namespace {

struct ExitText {
  Exit code;
  const char* text;
};
constexpr ExitText kExits[] = {
    {kOk, "done"},
    {kFailed, "the request failed"},
    {kUsage, "wrong command line"},
    {kNotAcknowledged,
     "not every target acknowledged (a line for each target that did not says why), or a feed was refused and its list "
     "keeps what it had"},
    {kUnreachable, "controld cannot be reached"},
    {kOverLimit, "a limit of the policy's `plan` is exceeded: nothing is changed"},
    {kWrong, "status: something is wrong"}};

// What is not in the table of commands.
constexpr const char* kRest = R"(.SH FILES
.TP
.I /run/weir/controld.sock
where controld answers, for root; everybody else has one in
.I $XDG_RUNTIME_DIR/weir
or
.IR /run/user/UID/weir .
.TP
.I /etc/weir/weir.yaml
the policy that controld reads when it is not told another one
.SH ENVIRONMENT
.TP
.B WEIR_FORCE_ISA
the instruction set that filters are read with, for commands that work
without controld: scalar, avx2 or avx512; one that is unknown or that
this machine lacks is an error
.TP
.B XDG_RUNTIME_DIR
where the sockets of everybody but root are
.SH EXAMPLES
Check a changed policy, publish it, and go back in a minute unless that
is confirmed:
.PP
.nf
    controlctl check /etc/weir/weir.yaml
    controlctl reload \-\-confirm 60s
    controlctl confirm
.fi
.PP
Block an address for an hour in the dynamic list
.BR bans ,
ask what becomes of its packets and why, and watch what drops:
.PP
.nf
    controlctl add 203.0.113.7 \-\-list bans \-\-ttl 1h
    controlctl explain 203.0.113.7
    controlctl top
.fi
.SH SEE ALSO
.BR controld (8),
.BR dataplane (8),
.BR weir.yaml (5),
.BR steer.yaml (5)
)";

}  // namespace

std::string man_page(Commands commands) {
  using manual::escaped;
  std::string text =
      manual::title("CONTROLCTL", 1, "User Commands") +
      ".SH NAME\ncontrolctl \\- ask controld what is enforced, and change it\n"
      ".SH SYNOPSIS\n.B controlctl\n.I COMMAND\n.RB [ \\-\\-json ]\n.RB [ \\-\\-socket\n.IR PATH ]\n"
      ".RI [ OPTION "
      ".\\|.\\|.]\n"
      ".SH DESCRIPTION\nEach command is one request to\n.BR controld (8),\nthe daemon of the packet filter "
      "weir, and one answer.\n"
      ".SH OPTIONS OF EVERY COMMAND\n";
  const Common common("");  // its default depends on who asks
  text += manual::rows(common.options);
  text += manual::item("\\fB\\-\\-help\\fR", "what the command does, and its options");
  text += ".SH COMMANDS\n";
  for (const Command* command : commands) {
    Options options;
    const Run keeps_the_targets = command->configure(options);
    text += fmt::format(".SS {}\n{}", escaped(command->name), manual::paragraphs(std::string(command->help) + "."));
    if (*command->details != '\0') text += ".PP\n" + manual::paragraphs(command->details);
    text += manual::rows(options);
  }
  text += ".SH EXIT STATUS\n";
  for (const ExitText& exit : kExits) {
    text += manual::item(fmt::format("\\fB{}\\fR", static_cast<int>(exit.code)), exit.text);
  }
  return text + kRest;
}

}  // namespace weir::control::ctl
