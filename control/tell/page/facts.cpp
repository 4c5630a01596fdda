#include "control/tell/page/facts.h"

#include <algorithm>

namespace weir::control::page {

// ------------------------------------------------------------------------------------------------------------ looks

namespace {

uint64_t lost_of(const wire::Totals& totals) {
  return totals.rx_missed + totals.tx_lost;
}

// The element of this name, made when it is not there.
ListRate& rate_of(std::vector<ListRate>& rates, const std::string& name) {
  const auto known = std::find_if(rates.begin(), rates.end(), [&](const ListRate& rate) { return rate.name == name; });
  if (known != rates.end()) return *known;
  ListRate& rate = rates.emplace_back();
  rate.name = name;
  return rate;
}

// Seconds between what a target told; 0: it did not tell anew, or is another process now.
double seconds_between(const TargetStats& before, const TargetStats& after) {
  const bool is_same = before.start_time == after.start_time && after.totals.packets >= before.totals.packets;
  const uint32_t us = after.taken_us - before.taken_us;  // modulo 2^32, as told
  return is_same && after.fresh && before.start_time != 0 ? us / 1e6 : 0;
}

void add_lists(Rates& rates, const TargetStats& before, const TargetStats& after, double seconds) {
  static const wire::ListStats kNothing = {};
  for (size_t i = 0; i < after.lists.size(); i++) {
    const std::string& name = after.lists[i].first;
    const wire::ListStats& now = after.lists[i].second;
    const wire::ListStats* was = &kNothing;
    // The same place, but after a reload.
    if (i < before.lists.size() && before.lists[i].first == name) {
      was = &before.lists[i].second;
    } else {
      const auto known =
          std::find_if(before.lists.begin(), before.lists.end(), [&](const auto& list) { return list.first == name; });
      if (known != before.lists.end()) was = &known->second;
    }
    if (now.matched <= was->matched) continue;
    ListRate& rate = rate_of(rates.lists, name);
    const auto per_second = [&](uint64_t wire::ListStats::*counter) {
      return now.*counter >= was->*counter ? static_cast<double>(now.*counter - was->*counter) / seconds : 0;
    };
    rate.matched += per_second(&wire::ListStats::matched);
    rate.dropped += per_second(&wire::ListStats::dropped);
    rate.passed += per_second(&wire::ListStats::passed);
    rate.would_drop += per_second(&wire::ListStats::would_drop);
  }
}

}  // namespace

const ListRate* Rates::list(const std::string& name) const {
  const auto it = std::find_if(lists.begin(), lists.end(), [&](const ListRate& rate) { return rate.name == name; });
  return it == lists.end() ? nullptr : &*it;
}

const TargetRate* Rates::target(const std::string& socket) const {
  const auto it = std::find_if(targets.begin(), targets.end(), [&](const auto& rate) { return rate.socket == socket; });
  return it == targets.end() ? nullptr : &*it;
}

std::optional<Rates> rates_between(const StatsAnswer& before, const StatsAnswer& after, double at) {
  Rates rates;
  rates.at = at;
  for (const TargetStats& now : after.targets) {
    const auto was = std::find_if(before.targets.begin(), before.targets.end(),
                                  [&](const TargetStats& other) { return other.socket == now.socket; });
    const double seconds = was == before.targets.end() ? 0 : seconds_between(*was, now);
    if (seconds <= 0) continue;
    const auto per_second = [&](uint64_t before_count, uint64_t after_count) {
      return after_count >= before_count ? static_cast<double>(after_count - before_count) / seconds : 0;
    };
    const wire::Totals &old = was->totals, &totals = now.totals;
    TargetRate target = {now.socket, per_second(old.packets, totals.packets), per_second(old.dropped, totals.dropped),
                         per_second(lost_of(old), lost_of(totals))};
    rates.seconds = std::max(rates.seconds, seconds);
    rates.packets += target.packets;
    rates.dropped += target.dropped;
    rates.lost += target.lost;
    rates.passed += per_second(old.passed, totals.passed);
    rates.bits += 8 * per_second(old.bytes, totals.bytes);
    rates.targets.push_back(std::move(target));
    add_lists(rates, *was, now, seconds);
  }
  return rates.targets.empty() ? std::nullopt : std::optional(std::move(rates));
}

void Looks::add(const StatsAnswer& stats, double now) {
  if (last_ && now > at_ && now - at_ <= kMost_s) {
    if (std::optional<Rates> rates = rates_between(*last_, stats, now)) rates_.push_back(std::move(*rates));
  } else {
    rates_.clear();  // the clock was set, or nobody looked for long
  }
  last_ = stats;
  at_ = now;
  while (!rates_.empty() && rates_.front().at < now - kKeep_s) rates_.pop_front();
}

}  // namespace weir::control::page
