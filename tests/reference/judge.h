#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tests/reference/classifier.h"
#include "tests/reference/frames.h"

// The verdicts and counters that an enforcer must have for frames (docs/operate/dataplane.md), by the reference
// classifier.
namespace weir::reference {

// Packets and their bytes (frame length without FCS).
struct Tally {
  uint64_t packets = 0, bytes = 0;
  void add(size_t frame_bytes) {
    packets++;
    bytes += frame_bytes;
  }
};

struct ListTally {
  Tally matched, dropped, passed, would_drop;
  Tally dropped_alone, would_drop_alone;
};

struct Counters {
  Tally packets;
  uint64_t passed = 0, dropped = 0;
  uint64_t malformed = 0, not_ip = 0, incomplete = 0, default_passed = 0, default_dropped = 0;
  std::vector<ListTally> lists;  // as in the policy
};

struct Judged {
  ClassifiedFrame verdict;
  FrameKind kind;
  bool incomplete;
  size_t layers;  // of kind ip
};

enum class Ask : uint8_t { every_entry, the_index };

// Judges frame after frame and counts as an enforcer must. Borrows the policy. so_far: what was counted before, by
// policies of the same lists.
class Judge {
 public:
  explicit Judge(const control::Policy& policy, Ask ask = Ask::the_index, Counters so_far = {})
      : policy_(policy), ask_(ask), classifier_(policy), counters_(std::move(so_far)) {
    counters_.lists.resize(policy.lists.size());
  }

  // now: Unix seconds.
  Judged judge(std::span<const uint8_t> bytes, uint64_t now) {
    const Frame frame = parse_frame(bytes, policy_.tunnels);
    Judged judged = {{}, frame.kind, frame.incomplete, frame.layers.size()};
    if (frame.kind == FrameKind::malformed) judged.verdict.action = policy_.unparsed_action;
    if (frame.kind == FrameKind::ip) {
      judged.verdict = ask_ == Ask::every_entry ? classify_frame(policy_, frame.layers, now)
                                                : classifier_.classify_frame(frame.layers, now);
    }
    count(judged, bytes.size());
    return judged;
  }

  const Counters& counters() const { return counters_; }

 private:
  void count(const Judged& judged, size_t frame_bytes) {
    const ClassifiedFrame& verdict = judged.verdict;
    const bool drops = verdict.action == WEIR_DROP;
    counters_.packets.add(frame_bytes);
    (drops ? counters_.dropped : counters_.passed)++;
    counters_.not_ip += judged.kind == FrameKind::not_ip;
    counters_.malformed += judged.kind == FrameKind::malformed;
    counters_.incomplete += judged.incomplete;
    for (const unsigned list : verdict.matched) counters_.lists[list].matched.add(frame_bytes);
    for (const unsigned list : verdict.would_drop) counters_.lists[list].would_drop.add(frame_bytes);
    if (verdict.droppers.empty()) {
      for (const unsigned list : verdict.would_drop) counters_.lists[list].would_drop_alone.add(frame_bytes);
    }
    if (verdict.credited >= 0) {
      ListTally& credited = counters_.lists[static_cast<size_t>(verdict.credited)];
      (drops ? credited.dropped : credited.passed).add(frame_bytes);
      if (drops && verdict.droppers.size() == 1) credited.dropped_alone.add(frame_bytes);
    } else if (judged.kind == FrameKind::ip) {
      (drops ? counters_.default_dropped : counters_.default_passed)++;
    }
  }

  const control::Policy& policy_;
  const Ask ask_;
  const Classifier classifier_;
  Counters counters_;
};

}  // namespace weir::reference
