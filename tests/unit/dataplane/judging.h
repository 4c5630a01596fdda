#pragma once

#include <malloc.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "dataplane/burst/loop.h"
#include "filter/probe/dispatch.h"
#include "tests/catch.h"
#include "tests/unit/dataplane/snapshots.h"
#include "tests/unit/filter/frame/frames.h"

// Frames from parse to verdict, as a worker does it, without EAL.
namespace weir::test {

using dataplane::Burst;
using dataplane::Snapshot;
using dataplane::WorkerCounters;

// What memory holds before a stage fills it, in every byte: no stage may rely on what was there before.
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
  for (const unsigned gate : {0u, 1u}) input.gates[gate].tables = {{16, 0}};
  for (const unsigned gate : {2u, 3u}) input.gates[gate].tables = {{16, 0}, {48, 512}};
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
  unsigned receptions = 0;
};

inline const dataplane::Route kRoute = {.in = {3, 1}, .out = {}, .capture = {}};

// The ports of a loop (dataplane/burst/loop.h): frames come from packets, and what became of each is remembered.
struct Ports {
  std::span<const std::unique_ptr<Packet>> coming;
  unsigned receptions = 0;
  std::vector<std::pair<const rte_mbuf*, bool>> left;  // in the order in which they leave; true: dropped

  uint32_t receive(const dataplane::Route&, uint32_t most, rte_mbuf** frames) {
    const auto n = static_cast<uint32_t>(std::min<size_t>(coming.size(), most));
    for (uint32_t i = 0; i < n; i++) frames[i] = coming[i]->mbuf();
    coming = coming.subspan(n);
    receptions += n != 0;
    return n;
  }
  void judged(Burst&, uint64_t, const dataplane::Route&) {}
  void send(const dataplane::Route&, rte_mbuf** frames, uint32_t n) { note(frames, n, false); }
  void discard(const dataplane::Route&, rte_mbuf** frames, uint32_t n) { note(frames, n, true); }
  void timed(const Burst&, uint64_t) {}
  void timed_left(uint64_t, uint32_t) {}

 private:
  void note(rte_mbuf** frames, uint32_t n, bool dropped) {
    for (uint32_t i = 0; i < n; i++) left.emplace_back(frames[i], dropped);
  }
};

// While it lives, memory that is allocated holds stale bytes. Sanitizers bring an allocator with bytes of its own.
struct StaleMemory {
  StaleMemory() { mallopt(M_PERTURB, kStale ^ 0xff); }
  ~StaleMemory() { mallopt(M_PERTURB, 0); }
};

// A worker's loop on such ports. Io: Ports, or made of it.
template <class Io = Ports>
class TestLoop {
 public:
  TestLoop(Io& io, const filter::Kernels& kernels, WorkerCounters& counters)
      : io_(io), loop_((StaleMemory(), io), std::span(&kRoute, 1), kernels, counters) {}

  // Receives all packets, at a time that is told as Unix seconds.
  void receive(const dataplane::WorkerSnapshot& snapshot, std::span<const std::unique_ptr<Packet>> packets,
               uint64_t now = 0) {
    io_.coming = packets;
    while (loop_.poll(kRoute, snapshot, now, no_watch_)) {
    }
    REQUIRE(io_.coming.empty());
  }
  void finish() {
    loop_.finish(no_watch_);
    REQUIRE(loop_.empty());
  }
  bool empty() const { return loop_.empty(); }

 private:
  Io& io_;
  dataplane::Loop<Io> loop_;
  dataplane::NoWatch no_watch_;
};

// kernels: null: the best.
inline void judge(const Snapshot& snapshot, std::span<const std::unique_ptr<Packet>> packets, Judged& judged,
                  uint64_t now = 0, const filter::Kernels* kernels = nullptr) {
  Ports ports;
  TestLoop<> loop(ports, kernels != nullptr ? *kernels : **filter::choose_kernels(), judged.counters);
  loop.receive(snapshot.of_worker(0), packets, now);
  loop.finish();
  REQUIRE(ports.left.size() == packets.size());
  judged.receptions = ports.receptions;
  judged.drop = 0;
  for (size_t i = 0; i < packets.size(); i++) {
    const auto left = std::find_if(ports.left.begin(), ports.left.end(),
                                   [&](const auto& frame) { return frame.first == packets[i]->mbuf(); });
    REQUIRE(left != ports.left.end());
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
