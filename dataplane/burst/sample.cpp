#include "dataplane/burst/sample.h"

#include <rte_cycles.h>

#include <algorithm>
#include <cstring>

#include "filter/format/residual.h"

namespace weir::dataplane {

void copy_packet(const Headers& headers, std::byte* packet) noexcept {
  static_assert(sizeof headers == wire::kPacketBytes);
  Headers cleared = headers;
  weir_clear_absent(&cleared);
  memcpy(packet, &cleared, sizeof cleared);
}

uint64_t tsc_ticks() noexcept {
  return rte_rdtsc();
}

void Sampler::set(const wire::SamplingBody& wanted, uint64_t ticks_per_second) noexcept {
  ticks_per_second_.store(std::max<uint64_t>(ticks_per_second, 1), std::memory_order_relaxed);
  snap_bytes_.store(std::min(wanted.snap_bytes, wire::kMaxSnapBytes), std::memory_order_relaxed);
  per_list_per_second_.store(wanted.per_list_per_second, std::memory_order_relaxed);
  one_in_.store(wanted.one_in, std::memory_order_relaxed);
}

void Sampler::choose(uint32_t one_in, Burst& burst, uint64_t dropped, PortQueue in) noexcept {
  if (dropped_.run() != one_in) dropped_.begin(one_in, ticks_());
  dropped_.choose(dropped, [&](uint32_t slot) {
    take(burst, slot, in);
    return one_in;
  });
}

bool Sampler::within_limit(const DropCredit& credit, uint64_t ticks) noexcept {
  const uint32_t index =
      credit.by == wire::DroppedBy::list ? credit.list : WEIR_MAX_LISTS + static_cast<uint32_t>(credit.by) - 1;
  Second& second = second_of_[index];
  const uint64_t number = ticks / ticks_per_second_.load(std::memory_order_relaxed);
  if (second.number != number) second = {number, 0};
  if (second.samples >= per_list_per_second_.load(std::memory_order_relaxed)) return false;
  second.samples++;
  return true;
}

[[gnu::noinline]] void Sampler::take(Burst& burst, uint32_t i, PortQueue in) noexcept {
  const WorkerSnapshot* snapshot = burst.snapshot;  // null: `no_snapshot` dropped it
  sampled_.add(1);
  const uint64_t ticks = ticks_();
  const DropCredit credit =
      snapshot == nullptr ? DropCredit{wire::DroppedBy::no_snapshot, 0, 0, 0} : why_dropped(*snapshot, burst, i);
  if (!within_limit(credit, ticks)) return limited_.add(1);
  SampleSlot* slot = ring_.free_slot();
  if (slot == nullptr) return lost_.add(1);

  wire::Sample& sample = slot->sample;
  sample = {};
  sample.time_unix_ns = ticks;
  sample.dropped_by = credit.by;
  sample.layer = credit.layer;
  sample.port = in.port;
  sample.queue = in.queue;
  sample.one_in = dropped_.run();
  if (snapshot != nullptr) {
    sample.generation = snapshot->generation();
    sample.now_unix_s = burst.now_unix_s;
    if (credit.by == wire::DroppedBy::list) {
      static_assert(sizeof sample.list == sizeof(weir_list::name));
      memcpy(sample.list, snapshot->view->lists()[credit.list].name, sizeof sample.list);
    }
    if (credit.by != wire::DroppedBy::unparsed) copy_packet(headers_of(burst, credit.slot), sample.packet);
  }
  const rte_mbuf* packet = burst.pkt[i];
  sample.frame_bytes = packet->pkt_len;
  sample.captured_bytes = std::min(packet->pkt_len, snap_bytes_.load(std::memory_order_relaxed));
  const void* bytes = rte_pktmbuf_read(packet, 0, sample.captured_bytes, slot->bytes);
  if (bytes == nullptr) {
    sample.captured_bytes = 0;
  } else if (bytes != slot->bytes) {
    memcpy(slot->bytes, bytes, sample.captured_bytes);
  }
  ring_.push();
}

}  // namespace weir::dataplane
