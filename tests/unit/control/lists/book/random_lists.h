#pragma once

#include <algorithm>
#include <random>
#include <string>

#include "control/policy/model/columns.h"
#include "tests/catch.h"

// Lists of a small world (64 addresses), so that entries nest and repeat, and packets meet them.
namespace weir::control {

constexpr uint64_t kNow = 1'800'000'000;

struct RandomLists {
  std::mt19937_64 random;

  uint64_t below(uint64_t n) { return random() % n; }
  Ipv4 address() { return static_cast<Ipv4>(0x0a000000 + below(64)); }

  ListDraft draft() {
    ListDraft draft;
    const bool only_hosts = below(4) == 0;
    uint32_t line = 1;
    for (uint64_t i = below(60); i > 0; i--, line++) {
      Entry<Ipv4> entry = {};
      entry.first = address();
      entry.last = only_hosts || below(2) == 0 ? entry.first : std::max(entry.first, address());
      entry.line = line;
      entry.port = !only_hosts && below(3) == 0 ? uint16_t{443} : uint16_t{0};
      entry.directions = only_hosts ? uint8_t{1} : static_cast<uint8_t>(1 + below(3));
      entry.source = static_cast<uint8_t>(below(2));
      entry.expires = !only_hosts && below(3) == 0 ? static_cast<uint32_t>(kNow - 1 + below(3)) : kNever;
      if (below(4) == 0) {
        draft.v6.push_back(
            {entry.first, entry.last, entry.line, entry.port, entry.directions, entry.source, entry.expires});
      } else {
        draft.v4.push_back(entry);
      }
    }
    for (uint64_t i = below(10); i > 0; i--, line++) draft.flows.push_back(flow(line));
    return draft;
  }

  Flow flow(uint32_t line) {
    Flow flow;
    flow.family = 4;
    flow.line = line;
    const Ipv4 first = address();
    if (below(2) == 0) flow.src = AddressRange{first, first + below(8)};
    if (below(2) == 0) flow.dst = AddressRange{first, first + below(8)};
    if (!flow.src && !flow.dst) flow.family = 0;
    flow.protocol = static_cast<uint8_t>(below(2) == 0 ? 6 : 17);
    if (below(2) == 0) flow.dport = PortRange{440, static_cast<uint16_t>(440 + below(8))};
    if (below(3) == 0) flow.expires = static_cast<uint32_t>(kNow - 1 + below(3));
    return flow;
  }

  List list(const std::string& name) {
    List list;
    list.name = name;
    list.policy_path = "weir.yaml";
    list.feed.path = "feeds/" + name;
    list.content = make_entries(draft());
    return list;
  }
};

}  // namespace weir::control
