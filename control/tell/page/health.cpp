#include "control/tell/page/health.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>

#include "control/tell/answer/text.h"

namespace weir::control::page {

namespace {

constexpr Gravity kWarning = Gravity::warning, kProblem = Gravity::problem;
constexpr double kLossOf_pps = 0.5;  // below that nobody is losing packets now

void judge_feeds(const FeedsAnswer& feeds, double now, std::vector<Finding>& findings) {
  for (const FeedDetails& feed : feeds.feeds) {
    if (feed.state == "refused") {
      findings.push_back({kWarning,
                          sentence(fmt::format("The feed of list {} is refused since {}: {}", feed.list,
                                               clock_time(feed.since, now), feed.reason)),
                          "The list keeps its last good content."});
    }
    if (feed.fetch && feed.fetch->failures > 0) {
      findings.push_back({kWarning,
                          sentence(fmt::format("The feed of list {} was not fetched, {} in a row: {}", feed.list,
                                               plural(feed.fetch->failures, "time"), feed.fetch->error)),
                          "The list keeps what it has."});
    }
  }
}

std::string enforced_text(const Facts& facts) {
  return fmt::format("{} since {}", enforced_where(facts.status), clock_time(facts.status.published_at, facts.now));
}

}  // namespace

std::string when(int64_t unix_s, double now) {
  if (unix_s == 0) return "never";
  const int64_t past = std::llround(now) - unix_s;
  return past >= 0 ? duration(static_cast<uint64_t>(past)) + " ago" : "in " + duration(static_cast<uint64_t>(-past));
}

std::string clock_time(int64_t unix_s, double now) {
  if (unix_s == 0) return "never";
  const time_t moment = unix_s, present = static_cast<time_t>(now);
  tm at{}, today{};
  gmtime_r(&moment, &at);
  gmtime_r(&present, &today);
  constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::string year = at.tm_year == today.tm_year ? "" : fmt::format(" {}", at.tm_year + 1900);
  return fmt::format("{} {}{} {:02}:{:02} UTC", at.tm_mday, kMonths[at.tm_mon], year, at.tm_hour, at.tm_min);
}

Health health_of(const Facts& facts) {
  std::vector<Finding> of_feeds;
  judge_feeds(facts.feeds, facts.now, of_feeds);
  std::vector<Finding> findings = findings_of(facts.status, std::move(of_feeds));
  const Rates* rates = facts.looks == nullptr ? nullptr : facts.looks->now();
  if (rates != nullptr && rates->lost > kLossOf_pps) {
    findings.push_back(
        {kWarning,
         fmt::format("Packets are lost now: {} a second at ports, before or behind the filter.", scaled(rates->lost)),
         "controlctl top says where."});
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& one, const Finding& other) { return one.level > other.level; });

  Health health;
  if (findings.empty()) {
    health.headline = "All is well: " + enforced_text(facts) + ".";
    return health;
  }
  health.level = findings.front().level;
  if (health.level == kProblem) {
    health.headline = findings.front().text;
    if (!findings.front().hint.empty()) health.headline += " " + findings.front().hint;
    findings.erase(findings.begin());
  } else {
    health.headline = enforced_text(facts) + fmt::format(", with {}.", plural(findings.size(), "warning"));
    health.headline[0] = 'G';
  }
  health.findings = std::move(findings);
  return health;
}

}  // namespace weir::control::page
