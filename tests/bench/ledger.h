#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::bench {

// Which of the two policies judged a packet: `a` drops even flows and passes odd ones, `b` the reverse.
enum class Policy : uint8_t { a, b };

constexpr Policy policy_of(uint32_t flow, bool dropped) {
  return (flow % 2 == 0) == dropped ? Policy::a : Policy::b;
}

// Keeps the books of a numbered stream that comes back on two outputs: every number once, and in the order of the
// numbers the policy may change at a swap only. The outputs interleave, so numbers arrive slightly out of order; the
// window puts them back.
class Ledger {
 public:
  // Larger than everything that can be under way (one memif ring, 2^14), so a hole that far behind is a loss.
  static constexpr uint64_t kWindow = 1 << 16;

  struct Change {
    uint64_t number = 0;      // the first packet that the other policy judged
    uint64_t seen_at = 0;     // clock of arrive(), when it was found
    bool in_traffic = false;  // the packet before it was sent right before it: the swap fell between busy bursts
  };

  explicit Ledger(uint64_t first_number = 0) : base_(first_number), newest_(first_number) {}

  // first_of_batch: the sender had paused before this packet.
  void arrive(uint64_t number, Policy policy, bool first_of_batch, uint64_t now) {
    if (number < base_) {
      surplus_++;
      return;
    }
    while (number >= base_ + kWindow) retire(now);
    uint8_t& slot = slots_[number % kWindow];
    if (slot != kMissing) {
      surplus_++;
      return;
    }
    slot = static_cast<uint8_t>(kSeen | (policy == Policy::b ? kPolicyB : 0) | (first_of_batch ? kFirst : 0));
    received_++;
    if (number >= newest_) newest_ = number + 1;
    while (slots_[base_ % kWindow] != kMissing) retire(now);
  }

  // What was sent below `end` and has not arrived is lost.
  void give_up(uint64_t end, uint64_t now) {
    while (base_ < end) retire(now);
    if (newest_ < end) newest_ = end;
  }

  uint64_t newest() const { return newest_; }      // one past the highest number that came back
  uint64_t received() const { return received_; }  // different numbers
  uint64_t lost() const { return lost_; }
  uint64_t surplus() const { return surplus_; }  // came twice, or after they were given up
  uint64_t change_count() const { return change_count_; }
  const std::vector<Change>& changes() const { return changes_; }    // the first kKept
  const std::vector<uint64_t>& lost_at() const { return lost_at_; }  // clock, one per loss; the first kKept

 private:
  static constexpr uint8_t kMissing = 0, kSeen = 1, kPolicyB = 2, kFirst = 4;
  static constexpr size_t kKept = 1 << 16;  // more than that is a broken data plane, not a place to look at

  // Takes the oldest number out of the window.
  void retire(uint64_t now) {
    uint8_t& slot = slots_[base_ % kWindow];
    if (slot == kMissing) {
      lost_++;
      if (lost_at_.size() < kKept) lost_at_.push_back(now);
    } else {
      const uint8_t policy = slot & kPolicyB;
      if (judged_ && policy != policy_) {
        change_count_++;
        if (changes_.size() < kKept) changes_.push_back({base_, now, (slot & kFirst) == 0});
      }
      policy_ = policy;
      judged_ = true;
    }
    slot = kMissing;
    base_++;
  }

  uint64_t base_;  // the lowest number that is still missing
  uint64_t newest_;
  uint64_t received_ = 0, lost_ = 0, surplus_ = 0, change_count_ = 0;
  uint8_t policy_ = 0;
  bool judged_ = false;
  std::vector<Change> changes_;
  std::vector<uint64_t> lost_at_;
  std::array<uint8_t, kWindow> slots_ = {};
};

}  // namespace weir::bench
