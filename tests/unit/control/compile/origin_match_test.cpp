// Which entry matches a packet: on random policies and packets, the answer agrees with every entry asked one by one.
#include <random>

#include "control/book/origin.h"
#include "control/book/origin_record.h"
#include "control/model/flow_condition.h"
#include "control/model/range_text.h"
#include "filter/format/residual.h"
#include "tests/unit/control/compile/make_policy.h"

namespace weir::control {
namespace {

constexpr uint64_t kNow = 1'800'000'000;

weir_packet packet_v4(Ipv4 source, Ipv4 destination, uint8_t protocol, uint16_t sport, uint16_t dport) {
  weir_packet packet = {};
  packet.family = 4;
  packet.address[0][0] = __builtin_bswap32(source);
  packet.address[1][0] = __builtin_bswap32(destination);
  packet.protocol = protocol;
  packet.port[0] = __builtin_bswap16(sport);
  packet.port[1] = __builtin_bswap16(dport);
  if (protocol == 6 || protocol == 17) packet.has = WEIR_HAS_PORTS;
  return packet;
}

weir_packet packet_v6(Ipv6 source, Ipv6 destination) {
  weir_packet packet = {};
  packet.family = 6;
  const Ipv6 addresses[] = {source, destination};
  for (const int side : {0, 1}) {
    packet.address[side][0] = __builtin_bswap64(static_cast<uint64_t>(addresses[side] >> 64));
    packet.address[side][1] = __builtin_bswap64(static_cast<uint64_t>(addresses[side]));
  }
  packet.protocol = 6;
  packet.has = WEIR_HAS_PORTS;
  packet.port[0] = packet.port[1] = __builtin_bswap16(443);
  return packet;
}

// Line of the first entry that matches; 0: none. Entries have their line as order in file.
uint32_t first_line(const List& list, const weir_packet& packet, uint64_t now) {
  std::pair<int, uint32_t> best = {2, 0};
  const auto offer = [&](int source, uint32_t line) { best = std::min(best, {source, line}); };
  const auto on_side = [&](const auto& entry, int side) {
    uint64_t first[2] = {0, 0}, last[2] = {0, 0};
    if constexpr (sizeof(entry.first) == sizeof(Ipv6)) {
      first[0] = static_cast<uint64_t>(entry.first >> 64), last[0] = static_cast<uint64_t>(entry.last >> 64);
    }
    first[1] = static_cast<uint64_t>(entry.first), last[1] = static_cast<uint64_t>(entry.last);
    const bool port =
        entry.port == 0 || ((packet.has & WEIR_HAS_PORTS) != 0 && __builtin_bswap16(packet.port[side]) == entry.port);
    return port && weir_address_within(&packet, side, first, last) != 0;
  };
  const auto ask = [&](const auto& entries) {
    for (const auto& entry : entries) {
      if (entry.expires != kNever && now >= entry.expires) continue;
      const bool matches = ((entry.directions & WEIR_AS_SOURCE) != 0 && on_side(entry, 0)) ||
                           ((entry.directions & WEIR_AS_DESTINATION) != 0 && on_side(entry, 1));
      if (matches) offer(entry.source, entry.line);
    }
  };
  if (packet.family == 4) ask(list.v4);
  if (packet.family == 6) ask(list.v6);
  for (const Flow& flow : list.flows) {
    if (flow.family != 0 && flow.family != packet.family) continue;
    const weir_residual condition = condition_of(flow);
    if (weir_residual_holds(&condition, &packet, now) != 0) offer(0, flow.line);
  }
  return best.second;
}

// Entries of a small world, so that they nest and packets meet them.
List random_list(const std::string& name, std::mt19937_64& random) {
  const auto below = [&](uint64_t n) { return random() % n; };
  const auto address = [&] { return static_cast<Ipv4>(0x0a000000 + below(64)); };
  List list;
  list.name = name;
  list.feed.path = "feeds/" + name;
  uint32_t line = 1;
  for (uint64_t i = below(40); i > 0; i--, line++) {
    Entry<Ipv4> entry = {};
    entry.first = address();
    entry.last = std::max(entry.first, below(2) == 0 ? entry.first : address());
    entry.line = line;
    entry.port = below(3) == 0 ? uint16_t{443} : uint16_t{0};
    entry.directions = static_cast<uint8_t>(1 + below(3));
    entry.source = static_cast<uint8_t>(below(2));
    if (below(3) == 0) entry.expires = static_cast<uint32_t>(kNow - 1 + below(3));
    if (below(4) == 0) {
      Entry<Ipv6> wide = {entry.first,      entry.last,   entry.line,   entry.port,
                          entry.directions, entry.source, entry.expires};
      list.v6.push_back(wide);
    } else {
      list.v4.push_back(entry);
    }
  }
  for (uint64_t i = below(10); i > 0; i--, line++) {
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
    list.flows.push_back(flow);
  }
  return list;
}

}  // namespace

TEST_CASE("the entry that a packet matches is the first of its list, of every kind") {
  std::mt19937_64 random(3);
  size_t found = 0, missed = 0;
  for (int round = 0; round < 60; round++) {
    Policy policy;
    policy.path = "weir.yaml";
    for (const char* name : {"a", "b", "c"}) policy.lists.push_back(random_list(name, random));
    const std::string file = write_origins(policy);
    const Result<OriginView> origins = OriginView::open(std::as_bytes(std::span(file)));
    REQUIRE(origins);
    std::vector<OriginQuestion> questions;
    for (int i = 0; i < 200; i++) {
      const auto source = static_cast<Ipv4>(0x0a000000 + random() % 64);
      const auto destination = static_cast<Ipv4>(0x0a000000 + random() % 64);
      const uint8_t protocols[] = {6, 17, 1};
      const weir_packet packet = random() % 4 == 0
                                     ? packet_v6(source, destination)
                                     : packet_v4(source, destination, protocols[random() % 3],
                                                 static_cast<uint16_t>(440 + random() % 8), static_cast<uint16_t>(443));
      questions.push_back({policy.lists[random() % 3].name, packet, kNow});
    }
    questions.push_back({"no such list", questions[0].packet, kNow});
    const auto answers = origins->first_matches(questions);
    REQUIRE(answers.size() == questions.size());
    CHECK_FALSE(answers.back());
    for (size_t q = 0; q + 1 < questions.size(); q++) {
      const List& list = *std::find_if(policy.lists.begin(), policy.lists.end(),
                                       [&](const List& l) { return l.name == questions[q].list; });
      const uint32_t line = first_line(list, questions[q].packet, kNow);
      INFO(round << " " << q << " line " << line << " " << (answers[q] ? answers[q]->entry : "none"));
      REQUIRE((answers[q] ? answers[q]->line : 0) == line);
      if (!answers[q]) {
        missed++;
        continue;
      }
      found++;
      CHECK(answers[q]->list == questions[q].list);
      CHECK_FALSE(answers[q]->entry.empty());
    }
  }
  CHECK(found > 1000);
  CHECK(missed > 500);
}

TEST_CASE("an entry's text is the one that explain shows") {
  Policy policy = make_policy({make_list("c2", WEIR_DROP, kDestination, {"203.0.113.0/24", "203.0.113.7:443"})});
  policy.lists[0].feed.path = "feeds/c2.txt";
  policy.lists[0].v4[0].source = 1;
  const std::string file = write_origins(policy);
  const Result<OriginView> origins = OriginView::open(std::as_bytes(std::span(file)));
  REQUIRE(origins);
  const std::vector<OriginQuestion> questions = {
      {"c2", packet_v4(1, *parse_ipv4("203.0.113.7"), 6, 1, 443), 0},
      {"c2", packet_v4(1, *parse_ipv4("203.0.113.7"), 6, 443, 1), 0},
      {"c2", packet_v4(*parse_ipv4("203.0.113.7"), 1, 6, 443, 1), 0},
  };
  const auto answers = origins->first_matches(questions);
  REQUIRE(answers[0]);
  CHECK(answers[0]->entry == "203.0.113.7:443");
  CHECK(answers[0]->file == policy.path);
  REQUIRE(answers[1]);
  CHECK(answers[1]->entry == "203.0.113.0/24");
  CHECK(answers[1]->file == "feeds/c2.txt");
  CHECK_FALSE(answers[2]);
}

}  // namespace weir::control
