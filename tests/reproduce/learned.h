// A learned Bloom filter (Kraska, Beutel, Chi, Dean, Polyzotis 2018) and its sandwich (Mitzenmacher 2018), for sets of
// IPv4 addresses, in the smallest form: the model is linear in the one-hot leading bits of the address. Of such a model
// the best weights are known without training by steps: the log-odds of members in each block of addresses. Strangers
// are taken as uniform while it learns.
#pragma once

#include <cmath>
#include <optional>

#include "tests/reproduce/probes.h"

namespace weir::reproduce {

// A Bloom filter of a number of bits and keys that is only known when it runs.
class AnyBloom {
 public:
  AnyBloom(double n, double bits)
      : bits_(std::max<uint64_t>(64, static_cast<uint64_t>(bits))),
        k_(static_cast<unsigned>(std::max(1.0, std::round(std::log(2) * bits / std::max(n, 1.0))))),
        n_(n),
        words_(bits_, kHugePage) {}

  bool check(uint64_t hash) const {
    for (unsigned i = 0; i < k_; i++) {
      if (!bit_at(words_.get(), position(hash, i))) return false;
    }
    return true;
  }
  void insert(uint64_t hash) {
    for (unsigned i = 0; i < k_; i++) {
      const uint64_t at = position(hash, i);
      words_.get()[at >> 6] |= uint64_t{1} << (at & 63);
    }
  }
  double rate() const { return standard_rate(n_, static_cast<double>(bits_), k_); }

 private:
  uint64_t position(uint64_t hash, unsigned i) const { return reduce(hash + i * (scatter(hash) | 1), bits_); }

  uint64_t bits_;
  unsigned k_;
  double n_;
  Words words_;
};

// The log-odds of a block with more members are higher, and only their order matters: the score is the number of
// members, 15 for all that are more.
class AddressModel {
 public:
  static constexpr unsigned kScores = 16, kScoreBits = 4;

  AddressModel(std::span<const uint32_t> members, unsigned leading_bits)
      : shift_(32 - leading_bits), scores_(size_t{1} << leading_bits) {
    std::vector<uint32_t> counts(scores_.size());
    for (const uint32_t address : members) counts[address >> shift_]++;
    const double most = *std::max_element(counts.begin(), counts.end());
    for (size_t i = 0; i < counts.size(); i++) {  // one step is a factor, but for the first
      const double step = counts[i] == 0 ? 0 : 1 + (kScores - 2) * std::log(counts[i]) / std::max(std::log(most), 1.0);
      scores_[i] = static_cast<uint8_t>(step);
    }
  }
  unsigned score(uint32_t address) const { return scores_[address >> shift_]; }
  double bits() const { return static_cast<double>(scores_.size()) * kScoreBits; }
  // Uniform strangers that reach `threshold`.
  double false_positives(unsigned threshold) const {
    return static_cast<double>(std::count_if(scores_.begin(), scores_.end(),
                                             [threshold](uint8_t score) { return score >= threshold; })) /
           static_cast<double>(scores_.size());
  }

 private:
  unsigned shift_;
  std::vector<uint8_t> scores_;  // one byte each here; four bits would do
};

enum class Sandwich { no, yes };

// Model first: who reaches the threshold is said to be a member. Behind it a Bloom filter of the members that do not.
// With `Sandwich::yes` one of all members stands before.
class LearnedBloom {
 public:
  struct Plan {
    unsigned leading_bits = 0, threshold = 0;
    double before_bits = 0, behind_bits = 0, rate = 2;
  };

  // The plan with the lowest rate for uniform strangers in `bits` in all, the model's included.
  static Plan plan(std::span<const uint32_t> members, double bits, Sandwich sandwich) {
    const auto n = static_cast<double>(members.size());
    const double per_bit = std::log(2) * std::log(2);  // rate = exp(-per_bit * bits of a key), the best Bloom filter's
    Plan best;
    for (const unsigned leading_bits : {8u, 10u, 12u, 14u, 16u}) {
      const AddressModel model(members, leading_bits);
      if (model.bits() >= bits) continue;
      std::vector<double> missed(AddressModel::kScores + 1);  // members below each threshold
      for (const uint32_t address : members) missed[model.score(address) + 1]++;
      for (unsigned t = 1; t <= AddressModel::kScores; t++) missed[t] += missed[t - 1];
      for (unsigned threshold = 1; threshold <= AddressModel::kScores; threshold++) {
        const double said = model.false_positives(threshold), lost = missed[threshold] / n, left = bits - model.bits();
        double behind = lost == 0 ? 0 : left;
        if (sandwich == Sandwich::yes && lost > 0 && said > 0 && lost < 1) {  // Mitzenmacher's b2
          behind = -n * lost / per_bit * std::log(said / ((1 - said) * (1 / lost - 1)));
          behind = std::clamp(behind, 0.0, left);
        }
        const double before = sandwich == Sandwich::yes ? left - behind : 0;
        const double backup = lost == 0 ? 0 : std::exp(-per_bit * behind / (n * lost));
        const double rate = std::exp(-per_bit * before / n) * (said + (1 - said) * backup);
        if (rate < best.rate) best = {leading_bits, threshold, before, behind, rate};
      }
    }
    return best;
  }

  LearnedBloom(std::span<const uint32_t> members, const Plan& plan)
      : model_(members, plan.leading_bits), threshold_(plan.threshold) {
    const auto missed = static_cast<double>(std::count_if(
        members.begin(), members.end(), [this](uint32_t address) { return model_.score(address) < threshold_; }));
    if (plan.before_bits > 0) before_.emplace(static_cast<double>(members.size()), plan.before_bits);
    if (missed > 0) behind_.emplace(missed, plan.behind_bits);
    for (const uint32_t address : members) {
      if (before_) before_->insert(scatter(address));
      if (behind_ && model_.score(address) < threshold_) behind_->insert(scatter(~uint64_t{address}));
    }
  }
  bool check(uint32_t address) const {
    if (before_ && !before_->check(scatter(address))) return false;
    return model_.score(address) >= threshold_ || (behind_ && behind_->check(scatter(~uint64_t{address})));
  }
  bool model_says(uint32_t address) const { return model_.score(address) >= threshold_; }
  // Of strangers of whom the model takes this share for members.
  double rate(double said) const {
    return (before_ ? before_->rate() : 1) * (said + (1 - said) * (behind_ ? behind_->rate() : 0));
  }

 private:
  AddressModel model_;
  unsigned threshold_;
  std::optional<AnyBloom> before_, behind_;
};

// What weir does with the same knowledge: a bit for each block of addresses, set where there is a member, and a Bloom
// filter behind it. No member is lost by the bits, so nothing has to make up for them.
class GatedBloom {
 public:
  // Leading bits that give uniform strangers the lowest rate, with `bits` in all.
  static unsigned best_leading_bits(std::span<const uint32_t> members, double bits) {
    const auto n = static_cast<double>(members.size());
    unsigned best = 8;
    double lowest = 2;
    for (unsigned leading = 8; std::exp2(leading) < bits / 2; leading++) {
      const double behind = (bits - std::exp2(leading)) / n;
      const double rate = GatedBloom(members, leading, 64).gate_share() * std::exp(-std::log(2) * std::log(2) * behind);
      if (rate < lowest) lowest = rate, best = leading;
    }
    return best;
  }

  GatedBloom(std::span<const uint32_t> members, unsigned leading_bits, double bits)
      : shift_(32 - leading_bits),
        gate_(size_t{1} << leading_bits),
        bloom_(static_cast<double>(members.size()), std::max(64.0, bits - std::exp2(leading_bits))) {
    for (const uint32_t address : members) {
      gate_[address >> shift_] = true;
      bloom_.insert(scatter(address));
    }
  }
  bool model_says(uint32_t address) const { return gate_[address >> shift_]; }
  bool check(uint32_t address) const { return model_says(address) && bloom_.check(scatter(address)); }
  double gate_share() const {
    return static_cast<double>(std::count(gate_.begin(), gate_.end(), true)) / static_cast<double>(gate_.size());
  }
  double rate(double said) const { return said * bloom_.rate(); }

 private:
  unsigned shift_;
  std::vector<bool> gate_;
  AnyBloom bloom_;
};

}  // namespace weir::reproduce
