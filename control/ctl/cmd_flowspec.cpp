#include <memory>

#include "control/ctl/adapters.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"

// The rules of a BGP peer as entries of a dynamic list, and the other way round. weir-connect speaks with the peer
// (control/connect/flowspec.cpp).
namespace weir::control::ctl {

void members(Fields& f, FlowspecStatus& status) {
  f({"peer", "", "its address"}, status.peer);
  f({"state", "", "connecting, waiting (for the peer to connect), or established"}, status.state);
  f({"list", "", "that takes its rules"}, status.list);
  f({"rules", "", "that the peer announces, the refused ones included"}, status.counts.rules);
  f({"refused", "", "of these, that have no entries"}, status.counts.refused);
  f({"entries", "", "that the list holds for them"}, status.counts.entries);
  f({"pending", "", "rules that the list lacks still, and entries that are to go from it"}, status.counts.pending);
  f({"announced", "", "rules that are announced to the peer"}, status.announced);
}

void members(Fields& f, FlowspecRefusal& refusal) {
  f({"refused", "", "the rule"}, refusal.refused);
  f({"reason", "", "why it has no entries"}, refusal.reason);
}

namespace cmd_flowspec {

Run configure(Options& options) {
  auto arguments = std::make_shared<FlowspecArguments>();
  options
      .text("--peer", "ADDRESS[:PORT]", arguments->peer,
            "the one neighbour that is spoken with; IPv6 with a port in brackets; port 179")
      .required();
  options.text("--listen", "ADDRESS[:PORT]", arguments->listen,
               "wait here for the peer to connect; default: connect to it");
  options.text("--as", "N", arguments->as, "the AS number of this side").required();
  options.text("--peer-as", "N", arguments->peer_as, "the AS number of the peer; default: the same");
  options.text("--router-id", "ID", arguments->router_id,
               "the BGP identifier of this side, written as an IPv4 address");
  options.number("--hold", "SECONDS", arguments->hold, "the session ends when nothing was heard for so long; 0: never")
      .range(0, UINT16_MAX);
  options.text("--list", "NAME", arguments->list,
               "takes the peer's rules; where one list is dynamic it may be left out");
  options.text("--stale", "TIME", arguments->stale, "how long entries stay when the session is lost");
  options.text("--announce", "NAME", arguments->announce, "announce the entries of this list to the peer as dropped");
  options.number("--every", "SECONDS", arguments->every, "how often the list that is announced is read").range(1, 3600);
  options.number("--max-rules", "N", arguments->max_rules, "rules that are taken and announced at most")
      .range(1, 1'000'000);
  options.needs("--every", "--announce");
  return [arguments](const Context& context) { return adapters.flowspec(context, *arguments); };
}

}  // namespace cmd_flowspec

const Command kFlowspec = {
    "flowspec",
    Group::change,
    "drop what a BGP FlowSpec speaker announces, and announce what weir drops; until Ctrl-C",
    "Speaks BGP with one neighbour, ExaBGP, GoBGP or a router, which announces rules of FlowSpec (RFC 8955, RFC 8956). "
    "Rules that drop become entries of a dynamic list, with the rule in their comments; when they are withdrawn, the "
    "entries go. What weir has no entry for is refused, and the log says why. When the program ends, entries stay for "
    "--stale. With --json every change of state is a line.\n\nExit code 4: controld cannot be reached.",
    cmd_flowspec::configure,
    [](MemberTable& table) {
      table.add<FlowspecStatus>("flowspec");
      table.add<FlowspecRefusal>("flowspec, of a rule");
    }};

}  // namespace weir::control::ctl
