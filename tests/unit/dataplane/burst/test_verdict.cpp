#include <array>
#include <map>
#include <random>

#include "filter/probe/dispatch.h"
#include "tests/catch.h"
#include "tests/unit/dataplane/judging.h"

using namespace weir;
using namespace weir::dataplane;
using namespace weir::test;

namespace {

// matched, dropped, passed, would_drop of block, watch, allow, block-too.
using Expected = std::array<std::array<uint64_t, 4>, kLists>;
enum class Reason { none, by_default, not_ip, malformed };

struct Row {
  const char* name;
  Bytes frame;
  bool dropped;
  Reason reason;
  Expected lists;
};

std::vector<Row> rows() {
  Bytes later = v4_frame(0x08080808, 0xc6336407);
  later[14 + 7] = 1;  // fragment offset 8
  const Expected none = {};
  const Expected block = {{{1, 1, 0, 0}, {}, {}, {}}};
  const Expected block_too = {{{}, {}, {}, {1, 1, 0, 0}}};
  return {
      {"stranger", v4_frame(0x0a000063), false, Reason::by_default, none},
      {"blocked source", v4_frame(0x0a000001), true, Reason::none, block},
      {"the same as destination", v4_frame(0x08080808, 0x0a000001), false, Reason::by_default, none},
      {"monitored only", v4_frame(0x0a000002), false, Reason::by_default, {{{}, {1, 0, 0, 1}, {}, {}}}},
      {"allowed: no would_drop",
       v4_frame(0x0a000003),
       false,
       Reason::none,
       {{{1, 0, 0, 0}, {1, 0, 0, 0}, {1, 0, 1, 0}, {}}}},
      {"two drop lists: the first in file order",
       v4_frame(0x0a000004),
       true,
       Reason::none,
       {{{1, 1, 0, 0}, {1, 0, 0, 1}, {}, {1, 0, 0, 0}}}},
      {"source and destination match: both lists",
       v4_frame(0x0a000001, 0x0a000005),
       true,
       Reason::none,
       {{{1, 1, 0, 0}, {}, {}, {1, 0, 0, 0}}}},
      {"pass by source wins over drop by destination",
       v4_frame(0x0a000003, 0x0a000005),
       false,
       Reason::none,
       {{{1, 0, 0, 0}, {1, 0, 0, 0}, {1, 0, 1, 0}, {1, 0, 0, 0}}}},
      {"network, first address", v4_frame(0xc0000200), true, Reason::none, block},
      {"network, last address", v4_frame(0xc00002ff), true, Reason::none, block},
      {"beside the network", v4_frame(0xc0000300), false, Reason::by_default, none},
      {"address and port", v4_frame(0x08080808, 0xc6336407), true, Reason::none, block_too},
      {"another protocol has no port", v4_frame(0x08080808, 0xc6336407, kIcmp), false, Reason::by_default, none},
      {"a later fragment has no port", later, false, Reason::by_default, none},
      {"address and port, as source", v4_frame(0xc6336407), false, Reason::by_default, none},
      {"v6 source", v6_frame(9, 2), true, Reason::none, block_too},
      {"v6 destination", v6_frame(1, 9), true, Reason::none, block_too},
      {"v6 both: counted once", v6_frame(9, 9), true, Reason::none, block_too},
      {"v6 stranger", v6_frame(1, 2), false, Reason::by_default, none},
      {"behind a vlan", ethernet(0x8100) + vlan(0x0800) + ipv4({kUdp, udp_payload(), 0x0a000001, 0x08080808}), true,
       Reason::none, block},
      {"arp", ethernet(0x0806) + Bytes(28), false, Reason::not_ip, none},
      {"cut", Bytes(13), false, Reason::malformed, none},
  };
}

void check(const Row& row, const Judged& judged, bool drop_unparsed, bool drop_default) {
  INFO(row.name << (drop_unparsed ? ", unparsed: drop" : "") << (drop_default ? ", default: drop" : ""));
  const bool dropped = row.dropped || (row.reason == Reason::malformed && drop_unparsed) ||
                       (row.reason == Reason::by_default && drop_default);
  CHECK(judged.drop == uint64_t{dropped});
  const WorkerCounters& counters = judged.counters;
  CHECK(counters.packets.get() == 1);
  CHECK(counters.bytes.get() == row.frame.size());
  CHECK(counters.dropped.get() == uint64_t{dropped});
  CHECK(counters.passed.get() == uint64_t{!dropped});
  CHECK(counters.malformed.get() == uint64_t{row.reason == Reason::malformed});
  CHECK(counters.not_ip.get() == uint64_t{row.reason == Reason::not_ip});
  CHECK(counters.default_passed.get() == uint64_t{row.reason == Reason::by_default && !drop_default});
  CHECK(counters.default_dropped.get() == uint64_t{row.reason == Reason::by_default && drop_default});
  // Of the drop lists that are enforced, how many match; with a pass list, none decides.
  const bool passes = row.lists[2][2] != 0;
  const uint64_t droppers = passes ? 0 : row.lists[0][0] + row.lists[3][0];
  for (uint32_t list = 0; list < kLists; list++) {
    INFO(judged.lists[list].name);
    const wire::ListStats& stats = judged.lists[list];
    const uint64_t packets[] = {stats.matched, stats.dropped, stats.passed, stats.would_drop};
    const uint64_t bytes[] = {stats.matched_bytes, stats.dropped_bytes, stats.passed_bytes, stats.would_drop_bytes};
    for (size_t i = 0; i < 4; i++) {
      CHECK(packets[i] == row.lists[list][i]);
      CHECK(bytes[i] == row.lists[list][i] * row.frame.size());
    }
    CHECK(stats.dropped_alone == (droppers == 1 ? stats.dropped : 0));
    CHECK(stats.dropped_alone_bytes == (droppers == 1 ? stats.dropped_bytes : 0));
    CHECK(stats.would_drop_alone == (droppers == 0 ? stats.would_drop : 0));
    CHECK(stats.would_drop_alone_bytes == (droppers == 0 ? stats.would_drop_bytes : 0));
  }
}

}  // namespace

TEST_CASE("verdict and counters of each kind of packet") {
  for (const bool drop_unparsed : {false, true}) {
    for (const bool drop_default : {false, true}) {
      filter::SnapshotInput input = policy();
      input.unparsed_action = drop_unparsed ? WEIR_DROP : WEIR_PASS;
      input.default_action = drop_default ? WEIR_DROP : WEIR_PASS;
      const SnapshotBytes bytes = build(input);
      for (const Row& row : rows()) {
        const std::unique_ptr<Snapshot> snapshot = attach(bytes);
        Judged judged;
        judge(*snapshot, std::span(&row.frame, 1), judged);
        check(row, judged, drop_unparsed, drop_default);
      }
    }
  }
}

TEST_CASE("packets of one burst are judged one by one") {
  const SnapshotBytes bytes = build(policy());
  const std::vector<Row> all = rows();
  std::vector<Bytes> frames;
  uint64_t expected = 0;
  for (uint32_t i = 0; i < kMaxBurst; i++) {
    const Row& row = all[i * 7 % all.size()];
    frames.push_back(row.frame);
    expected |= uint64_t{row.dropped} << i;
  }
  const std::unique_ptr<Snapshot> snapshot = attach(bytes);
  Judged judged;
  judge(*snapshot, frames, judged);
  CHECK(judged.drop == expected);
  CHECK(judged.counters.packets.get() == kMaxBurst);
  CHECK(judged.counters.dropped.get() == static_cast<uint64_t>(__builtin_popcountll(expected)));
}

TEST_CASE("incomplete chains are counted, and their addresses match") {
  V6 packet;
  packet.source_last = 9;
  packet.next = 0;
  packet.payload = {};
  const Bytes frame = ethernet(0x86dd) + ipv6(packet);
  const std::unique_ptr<Snapshot> snapshot = attach(build(policy()));
  Judged judged;
  judge(*snapshot, std::span(&frame, 1), judged);
  CHECK(judged.drop == 1);
  CHECK(judged.counters.incomplete.get() == 1);
}

TEST_CASE("headers that cross segments are read whole") {
  const std::unique_ptr<Snapshot> snapshot = attach(build(policy()));
  const Bytes frame = ethernet(0x8100) + vlan(0x0800) + ipv4({kTcp, udp_payload(), 0x08080808, 0xc6336407});
  for (size_t cut = 0; cut <= frame.size(); cut++) {
    INFO("first segment of " << cut << " bytes");
    const std::unique_ptr<Packet> packet[] = {std::make_unique<Packet>(frame, std::vector<size_t>{cut})};
    Judged judged;
    judge(*snapshot, packet, judged);
    CHECK(judged.drop == 1);
  }
}

// Receptions of all sizes, one after the other, while snapshots change: each frame gets the verdict it gets alone, by
// the snapshot that judged when it came, and leaves once.
TEST_CASE("frames that wait do not mix with others") {
  filter::SnapshotInput reversed = policy();
  for (filter::ListInfo& list : reversed.lists) list.action = list.action == WEIR_DROP ? WEIR_PASS : WEIR_DROP;
  for (filter::ListInfo& list : reversed.lists) list.mode = WEIR_ENFORCE;
  const std::unique_ptr<Snapshot> snapshots[] = {attach(build(policy())), attach(build(reversed))};
  const std::vector<Row> all = rows();
  std::vector<uint64_t> drops[2];
  for (int s = 0; s < 2; s++) {
    for (const Row& row : all) {
      Judged alone;
      judge(*snapshots[s], std::span(&row.frame, 1), alone);
      drops[s].push_back(alone.drop);
    }
  }
  for (const filter::Kernels* kernels : filter::all_kernels()) {
    if (!kernels->usable()) continue;
    std::mt19937_64 engine(7);
    const auto below = [&](uint64_t n) { return engine() % n; };
    WorkerCounters counters;
    Ports ports;
    TestLoop<> loop(ports, *kernels, counters);
    std::map<const rte_mbuf*, std::pair<size_t, int>> sent;  // row, snapshot
    std::vector<std::unique_ptr<Packet>> kept;
    int snapshot = 0;
    unsigned waited = 0;
    for (int reception = 0; reception < 2000; reception++) {
      if (below(50) == 0) snapshot = 1 - snapshot;
      std::vector<std::unique_ptr<Packet>> packets;
      const uint64_t n = 1 + below(below(4) == 0 ? 40 : 4);
      for (uint64_t i = 0; i < n; i++) {
        const size_t row = below(all.size());
        packets.push_back(std::make_unique<Packet>(all[row].frame));
        sent[packets.back()->mbuf()] = {row, snapshot};
      }
      const size_t left_before = ports.left.size();
      loop.receive(snapshots[snapshot]->of_worker(0), packets);
      waited += ports.left.size() - left_before < n;
      std::move(packets.begin(), packets.end(), std::back_inserter(kept));
      if (below(30) == 0) {
        loop.finish();
        REQUIRE(ports.left.size() == kept.size());
      }
    }
    loop.finish();
    REQUIRE(ports.left.size() == kept.size());
    REQUIRE(waited > 100);
    for (const auto& [mbuf, dropped] : ports.left) {
      const auto node = sent.extract(mbuf);
      REQUIRE(!node.empty());
      const auto [row, by] = node.mapped();
      INFO(all[row].name << ", by snapshot " << by << ", " << std::string(kernels->name));
      REQUIRE(dropped == (drops[by][row] == 1));
    }
    REQUIRE(counters.packets.get() == kept.size());
  }
}
