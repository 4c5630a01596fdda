#include "control/enforce/rates/rate_watch.h"

#include <algorithm>
#include <utility>

#include "control/enforce/rates/binomial.h"

namespace weir::control {

namespace {

// Looks come once a second, at up to 32 shapes of each target: a false alarm in some thousand years.
constexpr double kRaise = 1e-12;
constexpr double kClear = 1e-4;

bool is_same(const uint64_t (&one)[2], const uint64_t (&other)[2]) {
  return one[0] == other[0] && one[1] == other[1];
}

void copy(const uint64_t (&from)[2], uint64_t (&to)[2]) {
  std::copy(std::begin(from), std::end(from), std::begin(to));
}

}  // namespace

const char* verdict_name(RateVerdict verdict) {
  constexpr const char* kNames[] = {"inside", "above", "below"};
  return kNames[static_cast<size_t>(verdict)];
}

RateVerdict judge(const wire::ShapeProbes& counts, const RateBand& predicted, RateVerdict before) {
  const double chance = before == RateVerdict::inside ? kRaise : kClear;
  const uint64_t keys = counts.absent, let_through = counts.absent_let_through;
  if (before != RateVerdict::below && at_least(let_through, keys, predicted.high) < chance) return RateVerdict::above;
  if (before != RateVerdict::above && at_most(let_through, keys, predicted.low) < chance) return RateVerdict::below;
  return RateVerdict::inside;
}

std::vector<RateWatch::Change> RateWatch::take(const std::string& target, const wire::Probes& told,
                                               const Watched& watched, int64_t now) {
  std::vector<Change> changes;
  Of& of = targets_[target];
  const std::vector<WatchedRate> before = std::exchange(of.rates, {});
  const bool is_base = is_same(told.body.base_digest, watched.base_digest);
  const bool is_all = is_base && is_same(told.body.digest, watched.overlay_digest);
  const bool has_overlay = is_all && !watched.overlay.empty();
  const bool was_base = is_same(of.base_digest, watched.base_digest);
  const bool was_overlay = is_same(of.overlay_digest, watched.overlay_digest);
  for (const wire::ShapeProbes& counts : told.shapes) {
    const std::span<const ShapeReport> shapes = counts.of_overlay != 0 ? watched.overlay : watched.base;
    if (!(counts.of_overlay != 0 ? has_overlay : is_base) || counts.shape >= shapes.size()) continue;
    WatchedRate rate = {shapes[counts.shape].name, counts, shapes[counts.shape].band, RateVerdict::inside, now};
    const auto same = std::find_if(before.begin(), before.end(), [&](const WatchedRate& one) {
      return one.counts.shape == counts.shape && one.counts.of_overlay == counts.of_overlay;
    });
    const bool is_known = same != before.end() && (counts.of_overlay != 0 ? was_overlay : was_base);
    const RateVerdict was = same != before.end() ? same->verdict : RateVerdict::inside;
    rate.verdict = judge(counts, rate.predicted, is_known ? was : RateVerdict::inside);
    if (is_known && rate.verdict == was) rate.since = same->since;
    if (rate.verdict != was) changes.push_back({target, rate, was});
    of.rates.push_back(std::move(rate));
  }
  for (const WatchedRate& one : before) {  // what is not watched any more is no alarm either
    const bool is_there = std::any_of(of.rates.begin(), of.rates.end(), [&](const WatchedRate& rate) {
      return rate.counts.shape == one.counts.shape && rate.counts.of_overlay == one.counts.of_overlay;
    });
    if (is_there || one.verdict == RateVerdict::inside) continue;
    changes.push_back({target, one, one.verdict});
    changes.back().rate.verdict = RateVerdict::inside;
  }
  copy(watched.base_digest, of.base_digest);
  copy(watched.overlay_digest, of.overlay_digest);
  return changes;
}

}  // namespace weir::control
