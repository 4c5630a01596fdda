#include "dataplane/burst/shadow.h"

#include <rte_cycles.h>

#include <bit>
#include <cstring>

#include "filter/format/residual.h"

namespace weir::dataplane {

namespace {

wire::ShadowCredit credit_in(const WorkerSnapshot& snapshot, const VerdictCredit& credit, bool dropped) noexcept {
  wire::ShadowCredit told;
  told.by = credit.by;
  told.dropped = dropped ? 1 : 0;
  told.layer = credit.layer;
  if (credit.by == wire::DroppedBy::list) {
    static_assert(sizeof told.list == sizeof(weir_list::name));
    memcpy(told.list, snapshot.view->lists()[credit.list].name, sizeof told.list);
  }
  return told;
}

size_t place_of(const VerdictCredit& credit, size_t n_lists) noexcept {
  return credit.by == wire::DroppedBy::list ? credit.list : n_lists + static_cast<size_t>(credit.by) - 1;
}

}  // namespace

ShadowJudge::ShadowJudge(const filter::Kernels& kernels, uint32_t worker)
    : kernels_(kernels), worker_(worker), pipeline_(kernels, 0), keys_(new KeyBatch), theirs_(new Burst) {}

bool ShadowJudge::is_chosen(uint32_t one_in, ShadowOfWorker& counts) noexcept {
  if (one_in == 1) return true;
  if (counts.batches_left == 0) {
    // xorshift64*: Vigna 2016, arXiv:1402.6246.
    counts.random ^= counts.random >> 12;
    counts.random ^= counts.random << 25;
    counts.random ^= counts.random >> 27;
    counts.chosen = static_cast<uint32_t>(((counts.random * 0x2545f4914f6cdd1d) >> 32) * one_in >> 32);
    counts.batches_left = one_in;
  }
  return --counts.batches_left == counts.chosen;
}

[[gnu::noinline]] void ShadowJudge::judge_chosen(ShadowRun& run, ShadowOfWorker& counts, Burst& burst, uint64_t frames,
                                                 const Route& route) noexcept {
  const WorkerSnapshot& running = *burst.snapshot;
  if (!run.is_beside(worker_, running)) return;  // at a swap: whose lists are counted is another one in a moment
  const uint64_t begin = rte_rdtsc();
  const WorkerSnapshot& candidate = run.candidate()->of_worker(worker_);
  const uint32_t most = most_received(candidate.wants);
  Burst& theirs = *theirs_;
  uint64_t bytes = 0;
  for (uint64_t rest = frames; rest != 0;) {
    clear(theirs);
    uint8_t slots[kMaxReceived];
    for (; rest != 0 && theirs.n < most; rest &= rest - 1) {
      const auto slot = static_cast<uint32_t>(std::countr_zero(rest));
      slots[theirs.n] = static_cast<uint8_t>(slot);
      theirs.pkt[theirs.n] = burst.pkt[slot];
      theirs.bytes[theirs.n++] = burst.pkt[slot]->pkt_len;
    }
    theirs.now_unix_s = burst.now_unix_s;
    judge_theirs(candidate);
    bytes += theirs.total_bytes;
    for (uint32_t i = 0; i < theirs.n; i++) {
      if ((theirs.drop >> i & 1) != (burst.drop >> slots[i] & 1)) note(counts, burst, slots[i], i, route, begin);
    }
  }
  counts.batches.add(1);
  counts.packets.add(static_cast<uint64_t>(std::popcount(frames)));
  counts.bytes.add(bytes);
  counts.cycles.add(rte_rdtsc() - begin);
}

void ShadowJudge::judge_theirs(const WorkerSnapshot& candidate) noexcept {
  Burst& theirs = *theirs_;
  theirs.snapshot = &candidate;
  parse(candidate.wants, {}, theirs, counters_);
  ask_gates(candidate, kernels_, theirs);
  if (candidate.wants.fields) read_fields(theirs.asked[kSource] | theirs.asked[kDestination], theirs);
  for (size_t i = 0; i < candidate.lookups.size(); i++) {
    keys(candidate.lookups[i], kernels_, theirs, *keys_);
    if (keys_->n == 0) continue;
    keys_->probes = candidate.probes[i];
    keys_->lane = &candidate.lanes[i];
    pipeline_.push(keys_.get());
    pipeline_.drain();
    pipeline_.pop();
    match(*keys_);
  }
  verdict(theirs, low_bits(theirs.n), theirs.total_bytes, counters_);
}

[[gnu::noinline]] void ShadowJudge::note(ShadowOfWorker& counts, Burst& burst, uint32_t slot, uint32_t their_slot,
                                         const Route& route, uint64_t ticks) noexcept {
  Burst& theirs = *theirs_;
  const WorkerSnapshot &running = *burst.snapshot, &candidate = *theirs.snapshot;
  const bool runs_drop = (burst.drop & bit(slot)) != 0;
  const VerdictCredit by_running = credit_of(running, burst, slot, runs_drop);
  const VerdictCredit by_candidate = credit_of(candidate, theirs, their_slot, !runs_drop);
  const uint64_t bytes = burst.pkt[slot]->pkt_len;
  if (runs_drop) {
    counts.newly_passed.add(1, bytes);
    counts.passed_by[place_of(by_running, running.view->lists().size())].add(1, bytes);
  } else {
    counts.newly_dropped.add(1, bytes);
    counts.dropped_by[place_of(by_candidate, candidate.view->lists().size())].add(1, bytes);
  }

  wire::ShadowSample* sample = counts.samples.free_slot();
  if (sample == nullptr) return counts.lost.add(1);
  *sample = {};
  sample->time_unix_ns = ticks;
  sample->now_unix_s = burst.now_unix_s;
  sample->running = running.generation();
  const bool has_headers = (runs_drop ? by_running : by_candidate).by != wire::DroppedBy::unparsed;
  if (has_headers) {
    Headers headers = runs_drop ? headers_of(burst, by_running.slot) : headers_of(theirs, by_candidate.slot);
    weir_clear_absent(&headers);
    static_assert(sizeof headers == sizeof sample->packet);
    memcpy(sample->packet, &headers, sizeof headers);
  }
  sample->frame_bytes = static_cast<uint32_t>(bytes);
  sample->port = route.in.port;
  sample->queue = route.in.queue;
  sample->by_running = credit_in(running, by_running, runs_drop);
  sample->by_candidate = credit_in(candidate, by_candidate, !runs_drop);
  counts.samples.push();
}

}  // namespace weir::dataplane
