// Which entries match a packet or hold an address: on random lists the searches agree with every entry asked one by
// one.
#include "control/lists/book/claims.h"
#include "control/policy/model/flow_condition.h"
#include "control/policy/model/search.h"
#include "filter/format/residual.h"
#include "tests/unit/control/compile/make_policy.h"
#include "tests/unit/control/lists/book/random_lists.h"

namespace weir::control {
namespace {

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

using WrittenAt = std::pair<int, uint32_t>;  // source, line

// Every entry asked one by one; entries have their line as order in the file.
std::vector<WrittenAt> matching_lines(const List& list, const weir_packet& packet, uint64_t now) {
  std::vector<WrittenAt> lines;
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
  const auto ask = [&](const auto& rows) {
    for (const auto entry : rows) {
      if (entry.expires != kNever && now >= entry.expires) continue;
      const bool matches = ((entry.directions & WEIR_AS_SOURCE) != 0 && on_side(entry, 0)) ||
                           ((entry.directions & WEIR_AS_DESTINATION) != 0 && on_side(entry, 1));
      if (matches) lines.emplace_back(entry.source, entry.line);
    }
  };
  if (packet.family == 4) ask(list.v4());
  if (packet.family == 6) ask(list.v6());
  for (const Flow& flow : list.flows()) {
    if (flow.family != 0 && flow.family != packet.family) continue;
    const weir_residual condition = condition_of(flow);
    if (weir_residual_holds(&condition, &packet, now) != 0) lines.emplace_back(0, flow.line);
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

// "c2 weir.yaml:10 203.0.113.7:443 2"
std::vector<std::string> texts(const std::vector<Origin>& origins) {
  std::vector<std::string> texts;
  for (const Origin& origin : origins) {
    texts.push_back(origin.list + " " + origin.file + ":" + std::to_string(origin.line) + " " + origin.entry + " " +
                    std::to_string(origin.directions));
  }
  return texts;
}

weir_packet random_packet(std::mt19937_64& random) {
  const auto source = static_cast<Ipv4>(0x0a000000 + random() % 64);
  const auto destination = static_cast<Ipv4>(0x0a000000 + random() % 64);
  constexpr uint8_t kProtocols[] = {6, 17, 1};
  if (random() % 4 == 0) return packet_v6(source, destination);
  return packet_v4(source, destination, kProtocols[random() % 3], static_cast<uint16_t>(440 + random() % 8), 443);
}

}  // namespace

TEST_CASE("rows that hold an address: a search finds what a look at each row finds") {
  RandomLists lists{std::mt19937_64(5)};
  const auto check = [&](const auto& rows, auto address) {
    std::vector<size_t> found, expected;
    visit_rows(rows, address, [&](size_t row) { found.push_back(row); });
    for (size_t row = 0; row < rows.size(); row++) {
      if (rows.first[row] <= address && address <= rows.last_of(row)) expected.push_back(row);
    }
    std::sort(found.begin(), found.end());
    REQUIRE(found == expected);
  };
  for (int round = 0; round < 200; round++) {
    ListDraft draft = lists.draft();
    // Enough for several levels of the index, some of them wide.
    for (int i = round % 2 == 0 ? 0 : 5000; i > 0; i--) {
      const auto first = static_cast<Ipv4>(0x0a000000 + lists.below(100000));
      const auto width = lists.below(100) == 0 ? lists.below(90000) : lists.below(4);
      draft.v4.push_back({first, static_cast<Ipv4>(first + width), 1, 0, 1, 1});
    }
    const auto entries = make_entries(std::move(draft));
    for (uint64_t i = 0; i < 100; i++) {
      check(entries->v4, static_cast<Ipv4>(0x0a000000 - 1 + lists.below(round % 2 == 0 ? 66 : 100000)));
      check(entries->v6, Ipv6{0x0a000000 - 1 + lists.below(66)});
    }
    check(entries->v4, Ipv4{0});
    check(entries->v4, ~Ipv4{0});
  }
}

TEST_CASE("the entries that a packet matches are those that match one by one; the first is the first written") {
  RandomLists lists{std::mt19937_64(3)};
  size_t found = 0, missed = 0;
  for (int round = 0; round < 60; round++) {
    const Book book = {lists.list("a"), lists.list("b"), lists.list("c")};
    for (int i = 0; i < 200; i++) {
      const weir_packet packet = random_packet(lists.random);
      std::vector<std::pair<std::string, uint32_t>> expected, claimed;
      for (const List& list : book) {
        const std::vector<WrittenAt> matching = matching_lines(list, packet, kNow);
        for (const WrittenAt& at : matching)
          expected.emplace_back(list.file_of(static_cast<uint8_t>(at.first)), at.second);
        std::vector<WrittenAt> by_number, in_any_order = matching;
        for (const uint64_t number : entries_that_match(list, packet, kNow)) {
          const uint64_t n4 = list.v4().size(), n6 = list.v6().size();
          const auto take = [&](const auto& entry) { by_number.emplace_back(entry.source, entry.line); };
          if (number < n4) {
            take(list.v4()[number]);
          } else if (number < n4 + n6) {
            take(list.v6()[number - n4]);
          } else {
            take(list.flows()[number - n4 - n6]);
          }
        }
        std::sort(by_number.begin(), by_number.end());
        std::sort(in_any_order.begin(), in_any_order.end());
        REQUIRE(by_number == in_any_order);
        const std::optional<Origin> first = first_claim(book, list.name, packet, kNow);
        INFO(round << " " << i << " " << (first ? first->entry : "none"));
        REQUIRE(first.has_value() == !matching.empty());
        (first ? found : missed)++;
        if (!first) continue;
        CHECK(first->line == matching[0].second);
        CHECK(first->list == list.name);
        CHECK_FALSE(first->entry.empty());
      }
      for (const Origin& origin : claims_of(book, packet, kNow)) claimed.emplace_back(origin.file, origin.line);
      REQUIRE(claimed == expected);
    }
    CHECK_FALSE(first_claim(book, "no such list", random_packet(lists.random), kNow));
  }
  CHECK(found > 1000);
  CHECK(missed > 500);
}

TEST_CASE("claims of an address name list, file and line") {
  Policy policy = make_policy({
      make_list("own", WEIR_PASS, kEither, {"192.0.2.128/25"}),
      make_list("nets", WEIR_DROP, kSource, {"192.0.2.0/24", "12.0.0.0/8"}),
      make_list("c2", WEIR_DROP, kDestination, {"203.0.113.7:443", "203.0.113.7", "2001:db8::/32"}),
      make_list("watch", WEIR_DROP, kEither, {"192.0.2.0-192.0.2.200", "[2001:db8::7]:53"}),
  });
  policy.lists[1].feed.path = "feeds/nets.txt";
  edit(policy.lists[1])->v4[0].source = 1;
  const Book& book = policy.lists;
  using Texts = std::vector<std::string>;
  const auto origins = [&](const char* address, uint16_t port) {
    const auto v4 = parse_ipv4(address);
    return texts(v4 ? claims_of(book, *v4, port).origins : claims_of(book, *parse_ipv6(address), port).origins);
  };
  CHECK(origins("192.0.2.200", 0) == Texts{"own weir.yaml:10 192.0.2.128/25 3", "nets feeds/nets.txt:10 192.0.2.0/24 1",
                                           "watch weir.yaml:10 192.0.2.0-192.0.2.200 3"});
  CHECK(origins("192.0.2.201", 0).size() == 2);
  CHECK(origins("12.255.255.255", 0) == Texts{"nets weir.yaml:11 12.0.0.0/8 1"});
  CHECK(origins("203.0.113.7", 0) == Texts{"c2 weir.yaml:11 203.0.113.7 2"});
  CHECK(texts(claims_of(book, *parse_ipv4("203.0.113.7"), 0).of_ports) == Texts{"c2 weir.yaml:10 203.0.113.7:443 2"});
  CHECK(origins("203.0.113.7", 443) == Texts{"c2 weir.yaml:10 203.0.113.7:443 2", "c2 weir.yaml:11 203.0.113.7 2"});
  CHECK(claims_of(book, *parse_ipv4("203.0.113.7"), 443).of_ports.empty());
  CHECK(origins("203.0.113.7", 80) == Texts{"c2 weir.yaml:11 203.0.113.7 2"});
  CHECK(origins("2001:db8::7", 53) ==
        Texts{"c2 weir.yaml:12 2001:db8::/32 2", "watch weir.yaml:11 [2001:db8::7]:53 3"});
  CHECK(origins("::", 53).empty());
}

TEST_CASE("an entry's text is the one that explain shows") {
  Policy policy = make_policy({make_list("c2", WEIR_DROP, kDestination, {"203.0.113.0/24", "203.0.113.7:443"})});
  policy.lists[0].feed.path = "feeds/c2.txt";
  edit(policy.lists[0])->v4[0].source = 1;
  const Ipv4 listed = *parse_ipv4("203.0.113.7");
  const auto first = [&](const weir_packet& packet) { return first_claim(policy.lists, "c2", packet, 0); };
  const auto with_port = first(packet_v4(1, listed, 6, 1, 443));
  REQUIRE(with_port);
  CHECK(with_port->entry == "203.0.113.7:443");
  CHECK(with_port->file == policy.path);
  const auto other_port = first(packet_v4(1, listed, 6, 443, 1));
  REQUIRE(other_port);
  CHECK(other_port->entry == "203.0.113.0/24");
  CHECK(other_port->file == "feeds/c2.txt");
  CHECK_FALSE(first(packet_v4(listed, 1, 6, 443, 1)));
}

}  // namespace weir::control
