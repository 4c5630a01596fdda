#include "dataplane/burst/stages.h"

namespace weir::dataplane {

namespace {

constexpr uint32_t kNoList = WEIR_MAX_LISTS;

uint64_t count(uint64_t mask) {
  return static_cast<uint64_t>(__builtin_popcountll(mask));
}

uint32_t first_of(const weir_set& matched, const uint64_t lists[WEIR_LIST_WORDS]) {
  for (uint32_t w = 0; w < WEIR_LIST_WORDS; w++) {
    const uint64_t both = matched.lists[w] & lists[w];
    if (both != 0) return w * 64 + static_cast<uint32_t>(__builtin_ctzll(both));
  }
  return kNoList;
}

// Frames that are judged alike.
struct Frames {
  uint64_t packets, bytes;
};

// Adds frames to one tally of every list in both sets.
void tally_each(const weir_set& matched, const uint64_t lists[WEIR_LIST_WORDS], ListCounters* counters,
                Tally ListCounters::*tally, Frames frames) {
  for (uint32_t w = 0; w < WEIR_LIST_WORDS; w++) {
    for (uint64_t left = matched.lists[w] & lists[w]; left != 0; left &= left - 1) {
      (counters[w * 64 + static_cast<uint32_t>(__builtin_ctzll(left))].*tally).add(frames.packets, frames.bytes);
    }
  }
}

constexpr uint64_t kAllLists[WEIR_LIST_WORDS] = {~0ull, ~0ull, ~0ull, ~0ull};

enum class Match : uint8_t { passed, dropped, undecided };

// Steps 3 and 4 for packets that match the same lists.
Match judge(const WorkerSnapshot& snapshot, const weir_set& matched, Frames frames) noexcept {
  const weir_snapshot_header& header = snapshot.view->header();
  tally_each(matched, kAllLists, snapshot.lists, &ListCounters::matched, frames);

  const uint32_t pass_list = first_of(matched, header.pass_lists);
  if (pass_list != kNoList) {
    snapshot.lists[pass_list].passed.add(frames.packets, frames.bytes);
    return Match::passed;
  }
  tally_each(matched, header.monitor_lists, snapshot.lists, &ListCounters::would_drop, frames);
  const uint32_t drop_list = first_of(matched, header.drop_lists);
  if (drop_list == kNoList) return Match::undecided;
  snapshot.lists[drop_list].dropped.add(frames.packets, frames.bytes);
  return Match::dropped;
}

// A frame with inner layers: each layer is a packet of its own, the frame drops when one of them does. Counts once per
// frame and list; what credits the verdict: docs/operate/dataplane.md, "Tunnels". True: it drops.
[[gnu::noinline]] bool judge_layers(const WorkerSnapshot& snapshot, const Burst& burst, uint32_t i,
                                    WorkerCounters& counters) noexcept {
  const weir_snapshot_header& header = snapshot.view->header();
  const bool drop_by_default = header.default_action == WEIR_DROP;
  const Frames frame = {1, burst.pkt[i]->pkt_len};
  weir_set matched = {}, would_drop = {};  // in some layer
  bool dropped = false;
  uint32_t drop_list = kNoList, pass_list = kNoList;  // that the outermost such layer is credited to
  for (uint32_t layer = 0; layer <= burst.n_inner[i]; layer++) {
    const uint32_t slot = layer == 0 ? i : burst.inner[i] + 1 - layer;
    weir_set here = {};
    if ((burst.hit & bit(slot)) != 0) here = lists_of(burst, slot);
    for (uint32_t w = 0; w < WEIR_LIST_WORDS; w++) matched.lists[w] |= here.lists[w];

    const uint32_t passed_by = first_of(here, header.pass_lists);
    if (passed_by != kNoList) {
      if (pass_list == kNoList) pass_list = passed_by;
      continue;
    }
    for (uint32_t w = 0; w < WEIR_LIST_WORDS; w++) would_drop.lists[w] |= here.lists[w] & header.monitor_lists[w];
    const uint32_t dropped_by = first_of(here, header.drop_lists);
    if (!dropped && (dropped_by != kNoList || drop_by_default)) {
      dropped = true;
      drop_list = dropped_by;
    }
  }

  tally_each(matched, kAllLists, snapshot.lists, &ListCounters::matched, frame);
  tally_each(would_drop, kAllLists, snapshot.lists, &ListCounters::would_drop, frame);
  const uint32_t credited = dropped ? drop_list : pass_list;
  if (credited == kNoList) {
    (dropped ? counters.default_dropped : counters.default_passed).add(1);
  } else {
    (snapshot.lists[credited].*(dropped ? &ListCounters::dropped : &ListCounters::passed))
        .add(frame.packets, frame.bytes);
  }
  return dropped;
}

// Frames one after the other that match by the same set: under attack most do, and are judged at once.
struct Run {
  uint32_t first;
  uint64_t mask;
  Frames frames;
};

// left: the frames to judge, at least one.
Run first_run(const Burst& burst, uint64_t left) noexcept {
  Run run = {static_cast<uint32_t>(__builtin_ctzll(left)), 0, {0, 0}};
  const uint32_t set_id = burst.set_id[run.first];
  do {
    const uint32_t i = static_cast<uint32_t>(__builtin_ctzll(left));
    if (i != run.first && (set_id == 0 || burst.set_id[i] != set_id)) break;
    run.mask |= bit(i);
    run.frames.packets++;
    run.frames.bytes += burst.pkt[i]->pkt_len;
    left &= left - 1;
  } while (left != 0);
  return run;
}

void count_verdicts(const Burst& burst, WorkerCounters& counters) {
  const uint64_t dropped = count(burst.drop);
  counters.packets.add(burst.n);
  counters.bytes.add(burst.bytes);
  counters.dropped.add(dropped);
  counters.passed.add(burst.n - dropped);
}

}  // namespace

void verdict(const WorkerSnapshot& snapshot, Burst& burst, WorkerCounters& counters) noexcept {
  uint64_t decided = burst.not_ip | burst.malformed | burst.layered;
  burst.drop = snapshot.view->header().unparsed_action == WEIR_DROP ? burst.malformed : 0;
  for (uint64_t left = burst.layered; left != 0; left &= left - 1) {
    const uint32_t i = static_cast<uint32_t>(__builtin_ctzll(left));
    burst.drop |= uint64_t{judge_layers(snapshot, burst, i, counters)} << i;
  }
  for (uint64_t left = burst.hit & low_bits(burst.n) & ~burst.layered; left != 0;) {
    const Run run = first_run(burst, left);
    const Match match = judge(snapshot, lists_of(burst, run.first), run.frames);
    if (match != Match::undecided) decided |= run.mask;
    if (match == Match::dropped) burst.drop |= run.mask;
    left &= ~run.mask;
  }
  const uint64_t by_default = low_bits(burst.n) & ~decided;
  if (snapshot.view->header().default_action == WEIR_DROP) {
    burst.drop |= by_default;
    counters.default_dropped.add(count(by_default));
  } else {
    counters.default_passed.add(count(by_default));
  }
  count_verdicts(burst, counters);
}

void verdict_for_all(bool pass, Burst& burst, Counter& reason, WorkerCounters& counters) noexcept {
  burst.drop = pass ? 0 : low_bits(burst.n);
  reason.add(burst.n);
  count_verdicts(burst, counters);
}

DropCredit why_dropped(const WorkerSnapshot& snapshot, const Burst& burst, uint32_t i) noexcept {
  using wire::DroppedBy;
  const weir_snapshot_header& header = snapshot.view->header();
  if ((burst.malformed & bit(i)) != 0) return {DroppedBy::unparsed, kNoList, i, 0};
  const uint32_t n_inner = (burst.layered & bit(i)) != 0 ? burst.n_inner[i] : 0;
  for (uint32_t layer = 0; layer <= n_inner; layer++) {
    const uint32_t slot = layer == 0 ? i : burst.inner[i] + 1 - layer;
    const weir_set here = (burst.hit & bit(slot)) != 0 ? lists_of(burst, slot) : weir_set{};
    if (first_of(here, header.pass_lists) != kNoList) continue;
    const uint32_t list = first_of(here, header.drop_lists);
    if (list != kNoList) return {DroppedBy::list, list, slot, static_cast<uint8_t>(layer)};
    if (header.default_action == WEIR_DROP)
      return {DroppedBy::default_action, kNoList, slot, static_cast<uint8_t>(layer)};
  }
  return {DroppedBy::default_action, kNoList, i, 0};  // not a dropped frame
}

}  // namespace weir::dataplane
