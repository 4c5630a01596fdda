#include "control/tell/page/live.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "common/digest.h"
#include "common/printable.h"
#include "control/tell/page/health.h"
#include "control/tell/page/plot.h"

namespace weir::control::page {

void members(Fields& f, LiveCounts& counts) {
  f({"packets", "frames", "judged"}, counts.packets);
  f({"passed", "frames", "that passed"}, counts.passed);
  f({"dropped", "frames", "that were dropped"}, counts.dropped);
  f({"lost", "frames", "rx_missed and tx_lost of all targets"}, counts.lost);
}

void members(Fields& f, LiveRates& rates) {
  f({"packets", "frames/s", "judged"}, rates.packets);
  f({"passed", "frames/s", "that passed"}, rates.passed);
  f({"dropped", "frames/s", "that were dropped"}, rates.dropped);
  f({"lost", "frames/s", "rx_missed and tx_lost"}, rates.lost);
  f({"bits", "bit/s", "of frames, without FCS"}, rates.bits);
}

void members(Fields& f, LiveTarget& target) {
  f({"packets", "frames/s", "judged"}, target.packets);
  f({"dropped", "frames/s", "that were dropped"}, target.dropped);
  f({"lost", "frames/s", "rx_missed and tx_lost"}, target.lost);
}

void members(Fields& f, LiveList& list) {
  f({"matched", "frames", "since the targets started"}, list.matched);
  f({"effect", "frames", "that it dropped, let pass, or would drop: what its action and mode are"}, list.effect);
  f({"effect_rate", "frames/s", "the same, now"}, list.effect_rate);
}

void members(Fields& f, LiveSeries& series) {
  f({"name", "", "of the list"}, series.name);
  f({"drops", "", "it is a drop list that is enforced"}, series.drops);
  f.numbers({"values", "frames/s", "that it dropped, let pass, or would drop, at each of the times"}, series.values);
}

void members(Fields& f, LiveHistory& history) {
  f({"from", "Unix ms", "where the drawings begin"}, history.from);
  f({"to", "Unix ms", "where they end"}, history.to);
  f.numbers({"at", "Unix ms", "of each look at the targets, rising"}, history.at);
  f.numbers({"passed", "frames/s", "at each of these times"}, history.passed);
  f.numbers({"dropped", "frames/s", "at each of these times"}, history.dropped);
  f.array({"lists", "", "the 20 that matched most, in the order of the policy"}, history.lists, "live series");
}

void members(Fields& f, LiveAnswer& answer) {
  f({"at", "Unix seconds", "when this was told"}, answer.at);
  f({"state", "", "changes whenever the page tells something else than numbers"}, answer.state);
  f({"level", "", "good, warning or problem"}, answer.level);
  f({"headline", "", "the first sentence of the page"}, answer.headline);
  f({"measured", "", "there are rates: a target told its counters twice"}, answer.measured);
  f.object({"totals", "", "since the targets started"}, answer.totals, "live counts");
  f.object({"rates", "", "of the last two seconds, or since somebody looked before"}, answer.rates, "live rates");
  f.by_name({"targets", "", "that told their counters twice"}, answer.targets, "live target");
  f.by_name({"lists", "", "of the policy"}, answer.lists, "live list");
  f.object({"history", "", "the last 5 minutes"}, answer.history, "live history");
}

namespace {

uint64_t rounded(double value) {
  return value <= 0 ? 0 : static_cast<uint64_t>(std::llround(value));
}

uint64_t milliseconds_of(double seconds) {
  return rounded(seconds * 1000);
}

std::vector<uint64_t> all_rounded(const std::vector<double>& values, double factor = 1) {
  std::vector<uint64_t> all;
  all.reserve(values.size());
  for (const double value : values) all.push_back(rounded(value * factor));
  return all;
}

uint64_t effect_of(const ListDetails& list, uint64_t dropped, uint64_t passed, uint64_t would_drop) {
  if (list.action == "pass") return passed;
  return list.mode == "monitor" ? would_drop : dropped;
}

// What the page says besides numbers that move: a visitor whose page says something else wants another one.
std::string state_of(const Facts& facts, const Health& health) {
  std::string text = fmt::format("{:016x} {} {} {}", facts.status.generation.epoch, facts.status.generation.number,
                                 static_cast<int>(health.level), facts.status.reloading);
  for (const TargetStatus& target : facts.status.targets) {
    text += fmt::format("\n{} {} {} {} {} {}", target.socket, target.connected, target.acknowledged, target.bypass,
                        target.durable, target.start_time);
  }
  for (const FeedDetails& feed : facts.feeds.feeds) {
    text += fmt::format("\n{} {} {} {}", feed.list, feed.state, feed.taken_at, feed.warnings.size());
    if (feed.fetch) text += fmt::format(" {} {}", feed.fetch->fetched_at, feed.fetch->failures);
  }
  return fmt::format("{:016x}", digest_of(std::as_bytes(std::span(text)))[0]);
}

LiveHistory history_answer(const Facts& facts, const History& history) {
  LiveHistory answer;
  answer.from = milliseconds_of(history.from);
  answer.to = milliseconds_of(history.to);
  answer.at = all_rounded(history.at, 1000);
  answer.passed = all_rounded(history.passed);
  answer.dropped = all_rounded(history.dropped);
  for (const Series& series : history.lists) {
    const auto list = std::find_if(facts.lists.lists.begin(), facts.lists.lists.end(),
                                   [&](const ListDetails& one) { return one.name == series.name; });
    const bool drops = list != facts.lists.lists.end() && is_enforced_drop(*list);
    answer.lists.push_back({series.name, drops, all_rounded(series.values)});
  }
  return answer;
}

}  // namespace

LiveAnswer live_of(const Facts& facts) {
  const Health health = health_of(facts);
  const wire::Totals& totals = facts.stats.totals;
  LiveAnswer answer;
  answer.at = facts.now;
  answer.state = state_of(facts, health);
  answer.level = kLevelNames[static_cast<size_t>(health.level)];
  answer.headline = printable(health.headline);
  answer.totals = {totals.packets, totals.passed, totals.dropped, totals.rx_missed + totals.tx_lost};
  const Rates* rates = facts.looks == nullptr ? nullptr : facts.looks->now();
  answer.measured = rates != nullptr;
  if (rates != nullptr) {
    answer.rates = {rounded(rates->packets), rounded(rates->passed), rounded(rates->dropped), rounded(rates->lost),
                    rounded(rates->bits)};
    for (const TargetRate& target : rates->targets) {
      answer.targets.emplace_back(target.socket,
                                  LiveTarget{rounded(target.packets), rounded(target.dropped), rounded(target.lost)});
    }
  }
  for (const ListDetails& list : facts.lists.lists) {
    LiveList live;
    const ListCounters& counted = facts.stats.lists;
    const auto known =
        std::find_if(counted.begin(), counted.end(), [&](const auto& one) { return one.first == list.name; });
    if (known != counted.end()) {
      const wire::ListStats& counters = known->second;
      live.matched = counters.matched;
      live.effect = effect_of(list, counters.dropped, counters.passed, counters.would_drop);
    }
    if (const ListRate* rate = rates == nullptr ? nullptr : rates->list(list.name)) {
      live.effect_rate = effect_of(list, rounded(rate->dropped), rounded(rate->passed), rounded(rate->would_drop));
    }
    answer.lists.emplace_back(list.name, live);
  }
  answer.history = history_answer(facts, history_of(facts, shown_lists(facts)));
  return answer;
}

}  // namespace weir::control::page
