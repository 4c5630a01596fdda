#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <memory>

#include "common/log/log.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/flowspec_list.h"
#include "control/ctl/flowspec_peer.h"
#include "control/ctl/line/out.h"
#include "control/policy/model/time_text.h"

namespace weir::control::ctl {

namespace cmd_flowspec {

constexpr uint16_t kBgpPort = 179;

struct Arguments {
  std::string peer, listen, router_id = "127.0.0.1";
  std::string list, announce, stale = "10m";
  std::string as, peer_as;
  unsigned hold = 90, every = 10, max_rules = 10'000;
};

// ADDRESS or ADDRESS:PORT.
Result<ListenAddress> parse_peer_address(const std::string& text) {
  ListenAddress address;
  address.port = kBgpPort;
  if (const std::optional<Ipv4> v4 = parse_ipv4(text)) {
    address.v4 = *v4;
    return address;
  }
  if (const std::optional<Ipv6> v6 = parse_ipv6(text)) {
    address.is_v6 = true;
    address.v6 = *v6;
    return address;
  }
  return parse_listen_address(text);
}

// A number of four bytes; 0 is nobody's (RFC 7607).
std::optional<uint32_t> parse_as(const std::string& text) {
  uint32_t as = 0;
  const char* end = text.data() + text.size();
  const auto [read_to, failure] = std::from_chars(text.data(), end, as);
  return failure == std::errc{} && read_to == end && as != 0 ? std::optional(as) : std::nullopt;
}

int wrong(const std::string& what) {
  print(stderr, "controlctl: {}\n", what);
  return kUsage;
}

int run(const Context& context, const Arguments& arguments) {
  FlowspecPeer::Settings peer;
  const Result<ListenAddress> address = parse_peer_address(arguments.peer);
  if (!address || address->port == 0) {
    return wrong(
        fmt::format("--peer is `{}`: it must be an address, or an address and a port, as in 192.0.2.1 or "
                    "[2001:db8::1]:1790",
                    arguments.peer));
  }
  peer.peer = *address;
  if (!arguments.listen.empty()) {
    const Result<ListenAddress> listen = parse_peer_address(arguments.listen);
    if (!listen || listen->port == 0) {
      return wrong(fmt::format(
          "--listen is `{}`: it must be an address, or an address and a port, as in 192.0.2.2:1790", arguments.listen));
    }
    peer.listen = *listen;
  }
  const std::optional<Ipv4> id = parse_ipv4(arguments.router_id);
  if (!id || *id == 0) {
    return wrong(fmt::format("--router-id is `{}`: it must be written as an IPv4 address, and not be 0.0.0.0",
                             arguments.router_id));
  }
  const std::optional<uint32_t> stale = parse_duration(arguments.stale);
  if (!stale) {
    return wrong(fmt::format("--stale is `{}`: it must be a time like 90s, 10m, 24h or 7d", arguments.stale));
  }
  const std::optional<uint32_t> as = parse_as(arguments.as);
  const std::optional<uint32_t> peer_as = arguments.peer_as.empty() ? as : parse_as(arguments.peer_as);
  if (!as || !peer_as) {
    return wrong(fmt::format("--{} must be an AS number from 1 to 4294967295", as ? "peer-as" : "as"));
  }
  if (arguments.hold != 0 && arguments.hold < 3) return wrong("--hold must be 0 or 3 to 65535 seconds");
  peer.session = {*as, *peer_as, *id, static_cast<uint16_t>(arguments.hold)};
  peer.stale_s = *stale;

  FlowspecSettings settings;
  settings.socket = context.socket;
  settings.peer = peer.peer.is_v6 ? to_string(peer.peer.v6) : to_string(peer.peer.v4);
  settings.list = arguments.list;
  settings.announce = arguments.announce;
  settings.stale_s = *stale;
  settings.every_s = arguments.every;
  settings.limits.rules = arguments.max_rules;
  settings.tells_json = context.json;

  log::start();
  FlowspecPeer link(std::move(peer), context.json);
  FlowspecList list(std::move(settings), [&] { link.wake(); });
  if (const Result<void> found = list.find(); !found) {
    (void)fail(context, found.error());
    return list.is_reached() ? kFailed : kUnreachable;
  }
  if (const Result<void> opened = link.open(); !opened) return fail(context, opened.error()), kFailed;
  list.start();
  link.run(list);
  list.stop();
  return kOk;
}

Run configure(Options& options) {
  auto arguments = std::make_shared<Arguments>();
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
  return [arguments](const Context& context) { return run(context, *arguments); };
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
