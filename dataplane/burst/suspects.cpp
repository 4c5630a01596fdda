#include "dataplane/burst/suspects.h"

#include <algorithm>
#include <bit>

#include "dataplane/burst/stages.h"

namespace weir::dataplane {

Suspects::Suspects(const filter::Kernels& kernels)
    : kernels_(kernels), pipeline_(kernels, 1), groups_(new SuspectGroup[kGroups]), batches_(new KeyBatch[kBatches]) {
  for (uint32_t g = kGroups; g-- > 0;) release(groups_[g]);
  for (uint32_t b = kBatches; b-- > 0;) free_batches_[n_free_batches_++] = &batches_[b];
  gathering_ = free_groups_[--n_free_groups_];
}

bool Suspects::has_room_for(const Burst& reception, uint32_t frames) const noexcept {
  const uint32_t n_inner = kMaxBurst - reception.first_inner;
  return gathering_->n + frames + n_inner <= gathering_->first_inner;
}

uint64_t Suspects::append(Burst& reception, uint64_t frames, const Route& route, uint64_t rx_cycles) noexcept {
  const WorkerSnapshot& snapshot = *reception.snapshot;
  if (snapshot.wants.fields) read_fields(reception.asked[kSource] | reception.asked[kDestination], reception);
  SuspectGroup& group = *gathering_;
  const bool are_all = frames == low_bits(reception.n);
  const uint64_t bytes = are_all ? copy_all(reception) : copy_some(reception, frames);
  if (((reception.v6 | ~reception.unread) & frames) != 0) copy_headers(reception, frames);
  if ((reception.layered & frames) != 0) copy_layers(reception, frames);
  group.total_bytes += bytes;
  group.n += static_cast<uint32_t>(std::popcount(frames));
  group.snapshot = &snapshot;
  group.now_unix_s = reception.now_unix_s;
  group.waiting[group.receptions++] = {&route, rx_cycles, group.n};
  return bytes;
}

uint64_t Suspects::copy_some(const Burst& reception, uint64_t frames) noexcept {
  SuspectGroup& group = *gathering_;
  uint64_t v4 = 0, unread = 0, v4_ports = 0, as_source = 0, as_destination = 0, bytes = 0;
  uint32_t to = group.n;
  for (uint64_t left = frames; left != 0; left &= left - 1, to++) {
    const auto from = static_cast<uint32_t>(std::countr_zero(left));
    const auto moved = [=](uint64_t mask) { return (mask >> from & 1) << to; };
    v4 |= moved(reception.v4);
    unread |= moved(reception.unread);
    v4_ports |= moved(reception.v4_ports);
    as_source |= moved(reception.asked[kSource]);
    as_destination |= moved(reception.asked[kDestination]);
    group.pkt[to] = reception.pkt[from];
    bytes += group.bytes[to] = reception.pkt[from]->pkt_len;
    group.v4_addresses[to] = reception.v4_addresses[from];
    group.v4_fields[to] = reception.v4_fields[from];
  }
  group.v4 |= v4;
  group.unread |= unread;
  group.v4_ports |= v4_ports;
  group.asked[kSource] |= as_source;
  group.asked[kDestination] |= as_destination;
  return bytes;
}

// As under attack: whole columns.
uint64_t Suspects::copy_all(const Burst& reception) noexcept {
  SuspectGroup& group = *gathering_;
  const uint32_t to = group.n, n = reception.n;
  const auto move = [=](uint64_t from, uint64_t& mask) { mask |= (from & low_bits(n)) << to; };
  move(reception.v4, group.v4);
  move(reception.unread, group.unread);
  move(reception.v4_ports, group.v4_ports);
  for (const Side side : {kSource, kDestination}) move(reception.asked[side], group.asked[side]);
  std::copy_n(reception.pkt, n, group.pkt + to);
  std::copy_n(reception.v4_addresses, n, group.v4_addresses + to);
  std::copy_n(reception.v4_fields, n, group.v4_fields + to);
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < n; i++) bytes += group.bytes[to + i] = reception.pkt[i]->pkt_len;
  return bytes;
}

// Copies headers that parse has read as a whole, and the addresses of IPv6.
void Suspects::copy_headers(const Burst& reception, uint64_t frames) noexcept {
  SuspectGroup& group = *gathering_;
  group.v6 |= packed_bits(reception.v6, frames) << group.n;
  group.incomplete |= packed_bits(reception.incomplete, frames) << group.n;
  uint32_t to = group.n;
  for (uint64_t left = frames; left != 0; left &= left - 1, to++) {
    const auto from = static_cast<uint32_t>(std::countr_zero(left));
    if ((reception.v6 | ~reception.unread) & bit(from)) group.hdr[to] = reception.hdr[from];
  }
}

// The inner layers, and which frames have some. Frames with inner layers always wait, so all layers come along.
void Suspects::copy_layers(const Burst& reception, uint64_t frames) noexcept {
  SuspectGroup& group = *gathering_;
  const uint32_t first = reception.first_inner, n_inner = kMaxBurst - first, down = kMaxBurst - group.first_inner;
  const uint32_t to = first - down;
  std::copy_n(reception.hdr + first, n_inner, group.hdr + to);
  std::copy_n(reception.v4_addresses + first, n_inner, group.v4_addresses + to);
  std::copy_n(reception.v4_fields + first, n_inner, group.v4_fields + to);
  const auto move = [&](uint64_t from, uint64_t& mask) { mask |= (from & ~low_bits(first)) >> down; };
  move(reception.v4, group.v4);
  move(reception.v6, group.v6);
  move(reception.v4_ports, group.v4_ports);
  for (const Side side : {kSource, kDestination}) move(reception.asked[side], group.asked[side]);
  group.first_inner = to;

  group.layered |= packed_bits(reception.layered, frames) << group.n;
  uint32_t slot = group.n;
  for (uint64_t left = frames; left != 0; left &= left - 1, slot++) {
    const auto from = static_cast<uint32_t>(std::countr_zero(left));
    group.inner[slot] = static_cast<uint8_t>(reception.inner[from] - down);
    group.n_inner[slot] = reception.n_inner[from];
  }
}

void Suspects::look_up(const WorkerSnapshot& snapshot) noexcept {
  SuspectGroup& group = *gathering_;
  ring_[looked_up_++ % kGroups] = gathering_;
  gathering_ = free_groups_[--n_free_groups_];
  age_ = 0;
  for (size_t i = 0; i < snapshot.lookups.size(); i++) {
    KeyBatch& batch = *free_batches_[n_free_batches_ - 1];
    keys(snapshot.lookups[i], kernels_, group, batch);
    if (batch.n == 0) continue;
    batch.probes = snapshot.probes[i];
    batch.lane = &snapshot.lanes[i];
    n_free_batches_--;
    group.lookups_begun++;
    pipeline_.push(&batch);
    match_probed();
  }
  // A lookup is tested when the same lookup of the next group is hashed: frames were received and parsed in between.
  if (group.lookups_begun != 0) pipeline_.look_ahead(group.lookups_begun);
}

void Suspects::match_probed() noexcept {
  while (filter::Batch* batch = pipeline_.pop()) {
    auto* probed = static_cast<KeyBatch*>(batch);
    match(*probed);
    static_cast<SuspectGroup*>(probed->burst)->lookups_matched++;
    free_batches_[n_free_batches_++] = probed;
  }
}

SuspectGroup* Suspects::finished() noexcept {
  if (finished_ == looked_up_) return nullptr;
  SuspectGroup* group = ring_[finished_ % kGroups];
  if (group->lookups_matched != group->lookups_begun) return nullptr;
  finished_++;
  return group;
}

void Suspects::release(SuspectGroup& group) noexcept {
  clear(group);
  group.receptions = group.lookups_begun = group.lookups_matched = 0;
  free_groups_[n_free_groups_++] = &group;
}

}  // namespace weir::dataplane
