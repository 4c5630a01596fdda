#include "tests/agreement/sequences.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/policy/model/range_text.h"
#include "tests/agreement/aimed_frames.h"
#include "tests/agreement/publisher.h"

namespace weir::agreement {
namespace {

constexpr unsigned kAimsAtEach = 3;     // frames at an entry that has just changed
constexpr unsigned kAimsAtFormer = 12;  // at those that changed some steps ago
constexpr unsigned kAimsAtOthers = 12;  // at whatever is on a list
constexpr unsigned kOfMaker = 16;       // with every encapsulation
constexpr size_t kRemembered = 64;      // of each kind, that changed some steps ago
constexpr uint64_t kCountersEvery = 16;
constexpr unsigned kCompactionOneIn = 20, kLongestCompaction = 6, kReloadOneIn = 40;
constexpr unsigned kMissedOneIn = 20, kRestartOneIn = 80;

template <class T>
void remember(std::vector<T>& all, const std::vector<T>& more) {
  all.insert(all.end(), more.begin(), more.end());
  if (all.size() > kRemembered) all.erase(all.begin(), all.end() - kRemembered);
}

std::string text_of(const Touched& touched) {
  constexpr size_t kTold = 12;
  std::string text;
  size_t told = 0;
  const auto tell = [&](const std::string& entry, uint32_t expires) {
    if (told++ < kTold) text += (text.empty() ? "" : ", ") + entry + control::expiry_text(expires);
  };
  for (const auto& entry : touched.v4) tell(control::range_text(entry.first, entry.last, entry.port), entry.expires);
  for (const auto& entry : touched.v6) tell(control::range_text(entry.first, entry.last, entry.port), entry.expires);
  for (const control::Flow& flow : touched.flows) tell(control::flow_text(flow), control::kNever);
  return told > kTold ? text + ", ..." : text;
}

class Sequence {
 public:
  Sequence(Choices& choices, ChangingPolicy policy, Agreement& agreement, SequenceTotals& totals)
      : choices_(choices), policy_(std::move(policy)), agreement_(agreement), totals_(totals), publisher_([&agreement] {
          return agreement.next_generation();
        }) {}

  std::optional<std::string> run(uint64_t steps) {
    if (auto problem = publish("the first one")) return problem;
    for (uint64_t number = 1; number <= steps; number++) {
      const Step step = policy_.step(choices_);
      if (auto problem = take(step)) {
        totals_.disagreements += agreement_.compared().disagreements == 0;  // else they are counted frame by frame
        return fmt::format("step {} at time {}: {}\n  changed: {}\n  {}; {}", number, policy_.now(), *problem,
                           text_of(step.touched), step.what, made_);
      }
      if (number % kCountersEvery != 0 && number != steps) continue;
      totals_.counters++;
      if (auto problem = agreement_.check_counters()) {
        totals_.disagreements++;
        return fmt::format("after step {}: {}\n  {}", number, *problem, made_);
      }
    }
    return std::nullopt;
  }

 private:
  std::optional<std::string> take(const Step& step) {
    refused_ = false;
    if (!step.is_time) {
      if (auto problem = publish(step.what)) return problem;
      if (refused_) return std::nullopt;
    }
    totals_.steps++;
    totals_.changes += step.changes;
    if (auto problem = judge(step.touched)) return problem;
    remember(former_.v4, step.touched.v4);
    remember(former_.v6, step.touched.v6);
    remember(former_.flows, step.touched.flows);
    return std::nullopt;
  }

  // What controld would make of the policy as it is now.
  Result<Published> make() {
    if (publisher_.is_compacting() && steps_to_base_-- == 0) {
      publisher_.finish_compaction();
      totals_.compactions++;
    }
    if (choices_.one_in(kReloadOneIn)) return publisher_.next_base(policy_.current(), "reloaded");
    return publisher_.next(policy_.current());
  }

  std::optional<std::string> publish(const std::string& what) {
    Result<Published> made = make();
    if (made && choices_.one_in(kMissedOneIn)) {  // the planes were away; they get what comes next
      totals_.missed++;
      made = make();
    }
    if (!made) {
      if (made.error().find("filter.memory") == std::string::npos || judged_by_ == nullptr) return made.error();
      totals_.refused++;
      refused_ = true;
      policy_.undo();
      return std::nullopt;
    }
    made_ = made->why_base.empty()
                ? fmt::format("overlay {} of {} keys on base {}", made->publication->generation.number,
                              made->overlay_keys, publisher_.base_number())
                : fmt::format("base {} ({})", publisher_.base_number(), made->why_base);
    (made->why_base.empty() ? totals_.overlays : totals_.bases)++;
    const std::shared_ptr<const control::Policy> expected = policy_.expected();
    if (auto ok = agreement_.publish(*expected, *made->publication); !ok) {
      return fmt::format("refused after {}: {}", what, ok.error());
    }
    judged_by_ = expected;
    if (choices_.one_in(kRestartOneIn)) {
      totals_.restarts++;
      made_ += ", restarted";
      if (auto ok = agreement_.restart(); !ok) return ok.error();
    }
    if (publisher_.is_compacting() || !choices_.one_in(kCompactionOneIn)) return std::nullopt;
    steps_to_base_ = choices_.below(kLongestCompaction);
    if (auto ok = publisher_.begin_compaction(policy_.current()); !ok) return ok.error();
    return std::nullopt;
  }

  template <class T>
  void aim(const std::vector<T>& entries, unsigned times) {
    for (const T& entry : entries) {
      for (unsigned n = 0; n < times; n++) aim_at(choices_, entry, next_frame());
    }
  }
  template <class T>
  void aim_at_some(const T& entries, unsigned times) {
    for (; times > 0 && entries.size() > 0; times--) {
      aim_at(choices_, entries[choices_.below(static_cast<uint32_t>(entries.size()))], next_frame());
    }
  }

  // A stranger comes before each: else most frames would be listed, and planes go around their gates then.
  Frame& next_frame() {
    make_stranger(choices_, frames_.emplace_back());
    return frames_.emplace_back();
  }

  std::optional<std::string> judge(const Touched& touched) {
    frames_.clear();
    aim(touched.v4, kAimsAtEach);
    aim(touched.v6, kAimsAtEach);
    aim(touched.flows, kAimsAtEach);
    aim_at_some(former_.v4, kAimsAtFormer);
    aim_at_some(former_.v6, kAimsAtFormer);
    aim_at_some(former_.flows, kAimsAtFormer / 2);
    const control::List& list = judged_by_->lists[choices_.below(static_cast<uint32_t>(judged_by_->lists.size()))];
    aim_at_some(list.v4(), kAimsAtOthers);
    aim_at_some(list.v6(), kAimsAtOthers);
    aim_at_some(list.flows(), kAimsAtOthers / 2);
    const FrameMaker maker(*judged_by_);
    for (unsigned n = 0; n < kOfMaker; n++) maker.make(choices_, next_frame());
    return agreement_.judge(frames_, policy_.now(), choices_);
  }

  Choices& choices_;
  ChangingPolicy policy_;
  Agreement& agreement_;
  SequenceTotals& totals_;
  Publisher publisher_;
  std::shared_ptr<const control::Policy> judged_by_;  // that the agreement borrows
  Touched former_;
  std::vector<Frame> frames_;
  std::string made_;
  unsigned steps_to_base_ = 0;
  bool refused_ = false;
};

}  // namespace

SequenceTotals& SequenceTotals::operator+=(const SequenceTotals& more) {
  compared += more.compared;
  changes += more.changes;
  policies += more.policies;
  steps += more.steps;
  overlays += more.overlays;
  bases += more.bases;
  compactions += more.compactions;
  missed += more.missed;
  restarts += more.restarts;
  refused += more.refused;
  counters += more.counters;
  disagreements += more.disagreements;
  return *this;
}

std::optional<std::string> run_sequence(uint64_t seed, uint64_t steps, XdpPlane* xdp, SequenceTotals& totals) {
  Choices choices(seed);
  SequenceTotals mine;
  mine.policies = 1;
  std::optional<std::string> problem;
  Result<ChangingPolicy> policy = ChangingPolicy::make(choices);
  Result<std::unique_ptr<Agreement>> agreement = Agreement::open(xdp);
  if (!policy || !agreement) {
    problem = !policy ? policy.error() : agreement.error();
    mine.disagreements++;
  } else {
    problem = Sequence(choices, std::move(*policy), **agreement, mine).run(steps);
    mine.compared = (*agreement)->compared();
    mine.disagreements += mine.compared.disagreements;
  }
  totals += mine;
  return problem;
}

}  // namespace weir::agreement
