#include "control/tell/answer/false_positives.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/enforce/rates/binomial.h"
#include "control/tell/answer/text.h"

namespace weir::control {

void members(Fields& f, FilterRate& rate) {
  f({"target", "", "its socket"}, rate.target);
  f({"shape", "", "name of the shape"}, rate.shape);
  f({"overlay", "", "of the overlay; false: of the base"}, rate.overlay);
  f({"verdict", "", "inside, above or below what is predicted"}, rate.verdict);
  f({"since", "Unix seconds", "the verdict holds"}, rate.since);
  f({"predicted", "share", "keys of nobody that the filter lets through, as its bits say, 0 to 1"}, rate.predicted);
  f({"keys", "", "different keys of nobody, sampled of late from the traffic"}, rate.keys);
  f({"keys_let_through", "", "of these, that the filter lets through"}, rate.keys_let_through);
  f.maybe({"rate", "share", "keys_let_through of keys; missing: no key was sampled"}, rate.rate);
  f.maybe({"low", "share", "where its 95 % confidence interval begins (Clopper and Pearson)"}, rate.low);
  f.maybe({"high", "share", "where it ends"}, rate.high);
  f({"asked", "", "keys of all packets that the filter was asked for since it is enforced"}, rate.asked);
  f({"let_through", "", "of these, that it let through"}, rate.let_through);
  f({"found", "", "of these, that are on a list; the others were refused by the exact stage"}, rate.found);
  f.maybe({"of_lookups", "share", "refused of the keys of nobody, each as often as it came; missing: none came"},
          rate.of_lookups);
}

FilterRate filter_rate_of(const std::string& target, const WatchedRate& watched) {
  const wire::ShapeProbes& counts = watched.counts;
  FilterRate rate;
  rate.target = target;
  rate.shape = watched.shape;
  rate.overlay = counts.of_overlay != 0;
  rate.verdict = verdict_name(watched.verdict);
  rate.since = watched.since;
  rate.predicted = watched.predicted.rate;
  rate.keys = counts.absent;
  rate.keys_let_through = counts.absent_let_through;
  rate.asked = counts.asked;
  rate.let_through = counts.let_through;
  rate.found = counts.found;
  if (rate.keys > 0) {
    const Interval interval = clopper_pearson(rate.keys_let_through, rate.keys);
    rate.rate = static_cast<double>(rate.keys_let_through) / static_cast<double>(rate.keys);
    rate.low = interval.low;
    rate.high = interval.high;
  }
  if (rate.asked > rate.found && rate.let_through >= rate.found) {
    rate.of_lookups = static_cast<double>(rate.let_through - rate.found) / static_cast<double>(rate.asked - rate.found);
  }
  return rate;
}

std::vector<FilterRate> filter_rates_of(const RateWatch& watch, const Digest& base, const Digest& overlay) {
  std::vector<FilterRate> rates;
  for (const auto& [target, of] : watch.targets()) {
    if (!std::equal(base.begin(), base.end(), of.base_digest)) continue;
    const bool has_overlay = std::equal(overlay.begin(), overlay.end(), of.overlay_digest);
    for (const WatchedRate& watched : of.rates) {
      if (watched.counts.of_overlay == 0 || has_overlay) rates.push_back(filter_rate_of(target, watched));
    }
  }
  return rates;
}

bool is_outside(const FilterRate& rate) {
  return rate.verdict != verdict_name(RateVerdict::inside);
}

std::string shape_text(const FilterRate& rate) {
  return rate.overlay ? rate.shape + " of the overlay" : rate.shape;
}

std::string rate_text(const FilterRate& rate) {
  if (!rate.rate || !rate.low || !rate.high) return "-";
  return fmt::format("{} ({} to {})", percent(*rate.rate), percent(*rate.low), percent(*rate.high));
}

std::string predicted_text(const FilterRate& rate) {
  return percent(rate.predicted);
}

std::string outside_text(const FilterRate& rate) {
  return fmt::format("The filter of {} lets {} of the keys of nobody through at {}, where {} is predicted",
                     shape_text(rate), rate_text(rate), rate.target, percent(rate.predicted));
}

std::string outside_hint(const FilterRate& rate) {
  return rate.verdict == verdict_name(RateVerdict::above)
             ? "Nothing is dropped wrongly, but packets cost more. Somebody may know the filter's secret: "
               "`controlctl rebuild` draws another one."
             : "Bits of the filter may be lost, and entries with them: `controlctl rebuild` builds it anew.";
}

}  // namespace weir::control
