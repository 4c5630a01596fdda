#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/wire.h"

// A shadow (wire::Type::shadow): a candidate, which is a whole snapshot, judges the frames that the running snapshot
// has judged, and changes nothing. What it would have decided otherwise is counted and sampled. docs/operate/shadow.md.
namespace weir::wire {

enum class ShadowAction : uint32_t {
  ask,    // what was counted so far
  begin,  // by this candidate, whose descriptor comes along; one that ran before ends
  end,
};

// The candidate is named for begin only.
struct ShadowRequest {
  ShadowAction action = ShadowAction::ask;
  uint32_t one_in = 1;  // of so many batches of frames one is judged; 1: all
  Generation candidate;
  uint64_t digest[2] = {};
  uint64_t size_bytes = 0;  // informative
};
constexpr uint32_t kMostShadowOneIn = 1'000'000;

// What a verdict is credited to, of one of both.
struct ShadowCredit {
  DroppedBy by = DroppedBy::list;  // or what passed it: a pass list, the default, or `unparsed: pass`
  uint8_t dropped = 0;
  uint8_t layer = 0;  // that is credited; 0: the outer one
  uint8_t reserved[5] = {};
  char list[64] = {};  // empty unless by a list
};

// A frame that both judge differently.
struct ShadowSample {
  uint64_t time_unix_ns = 0;
  uint64_t now_unix_s = 0;  // what `expires` was compared with
  Generation running;       // that judged it beside the candidate
  // The layer that drops, of the one that drops it: as in Sample.
  alignas(8) std::byte packet[kPacketBytes] = {};
  uint32_t frame_bytes = 0;  // without FCS
  uint16_t port = 0, queue = 0;
  ShadowCredit by_running, by_candidate;
};
static_assert(sizeof(ShadowCredit) == 72 && sizeof(ShadowSample) == 32 + kPacketBytes + 8 + 2 * 72, "no padding");

// Frames that only one of both drops, by what the one that drops is credited to.
struct ShadowList {
  char name[64] = {};  // empty unless by a list
  uint32_t by = 0;     // enum DroppedBy
  uint32_t reserved = 0;
  uint64_t newly_dropped = 0, newly_dropped_bytes = 0;  // credited to the candidate's list
  uint64_t newly_passed = 0, newly_passed_bytes = 0;    // credited to the list of what runs
};
static_assert(sizeof(ShadowList) == 104, "no padding");
constexpr size_t kMaxShadowLists = 1024;  // what ran may have been another policy with other lists
// The row of this list, or reason, which is made when there is none; null: there are kMaxShadowLists already.
ShadowList* row_of(const char (&name)[64], DroppedBy by, std::vector<ShadowList>& rows);

// Since the shadow began.
struct ShadowBody {
  uint32_t on = 0;
  uint32_t one_in = 0;
  Generation candidate;     // {0,0}: there was none since the enforcer started
  uint64_t digest[2] = {};  // of the candidate's bytes, as they were received
  uint64_t size_bytes = 0;
  uint64_t began_unix_s = 0;
  Generation beside;     // what ran when it began
  uint64_t batches = 0;  // that it judged
  uint64_t packets = 0, bytes = 0;
  uint64_t cycles = 0;  // of the TSC, that judging them took
  uint64_t tsc_hz = 0;  // 0: cycles are nanoseconds
  uint64_t newly_dropped = 0, newly_dropped_bytes = 0, newly_passed = 0, newly_passed_bytes = 0;
  uint64_t sampled = 0;  // differing frames that were told of, in answers, this one included
  uint64_t lost = 0;     // differing frames that were not: there was no room
  uint32_t n_lists = 0, n_samples = 0;
  uint32_t ok = 1;  // 0: what was asked for failed, in this step
  Step failed_step = Step::none;
  char reason[256] = {};  // of a failure; or why it ended by itself
};
static_assert(sizeof(ShadowBody) == 432, "no padding");

struct Shadow {
  ShadowBody body;
  std::vector<ShadowList> lists;
  std::vector<ShadowSample> samples;
};

// Samples that do not fit are left out; n_lists and n_samples are filled in.
std::vector<std::byte> encode_shadow(const Shadow& shadow);
std::optional<Shadow> shadow_from(const Message& message);
// That one answer holds, beside so many lists.
constexpr size_t most_shadow_samples(size_t n_lists) {
  return (kMaxMessageBytes - sizeof(Header) - sizeof(ShadowBody) - n_lists * sizeof(ShadowList)) / sizeof(ShadowSample);
}
static_assert(most_shadow_samples(kMaxShadowLists) >= 64);

}  // namespace weir::wire
