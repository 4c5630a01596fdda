#include "tests/bench/pacer.h"

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace weir::bench {
namespace {

constexpr uint16_t kBurst = 64;
// Never more under way than this: one memif ring of rsize=14 less what may be on its way into it. More than that would
// wait in the data plane's receive ring, so it is what a NIC would lose there: counted as `missed`.
constexpr uint64_t kMaxUnderWay = (1 << 14) - 4 * kBurst;
// Nothing came back for so long: what is still under way is lost. A host may take a processor away for 0.1 s.
constexpr double kQuiet_s = 1;
constexpr double kAway_us = 20;  // a turn of the loop that takes longer was interrupted: it takes about 1

// Behind the UDP header; little endian, both ends are this program.
struct __attribute__((packed)) Payload {
  uint64_t number;
  uint32_t flow;
  uint8_t first_of_batch;
  char magic[7];
};
constexpr char kMagic[7] = {'w', 'e', 'i', 'r', 'p', 'c', 'r'};
constexpr size_t kHeaderBytes = 14 + 20 + 8;
constexpr size_t kFrameBytes = kHeaderBytes + sizeof(Payload);
static_assert(kFrameBytes <= sizeof(Frame) && kFrameBytes >= 60);

// Ethernet, IPv4, UDP from 10.0.0.0 + flow to 192.0.2.1.
Frame make_frame(uint32_t flow) {
  constexpr size_t kIpBytes = kFrameBytes - 14, kUdpBytes = kIpBytes - 20;
  // clang-format off
  Frame frame = {
      2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00,                                // Ethernet
      0x45, 0, 0, kIpBytes, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 0, 192, 0, 2, 1,  // IPv4
      0x12, 0x34, 0x12, 0x35, 0, kUdpBytes, 0, 0,                                    // UDP, no checksum
  };
  // clang-format on
  for (int byte = 0; byte < 3; byte++) frame[29 - byte] = static_cast<uint8_t>(flow >> (8 * byte));
  uint32_t sum = 0;
  for (int i = 14; i < 34; i += 2) sum += static_cast<uint32_t>(frame[i] << 8 | frame[i + 1]);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  frame[24] = static_cast<uint8_t>(~sum >> 8);
  frame[25] = static_cast<uint8_t>(~sum);
  Payload payload = {0, flow, 0, {}};
  std::memcpy(payload.magic, kMagic, sizeof kMagic);
  std::memcpy(&frame[kHeaderBytes], &payload, sizeof payload);
  return frame;
}

}  // namespace

Pacer::Pacer(rte_mempool* pool, uint32_t flows) : pool_(pool), hz_(static_cast<double>(rte_get_tsc_hz())) {
  for (uint32_t flow = 0; flow < flows; flow++) frames_.push_back(make_frame(flow));
}

double Pacer::seconds_since(uint64_t tsc) const {
  return to_seconds(rte_rdtsc() - tsc);
}

uint16_t Pacer::send(Run& run, uint64_t count, bool first_of_batch) {
  rte_mbuf* pkts[kBurst];
  const uint16_t n = static_cast<uint16_t>(std::min<uint64_t>(count, kBurst));
  if (rte_pktmbuf_alloc_bulk(pool_, pkts, n) != 0) return 0;
  for (uint16_t i = 0; i < n; i++) {
    const uint64_t number = next_ + i;
    auto* bytes = rte_pktmbuf_mtod(pkts[i], uint8_t*);
    std::memcpy(bytes, frames_[number % frames_.size()].data(), sizeof(Frame));
    std::memcpy(bytes + kHeaderBytes + offsetof(Payload, number), &number, sizeof number);
    bytes[kHeaderBytes + offsetof(Payload, first_of_batch)] = first_of_batch && i == 0;
    pkts[i]->data_len = kFrameBytes;
    pkts[i]->pkt_len = kFrameBytes;
  }
  const uint16_t taken = rte_eth_tx_burst(kOut, 0, pkts, n);
  for (uint16_t i = taken; i < n; i++) rte_pktmbuf_free(pkts[i]);
  next_ += taken;
  run.sent += taken;
  return taken;
}

uint64_t Pacer::receive_port(Run& run, uint16_t port, uint64_t now) {
  rte_mbuf* pkts[kBurst];
  uint64_t total = 0;
  for (int round = 0; round < 4; round++) {  // a bound, so that sending stays on time
    const uint16_t n = rte_eth_rx_burst(port, 0, pkts, kBurst);
    for (uint16_t i = 0; i < n; i++) {
      Payload payload;
      const auto* bytes = rte_pktmbuf_mtod(pkts[i], const uint8_t*);
      if (pkts[i]->data_len == kFrameBytes) std::memcpy(&payload, bytes + kHeaderBytes, sizeof payload);
      if (pkts[i]->data_len == kFrameBytes && std::memcmp(payload.magic, kMagic, sizeof kMagic) == 0 &&
          payload.number < next_) {
        run.ledger.arrive(payload.number, policy_of(payload.flow, port == kDropped), payload.first_of_batch, now);
      } else {
        run.foreign++;
      }
    }
    rte_pktmbuf_free_bulk(pkts, n);
    total += n;
    if (n < kBurst) break;
  }
  return total;
}

uint64_t Pacer::receive(Run& run, uint64_t now) {
  return receive_port(run, kPassed, now) + receive_port(run, kDropped, now);
}

Run Pacer::run(double rate, double seconds, double quantum_us, Until until) {
  Run run(next_);
  run.pauses.resize(static_cast<size_t>(seconds / kBucket_s) + 1);
  const auto quantum = static_cast<uint64_t>(quantum_us * 1e-6 * hz_);
  const double per_quantum = rate * quantum_us * 1e-6;
  double due = 0;  // packets that may be sent now
  bool first_of_batch = true, was_away = false;
  run.start = rte_rdtsc();
  uint64_t last_turn = run.start, last_arrival = run.start, next_quantum = run.start;
  const auto end = run.start + static_cast<uint64_t>(seconds * hz_);
  while (!stop.load(std::memory_order_relaxed)) {
    const uint64_t now = rte_rdtsc();
    if (now >= end || (until == Until::loss && run.lost() > 0)) break;
    Pauses& pauses = run.pauses[static_cast<size_t>(to_seconds(now - run.start) / kBucket_s)];
    if (const double turn_us = to_seconds(now - last_turn) * 1e6; turn_us > kAway_us) {
      run.away_seconds += turn_us * 1e-6;
      pauses.away = std::max(pauses.away, static_cast<float>(turn_us));
      was_away = first_of_batch = true;
    }
    last_turn = now;

    if (receive(run, now) > 0) {
      const auto pause_us = static_cast<float>(to_seconds(now - last_arrival) * 1e6);
      pauses.arrival = std::max(pauses.arrival, pause_us);
      if (!was_away) pauses.while_here = std::max(pauses.while_here, pause_us);
      was_away = false;
      last_arrival = now;
    } else if (to_seconds(now - last_arrival) > kQuiet_s) {
      run.ledger.give_up(next_, now);
      last_arrival = now;
    }

    if (now >= next_quantum) {
      const uint64_t quanta = (now - next_quantum) / quantum + 1;
      next_quantum += quanta * quantum;
      const double behind = due + static_cast<double>(quanta - 1) * per_quantum;
      // One quantum is sent now; up to one more of arrears is kept, so that a turn that is a little late loses nothing.
      const double kept = std::min(behind, per_quantum);
      run.skipped += static_cast<uint64_t>(behind - kept);
      due = kept + per_quantum;
      first_of_batch = true;
    }
    if (due >= 1) {
      const uint64_t under_way = next_ - run.ledger.newest();
      const uint64_t room = kMaxUnderWay - std::min(under_way, kMaxUnderWay);
      const uint64_t wanted = std::min(static_cast<uint64_t>(due), room);
      if (wanted == 0) {
        run.missed += static_cast<uint64_t>(due);
        pauses.missed += static_cast<uint32_t>(due);
        due = 0;
      } else if (const uint16_t sent = send(run, wanted, first_of_batch); sent > 0) {
        due -= sent;
        first_of_batch = false;
      }
    }
  }
  run.seconds = seconds_since(run.start);
  uint64_t quiet_since = rte_rdtsc();
  while (run.ledger.newest() < next_ || run.ledger.received() + run.ledger.lost() < run.sent) {
    const uint64_t now = rte_rdtsc();
    if (receive(run, now) > 0) quiet_since = now;
    if (to_seconds(now - quiet_since) > kQuiet_s) run.ledger.give_up(next_, now);
  }
  return run;
}

}  // namespace weir::bench
