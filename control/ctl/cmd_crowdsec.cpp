#include <memory>

#include "control/ctl/adapters.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"

// CrowdSec's decisions as entries of a dynamic list. weir-connect follows them (control/connect/crowdsec.cpp).
namespace weir::control::ctl {

void members(Fields& f, CrowdsecRound& round) {
  f.unless_empty({"list", "", "that follows the decisions"}, round.list);
  f({"entries", "", "addresses and prefixes that decisions are about"}, round.entries);
  f({"added", "", "to the list, in this round"}, round.added);
  f({"renewed", "", "of its entries: they end otherwise than before"}, round.renewed);
  f({"deleted", "", "of them"}, round.deleted);
  f({"no_room", "", "that max_entries of the list leaves out"}, round.no_room);
  f({"elsewhere", "", "that somebody else added to the list, which are left as they are"}, round.elsewhere);
  f({"skipped", "", "decisions that were not taken: of another type, scope or form"}, round.skipped);
  f({"acknowledged", "", "whether every target has the changes"}, round.has_all_acknowledged);
  f.unless_empty({"api_error", "", "why CrowdSec could not be asked"}, round.api_error);
  f.unless_empty({"controld_error", "", "why the list could not be changed"}, round.controld_error);
}

namespace cmd_crowdsec {

Run configure(Options& options) {
  auto arguments = std::make_shared<CrowdsecArguments>();
  options.text("--url", "URL", arguments->url, "of CrowdSec's local API");
  options.text("--key-file", "FILE", arguments->key_file, "its first line is what `cscli bouncers add NAME` printed")
      .files();
  options.text("--list", "NAME", arguments->list,
               "the list that follows; where one list is dynamic it may be left out");
  options.text("--every", "TIME", arguments->every, "how often it is asked what changed");
  options.texts("--type", "TYPE", arguments->types, "take decisions of this type; default: ban");
  options
      .text("--ca-file", "FILE", arguments->ca_file,
            "who may vouch for a server with https; default: as the system says")
      .files();
  options.text("--cert", "FILE", arguments->cert_file, "instead of --key-file: the certificate that says who asks")
      .files();
  options.text("--cert-key", "FILE", arguments->cert_key_file, "its key").files();
  options.flag("--once", arguments->once, "make the list as it should be now, then exit");
  options.needs("--cert", "--cert-key");
  options.needs("--cert-key", "--cert");
  options.exactly_one({"--key-file", "--cert"});
  return [arguments](const Context& context) { return adapters.crowdsec(context, *arguments); };
}

}  // namespace cmd_crowdsec

const Command kCrowdsec = {
    "crowdsec",
    Group::change,
    "keep a dynamic list as CrowdSec decides, until it is told to end",
    "What CrowdSec calls a bouncer: asks its local API which decisions are new and which are over, and adds and "
    "deletes "
    "entries. Bans of addresses and ranges are taken. Each entry ends with its decision, also when nobody is left to "
    "delete it. While CrowdSec or controld is away it tries again; what was decided meanwhile is made up for. With "
    "--json it prints an object for each round that changed something or failed.\n"
    "\n"
    "  cscli bouncers add weir -o raw > /etc/weir/crowdsec.key\n"
    "  controlctl crowdsec --key-file /etc/weir/crowdsec.key --list crowdsec",
    cmd_crowdsec::configure,
    [](MemberTable& table) { table.add<CrowdsecRound>("crowdsec"); }};

}  // namespace weir::control::ctl
