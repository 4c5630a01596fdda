#include <fmt/format.h>

#include <charconv>
#include <cstdio>

#include "common/log/log.h"
#include "control/connect/flowspec_list.h"
#include "control/connect/flowspec_peer.h"
#include "control/connect/follow.h"
#include "control/ctl/client.h"
#include "control/ctl/line/out.h"
#include "control/policy/model/time_text.h"

namespace weir::control::ctl {

namespace cmd_flowspec {

using Arguments = FlowspecArguments;

constexpr uint16_t kBgpPort = 179;

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

}  // namespace cmd_flowspec

int follow_flowspec(const Context& context, const FlowspecArguments& arguments) {
  using namespace cmd_flowspec;
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

}  // namespace weir::control::ctl
