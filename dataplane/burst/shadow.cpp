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
    : worker_(worker), passage_(out_, kernels, counters_) {}

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
                                                 const WorkerSnapshot& running, const Route& route) noexcept {
  if (!run.is_beside(worker_, running)) return;  // at a swap: whose lists are counted is another one in a moment
  const uint64_t begin = rte_rdtsc();
  const WorkerSnapshot& candidate = run.candidate()->of_worker(worker_);
  NoWatch no_watch;
  passage_.judge_by(candidate, no_watch);
  out_ = {&counts, &burst, &running, &route, {}, 0, begin};
  uint64_t bytes = 0;
  for (uint64_t rest = frames; rest != 0;) {
    Burst& theirs = passage_.open();
    const uint32_t room = room_for(candidate.wants, theirs);
    for (; rest != 0 && theirs.n < room; rest &= rest - 1) {
      const auto slot = static_cast<uint32_t>(std::countr_zero(rest));
      out_.slots[theirs.n] = static_cast<uint8_t>(slot);
      theirs.pkt[theirs.n++] = burst.pkt[slot];
      bytes += burst.pkt[slot]->pkt_len;
    }
    theirs.now_unix_s = burst.now_unix_s;
    out_.left = low_bits(theirs.n);
    passage_.take(route, 0, 0, no_watch);
    passage_.finish(no_watch);
  }
  counts.batches.add(1);
  counts.packets.add(static_cast<uint64_t>(std::popcount(frames)));
  counts.bytes.add(bytes);
  counts.cycles.add(rte_rdtsc() - begin);
}

// The frames come out in their order, those that wait for lookups behind those that do not: the lowest slots of a group
// belong to the lowest places that are left.
void ShadowJudge::Out::judged(Burst& theirs, uint64_t frames, const WorkerSnapshot& candidate, const Route&) noexcept {
  uint32_t their_slot = 0;
  for (uint64_t places = left; places != 0; places &= places - 1, their_slot++) {
    if ((frames & bit(their_slot)) == 0) continue;
    const auto place = static_cast<uint32_t>(std::countr_zero(places));
    left &= ~bit(place);
    const uint32_t slot = slots[place];
    if ((theirs.drop >> their_slot & 1) != (burst->drop >> slot & 1)) note(slot, theirs, their_slot, candidate);
  }
}

[[gnu::noinline]] void ShadowJudge::Out::note(uint32_t slot, Burst& theirs, uint32_t their_slot,
                                              const WorkerSnapshot& candidate) noexcept {
  const bool runs_drop = (burst->drop & bit(slot)) != 0;
  const VerdictCredit by_running = credit_of(*running, *burst, slot, runs_drop);
  const VerdictCredit by_candidate = credit_of(candidate, theirs, their_slot, !runs_drop);
  const uint64_t bytes = burst->pkt[slot]->pkt_len;
  if (runs_drop) {
    counts->newly_passed.add(1, bytes);
    counts->passed_by[place_of(by_running, running->view->lists().size())].add(1, bytes);
  } else {
    counts->newly_dropped.add(1, bytes);
    counts->dropped_by[place_of(by_candidate, candidate.view->lists().size())].add(1, bytes);
  }

  wire::ShadowSample* sample = counts->samples.free_slot();
  if (sample == nullptr) return counts->lost.add(1);
  *sample = {};
  sample->time_unix_ns = ticks;
  sample->now_unix_s = burst->now_unix_s;
  sample->running = running->generation();
  const bool has_headers = (runs_drop ? by_running : by_candidate).by != wire::DroppedBy::unparsed;
  if (has_headers) {
    Headers headers = runs_drop ? headers_of(*burst, by_running.slot) : headers_of(theirs, by_candidate.slot);
    weir_clear_absent(&headers);
    static_assert(sizeof headers == sizeof sample->packet);
    memcpy(sample->packet, &headers, sizeof headers);
  }
  sample->frame_bytes = static_cast<uint32_t>(bytes);
  sample->port = route->in.port;
  sample->queue = route->in.queue;
  sample->by_running = credit_in(*running, by_running, runs_drop);
  sample->by_candidate = credit_in(candidate, by_candidate, !runs_drop);
  counts->samples.push();
}

}  // namespace weir::dataplane
