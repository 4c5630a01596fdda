#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "tests/reference/classifier.h"
#include "tests/reference/frames.h"

// What an enforcer must do with frames, and how it must count (DESIGN section 4), by the reference classifier.
namespace weir::reference {

// Packets and their bytes (frame length without FCS).
struct Tally {
  uint64_t packets = 0, bytes = 0;
  void add(size_t frame_bytes) {
    packets++;
    bytes += frame_bytes;
  }
};

// Judges frame after frame (DESIGN section 4) and counts as an enforcer must.
class Judge {
 public:
  // now: Unix seconds.
  Judge(const control::Policy& policy, uint64_t now) : policy_(policy), classifier_(policy), now_(now) {
    counters_.lists.resize(policy.lists.size());
  }

  // True: the frame drops.
  bool drops(std::span<const uint8_t> bytes) {
    const weir_action action = judge(bytes);
    counters_.packets.add(bytes.size());
    (action == WEIR_DROP ? counters_.dropped : counters_.passed)++;
    return action == WEIR_DROP;
  }

  struct ListTally {
    Tally matched, dropped, passed, would_drop;
  };
  struct Counters {
    Tally packets;
    uint64_t passed = 0, dropped = 0;
    uint64_t malformed = 0, not_ip = 0, incomplete = 0, default_passed = 0, default_dropped = 0;
    std::vector<ListTally> lists;  // as in the policy
  };
  const Counters& counters() const { return counters_; }

 private:
  // The one place that asks the classifier.
  Classified classify(const PacketKeys& packet) const {
    (void)now_;  // for the classifier, once it knows entries that expire
    return classifier_.classify(packet);
  }

  // The frame drops when any of its layers does. A layer's lists count once per frame.
  weir_action judge(std::span<const uint8_t> bytes) {
    const Frame frame = parse_frame(bytes, policy_.tunnels);
    if (frame.kind == FrameKind::not_ip) {
      counters_.not_ip++;
      return WEIR_PASS;
    }
    if (frame.kind == FrameKind::malformed) {
      counters_.malformed++;
      return policy_.unparsed_action;
    }
    if (frame.incomplete) counters_.incomplete++;
    std::vector<Classified> layers;  // outer first
    for (const PacketKeys& packet : frame.layers) layers.push_back(classify(packet));

    std::set<unsigned> matched, would_drop;
    for (const Classified& layer : layers) {
      const bool exempt = is_exempt(layer);
      for (const unsigned l : layer.matched) {
        matched.insert(l);
        if (policy_.lists[l].mode == WEIR_MONITOR && !exempt) would_drop.insert(l);
      }
    }
    for (const unsigned l : matched) counters_.lists[l].matched.add(bytes.size());
    for (const unsigned l : would_drop) counters_.lists[l].would_drop.add(bytes.size());

    const Classified* dropping = first(layers, [](const Classified& layer) { return layer.action == WEIR_DROP; });
    if (dropping != nullptr) {
      credit(*dropping, counters_.default_dropped, &ListTally::dropped, bytes.size());
      return WEIR_DROP;
    }
    const Classified* exempting = first(layers, [this](const Classified& layer) { return is_exempt(layer); });
    credit(exempting != nullptr ? *exempting : layers.front(), counters_.default_passed, &ListTally::passed,
           bytes.size());
    return WEIR_PASS;
  }

  bool is_exempt(const Classified& layer) const {
    return std::any_of(layer.matched.begin(), layer.matched.end(),
                       [this](unsigned l) { return policy_.lists[l].action == WEIR_PASS; });
  }

  // The outermost layer of which `which` holds; null: none.
  template <class Which>
  static const Classified* first(const std::vector<Classified>& layers, Which which) {
    const auto found = std::find_if(layers.begin(), layers.end(), which);
    return found == layers.end() ? nullptr : &*found;
  }

  // The frame's verdict is this layer's: its list's, or the default's.
  void credit(const Classified& layer, uint64_t& by_default, Tally ListTally::*tally, size_t frame_bytes) {
    if (layer.credited < 0) {
      by_default++;
    } else {
      (counters_.lists[static_cast<size_t>(layer.credited)].*tally).add(frame_bytes);
    }
  }

  const control::Policy& policy_;
  const Classifier classifier_;
  const uint64_t now_;
  Counters counters_;
};

}  // namespace weir::reference
