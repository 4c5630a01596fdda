#pragma once

#include <rte_mbuf.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "dataplane/burst/passage.h"
#include "filter/probe/dispatch.h"
#include "tests/catch.h"
#include "tests/unit/dataplane/snapshots.h"
#include "tests/unit/filter/frame/frames.h"

// Frames from parse to verdict, as a worker does it, without EAL.
namespace weir::test {

using dataplane::Burst;
using dataplane::Snapshot;
using dataplane::WorkerCounters;

// What a burst holds before a stage fills it, in every byte: no stage may rely on what was there before.
constexpr int kStale = 0xa5;
constexpr uint16_t kStalePort = 0xa5a5;

// Lists of every kind, in file order.
enum List : uint32_t { kBlock, kWatch, kAllow, kBlockToo, kLists };

inline weir_set set_of(std::initializer_list<uint32_t> lists) {
  weir_set set = {};
  for (const uint32_t list : lists) set.lists[list / 64] |= uint64_t{1} << list % 64;
  return set;
}

// 10.0.0.x is blocked (source), watched at .2, allowed at .3; one host has a rule as destination only, one a port rule,
// 192.0.2.0/24 is a network, and 2001:db8::9 is on IPv6.
inline filter::SnapshotInput policy() {
  filter::SnapshotInput input = empty_input(1);
  input.lists = {{"block", WEIR_DROP, WEIR_ENFORCE, 0},
                 {"watch", WEIR_DROP, WEIR_MONITOR, 0},
                 {"allow", WEIR_PASS, WEIR_ENFORCE, 0},
                 {"block-too", WEIR_DROP, WEIR_ENFORCE, 0}};
  input.sets = {weir_set{},
                set_of({kBlock}),
                set_of({kWatch}),
                set_of({kBlock, kAllow, kWatch}),
                set_of({kBlockToo, kBlock, kWatch}),
                set_of({kBlockToo})};
  input.rules = {{0, 0, 0, 0}, {1, 0, 0, 0}, {2, 0, 0, 0}, {3, 0, 0, 0}, {4, 0, 0, 0}, {0, 5, 0, 0}, {5, 5, 0, 0}};
  filter::KeyTable hosts;
  hosts.shape = {4, 32, false};
  for (uint32_t i = 1; i <= 5; i++) {  // 10.0.0.i has rule i
    hosts.words[0].push_back(filter::make_key(hosts.shape, Ipv4{0x0a000000 + i}).word[0]);
    hosts.rules.push_back(i);
  }
  filter::KeyTable services;
  services.shape = {4, 32, true};
  for (const uint16_t port : {uint16_t{443}, kStalePort}) {  // the stale one: a packet without ports must not find it
    services.words[0].push_back(filter::make_key(services.shape, Ipv4{0xc6336407}, port).word[0]);
    services.rules.push_back(5);
  }
  filter::KeyTable hosts6;
  hosts6.shape = {6, 128, false};
  const filter::Key host6 = filter::make_key(hosts6.shape, *parse_ipv6("2001:db8::9"));
  hosts6.words[0].push_back(host6.word[0]);
  hosts6.words[1].push_back(host6.word[1]);
  hosts6.rules.push_back(6);
  input.tables = {hosts, services, hosts6};
  input.networks = {{0xc00002, 0xc00002, 1}};  // 192.0.2.0/24
  // Of IPv4 what shares 16 bits with an entry waits for its lookups, the rest does not; of IPv6 as many bits, or
  // hashed.
  for (const unsigned gate : {0u, 1u}) input.gates[gate].tables = {{16, 16}};
  for (const unsigned gate : {2u, 3u}) input.gates[gate].tables = {{16, 16}, {48, 15}};
  return input;
}

// A packet buffer without EAL: a chain of mbufs whose data are the frame, cut at these places, ascending.
struct Packet {
  explicit Packet(Bytes bytes, std::vector<size_t> cuts = {}) : frame(std::move(bytes)) {
    cuts.push_back(frame.size());
    size_t from = 0;
    for (const size_t cut : cuts) {
      segments.push_back(std::make_unique<rte_mbuf>());
      segments.back()->buf_addr = frame.data() + from;
      segments.back()->data_len = static_cast<uint16_t>(cut - from);
      if (segments.size() > 1) segments[segments.size() - 2]->next = segments.back().get();
      from = cut;
    }
    mbuf()->pkt_len = static_cast<uint32_t>(frame.size());
    mbuf()->nb_segs = static_cast<uint16_t>(segments.size());
  }
  rte_mbuf* mbuf() const { return segments.front().get(); }
  Bytes frame;
  std::vector<std::unique_ptr<rte_mbuf>> segments;
};

struct Judged {
  uint64_t drop = 0;  // bit i: frame i
  WorkerCounters counters;
  std::vector<wire::ListStats> lists;
  unsigned turns = 0;  // receptions
};

// Where frames leave to: remembers what became of each.
struct Left {
  std::vector<std::pair<const rte_mbuf*, bool>> frames;  // in the order in which they leave; true: dropped

  void judged(Burst&, uint64_t, const dataplane::WorkerSnapshot&, const dataplane::Route&) {}
  template <class Watch>
  void leave(const dataplane::Route&, uint64_t, rte_mbuf** left, uint32_t n, uint64_t drop, Watch&) {
    REQUIRE((drop & ~low_bits(n)) == 0);
    for (uint32_t i = 0; i < n; i++) frames.emplace_back(left[i], (drop >> i & 1) != 0);
  }
};
using Leaves = dataplane::Passage<Left>;

// A passage whose groups hold stale bytes, whichever is open.
template <class Out>
void make_stale(dataplane::Passage<Out>& passage) {
  Burst& burst = passage.open();
  REQUIRE(burst.n == 0);
  memset(static_cast<void*>(&burst), kStale, sizeof burst);
  dataplane::clear(burst);
}

// Receives the packets in as many turns as it takes, as a worker does it. now: Unix seconds.
template <class Out>
void receive(const dataplane::WorkerSnapshot& snapshot, std::span<const std::unique_ptr<Packet>> packets,
             dataplane::Passage<Out>& passage, uint64_t now, unsigned& turns) {
  static const dataplane::Route kRoute = {.in = {3, 1}, .out = {}, .capture = {}};
  dataplane::NoWatch no_watch;
  passage.judge_by(snapshot, no_watch);
  while (!packets.empty()) {
    Burst& burst = passage.open();
    const uint32_t first = burst.n;
    const auto n = std::min<size_t>(packets.size(), dataplane::room_for(snapshot.wants, burst));
    REQUIRE(n != 0);
    for (const std::unique_ptr<Packet>& packet : packets.first(n)) burst.pkt[burst.n++] = packet->mbuf();
    burst.now_unix_s = now;
    passage.take(kRoute, 0, first, no_watch);
    packets = packets.subspan(n);
    turns++;
  }
}

// kernels: null: the best.
inline void judge(const Snapshot& snapshot, std::span<const std::unique_ptr<Packet>> packets, Judged& judged,
                  uint64_t now = 0, const filter::Kernels* kernels = nullptr) {
  Left leaving;
  Leaves passage(leaving, kernels != nullptr ? *kernels : **filter::choose_kernels(), judged.counters);
  make_stale(passage);
  judged.turns = 0;
  receive(snapshot.of_worker(0), packets, passage, now, judged.turns);
  dataplane::NoWatch no_watch;
  passage.finish(no_watch);
  REQUIRE(passage.empty());
  REQUIRE(leaving.frames.size() == packets.size());
  judged.drop = 0;
  for (size_t i = 0; i < packets.size(); i++) {
    const auto left = std::find_if(leaving.frames.begin(), leaving.frames.end(),
                                   [&](const auto& frame) { return frame.first == packets[i]->mbuf(); });
    REQUIRE(left != leaving.frames.end());
    if (i < 64) judged.drop |= uint64_t{left->second} << i;
  }
  judged.lists = snapshot.list_stats();
}

inline void judge(const Snapshot& snapshot, std::span<const Bytes> frames, Judged& judged, uint64_t now = 0,
                  const filter::Kernels* kernels = nullptr) {
  std::vector<std::unique_ptr<Packet>> packets;
  for (const Bytes& frame : frames) packets.push_back(std::make_unique<Packet>(frame));
  judge(snapshot, packets, judged, now, kernels);
}

// Does the frame, alone, drop?
inline bool drops(const Snapshot& snapshot, const Bytes& frame, uint64_t now = 0) {
  Judged judged;
  judge(snapshot, std::span(&frame, 1), judged, now);
  return judged.drop == 1;
}

inline Bytes v4_frame(uint32_t source, uint32_t destination = 0x08080808, uint8_t protocol = kUdp) {
  V4 packet;
  packet.source = source;
  packet.destination = destination;
  packet.protocol = protocol;
  return ethernet(0x0800) + ipv4(packet);
}

inline Bytes v6_frame(uint8_t source_last, uint8_t destination_last) {
  V6 packet;
  packet.source_last = source_last;
  packet.destination_last = destination_last;
  return ethernet(0x86dd) + ipv6(packet);
}

}  // namespace weir::test
