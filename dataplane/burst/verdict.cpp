#include <emmintrin.h>

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

// Whether exactly one list is in both sets.
bool is_one(const weir_set& matched, const uint64_t lists[WEIR_LIST_WORDS]) {
  uint64_t n = 0;
  for (uint32_t w = 0; w < WEIR_LIST_WORDS; w++) n += count(matched.lists[w] & lists[w]);
  return n == 1;
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
  if (drop_list == kNoList) {
    tally_each(matched, header.monitor_lists, snapshot.lists, &ListCounters::would_drop_alone, frames);
    return Match::undecided;
  }
  ListCounters& credited = snapshot.lists[drop_list];
  credited.dropped.add(frames.packets, frames.bytes);
  if (is_one(matched, header.drop_lists)) credited.dropped_alone.add(frames.packets, frames.bytes);
  return Match::dropped;
}

// A frame with inner layers: each layer is a packet of its own, the frame drops when one of them does. Counts once per
// frame and list; what credits the verdict: docs/operate/dataplane.md, "Tunnels". True: it drops.
[[gnu::noinline]] bool judge_layers(const WorkerSnapshot& snapshot, const Burst& burst, uint32_t i,
                                    WorkerCounters& counters) noexcept {
  const weir_snapshot_header& header = snapshot.view->header();
  const bool drop_by_default = header.default_action == WEIR_DROP;
  const Frames frame = {1, burst.bytes[i]};
  weir_set matched = {}, would_drop = {}, drops = {};  // in some layer
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
    for (uint32_t w = 0; w < WEIR_LIST_WORDS; w++) {
      would_drop.lists[w] |= here.lists[w] & header.monitor_lists[w];
      drops.lists[w] |= here.lists[w] & header.drop_lists[w];
    }
    const uint32_t dropped_by = first_of(here, header.drop_lists);
    if (!dropped && (dropped_by != kNoList || drop_by_default)) {
      dropped = true;
      drop_list = dropped_by;
    }
  }

  tally_each(matched, kAllLists, snapshot.lists, &ListCounters::matched, frame);
  tally_each(would_drop, kAllLists, snapshot.lists, &ListCounters::would_drop, frame);
  if (first_of(drops, kAllLists) == kNoList) {
    tally_each(would_drop, kAllLists, snapshot.lists, &ListCounters::would_drop_alone, frame);
  }
  const uint32_t credited = dropped ? drop_list : pass_list;
  if (credited == kNoList) {
    (dropped ? counters.default_dropped : counters.default_passed).add(1);
  } else {
    (snapshot.lists[credited].*(dropped ? &ListCounters::dropped : &ListCounters::passed))
        .add(frame.packets, frame.bytes);
    if (dropped && is_one(drops, kAllLists)) {
      snapshot.lists[credited].dropped_alone.add(frame.packets, frame.bytes);
    }
  }
  return dropped;
}

// Frames that match by the same set: under attack most do, and are judged at once.
struct Alike {
  uint64_t mask;
  Frames frames;
};

// Those of the frames in `left` with this set, four at a time, and their lengths.
Alike with_set(const Burst& burst, uint32_t set_id, uint64_t left) noexcept {
  const auto four_of = [](const uint32_t* column) { return _mm_load_si128(reinterpret_cast<const __m128i*>(column)); };
  const __m128i wanted = _mm_set1_epi32(static_cast<int>(set_id)), bits = _mm_set_epi32(8, 4, 2, 1);
  __m128i bytes = _mm_setzero_si128();  // 16 frames in each lane: below 2^32
  uint64_t mask = 0;
  for (uint32_t i = 0; i < burst.n; i += 4) {
    const __m128i asked = _mm_and_si128(_mm_set1_epi32(static_cast<int>(left >> i)), bits);
    const __m128i has_set = _mm_cmpeq_epi32(four_of(burst.set_id + i), wanted);
    const __m128i alike = _mm_and_si128(has_set, _mm_cmpeq_epi32(asked, bits));
    bytes = _mm_add_epi32(bytes, _mm_and_si128(four_of(burst.bytes + i), alike));
    mask |= static_cast<uint64_t>(_mm_movemask_ps(_mm_castsi128_ps(alike))) << i;
  }
  alignas(16) uint32_t sums[4];
  _mm_store_si128(reinterpret_cast<__m128i*>(sums), bytes);
  return {mask, {count(mask), uint64_t{sums[0]} + sums[1] + sums[2] + sums[3]}};
}

// left: the frames to judge, at least one.
Alike first_alike(const Burst& burst, uint64_t left) noexcept {
  const auto first = static_cast<uint32_t>(__builtin_ctzll(left));
  const uint32_t set_id = burst.set_id[first];
  return set_id == 0 ? Alike{bit(first), {1, burst.bytes[first]}} : with_set(burst, set_id, left);
}

// drop: those of the frames that are dropped.
void count_verdicts(Frames frames, uint64_t drop, WorkerCounters& counters) noexcept {
  const uint64_t dropped = count(drop);
  counters.packets.add(frames.packets);
  counters.bytes.add(frames.bytes);
  counters.dropped.add(dropped);
  counters.passed.add(frames.packets - dropped);
}

// Frames that no list decides. Those of them that drop.
uint64_t by_default(const WorkerSnapshot& snapshot, uint64_t frames, WorkerCounters& counters) noexcept {
  const bool drops = snapshot.view->header().default_action == WEIR_DROP;
  (drops ? counters.default_dropped : counters.default_passed).add(count(frames));
  return drops ? frames : 0;
}

}  // namespace

void verdict(Burst& burst, uint64_t frames, uint64_t bytes, WorkerCounters& counters) noexcept {
  const WorkerSnapshot& snapshot = *burst.snapshot;
  const uint64_t malformed = burst.malformed & frames;
  uint64_t drop = snapshot.view->header().unparsed_action == WEIR_DROP ? malformed : 0;
  uint64_t decided = malformed | burst.not_ip | burst.layered;
  for (uint64_t left = burst.layered & frames; left != 0; left &= left - 1) {
    const uint32_t i = static_cast<uint32_t>(__builtin_ctzll(left));
    drop |= uint64_t{judge_layers(snapshot, burst, i, counters)} << i;
  }
  for (uint64_t left = burst.hit & frames & ~burst.layered; left != 0;) {
    const Alike alike = first_alike(burst, left);
    const auto first = static_cast<uint32_t>(__builtin_ctzll(left));
    const Match match = judge(snapshot, lists_of(burst, first), alike.frames);
    if (match != Match::undecided) decided |= alike.mask;
    if (match == Match::dropped) drop |= alike.mask;
    left &= ~alike.mask;
  }
  burst.drop = drop | by_default(snapshot, frames & ~decided, counters);
  count_verdicts({count(frames), bytes}, burst.drop, counters);
}

void verdict_for_all(bool pass, Burst& burst, Counter& reason, WorkerCounters& counters) noexcept {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < burst.n; i++) bytes += burst.pkt[i]->pkt_len;
  burst.drop = pass ? 0 : low_bits(burst.n);
  reason.add(burst.n);
  count_verdicts({burst.n, bytes}, burst.drop, counters);
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

VerdictCredit credit_of(const WorkerSnapshot& snapshot, const Burst& burst, uint32_t i, bool dropped) noexcept {
  using wire::DroppedBy;
  if (dropped) return why_dropped(snapshot, burst, i);
  if ((burst.malformed & bit(i)) != 0) return {DroppedBy::unparsed, kNoList, i, 0};
  const uint32_t n_inner = (burst.layered & bit(i)) != 0 ? burst.n_inner[i] : 0;
  for (uint32_t layer = 0; layer <= n_inner; layer++) {
    const uint32_t slot = layer == 0 ? i : burst.inner[i] + 1 - layer;
    if ((burst.hit & bit(slot)) == 0) continue;
    const uint32_t list = first_of(lists_of(burst, slot), snapshot.view->header().pass_lists);
    if (list != kNoList) return {DroppedBy::list, list, slot, static_cast<uint8_t>(layer)};
  }
  return {DroppedBy::default_action, kNoList, i, 0};
}

}  // namespace weir::dataplane
