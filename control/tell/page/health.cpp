#include "control/tell/page/health.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "control/tell/answer/text.h"

namespace weir::control::page {

namespace {

constexpr Level kWarning = Level::warning, kProblem = Level::problem;
constexpr double kLossOf_pps = 0.5;  // below that nobody is losing packets now

// Sentences of others end as they like.
std::string sentence(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ' || text.back() == '.')) text.pop_back();
  return text + ".";
}

bool is_everywhere(const TargetStatus& target) {
  if (!target.interfaces) return true;
  return std::all_of(target.interfaces->begin(), target.interfaces->end(), [](const auto& i) { return i.attached; });
}

bool enforces(const TargetStatus& target) {
  return target.connected && target.acknowledged && is_everywhere(target);
}

void judge_target(const TargetStatus& target, std::vector<Finding>& findings) {
  const std::string& name = target.socket;
  const std::string& error = target.last_error;
  if (!target.connected) {
    const char* known = target.start_time == 0 ? "It was never reached" : "It may go on enforcing what it had";
    findings.push_back({kProblem,
                        sentence(fmt::format("Target {} is away{}{}", name, error.empty() ? "" : ": ", error)),
                        fmt::format("{}; it gets the newest when it returns.", known)});
  } else if (!target.acknowledged) {
    findings.push_back({kProblem,
                        sentence(fmt::format("Target {} is behind: it enforces generation {}{}{}", name,
                                             target.generation.number, error.empty() ? "" : ": ", error)),
                        ""});
  }
  if (target.connected && target.interfaces) {
    for (const InterfaceStatus& interface : *target.interfaces) {
      if (interface.attached) continue;
      findings.push_back({kProblem,
                          sentence(fmt::format("XDP is not attached to {}{}{}", interface.name,
                                               interface.error.empty() ? "" : ": ", interface.error)),
                          ""});
    }
  }
  if (!target.durable) {
    findings.push_back({kWarning,
                        sentence(fmt::format("What {} enforces would not outlive its restart{}{}", name,
                                             target.disk_error.empty() ? "" : ": ", target.disk_error)),
                        "It is tried again."});
  }
}

void judge_reload(const StatusAnswer& status, std::vector<Finding>& findings) {
  const ReloadAnswer& last = status.last_reload;
  if (!last.diagnostics.ok() || !last.error.empty()) {
    const size_t errors = last.diagnostics.errors();
    const std::string why = last.error.empty() ? first_error_text(last.diagnostics) : last.error;
    const std::string more = errors > 1 ? fmt::format(" ({} in all)", plural(errors, "error")) : "";
    const char* what = status.from_last_good ? "The policy is bad, and what ran before is enforced"
                                             : "The last reload failed, and what was enforced stays";
    findings.push_back(
        {kProblem, sentence(fmt::format("{}: {}{}", what, why, more)), "controlctl check says all of it."});
  } else if (status.from_last_good) {
    findings.push_back({kWarning, "The last good policy is enforced: the policy file is not compiled yet.", ""});
  }
}

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
  const StatusAnswer& status = facts.status;
  const auto n = static_cast<uint64_t>(std::count_if(status.targets.begin(), status.targets.end(), enforces));
  const std::string where = n == status.targets.size()
                                ? plural(n, "target")
                                : fmt::format("{} of {}", n, plural(status.targets.size(), "target"));
  return fmt::format("generation {} is enforced on {} since {}", status.generation.number, where,
                     clock_time(status.published_at, facts.now));
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

void judge_fleet(const FleetStanding& fleet, std::vector<Finding>& findings) {
  if (!fleet.etcd_error.empty()) {
    findings.push_back({kWarning, sentence(fmt::format("Fleet {} is not followed: {}", fleet.name, fleet.etcd_error)),
                        "What is enforced stays."});
  }
  if (fleet.state == "refused") {
    findings.push_back(
        {kProblem,
         sentence(fmt::format("Revision {} of fleet {} is refused: {}", fleet.wanted, fleet.name, fleet.error)),
         fmt::format("Revision {} stays enforced.", fleet.revision)});
  } else if (!fleet.error.empty()) {
    findings.push_back(
        {kWarning, sentence(fmt::format("Revision {} of fleet {}: {}", fleet.wanted, fleet.name, fleet.error)), ""});
  }
}

Health health_of(const Facts& facts) {
  const StatusAnswer& status = facts.status;
  const bool has_policy = status.generation.number != 0;
  std::vector<Finding> findings;
  if (status.bypass) {
    findings.push_back(
        {kProblem, "Bypass is on: every packet passes, nothing is dropped.", "controlctl bypass off ends it."});
  }
  if (!has_policy) {
    findings.push_back({kProblem, "Nothing is published yet: the first policy is being compiled.", ""});
  } else if (status.targets.empty()) {
    findings.push_back({kProblem, "Nothing is enforced: the policy has no target.", ""});
  }
  for (const TargetStatus& target : status.targets) {
    judge_target(target, findings);
    if (target.bypass && !status.bypass) {
      findings.push_back(
          {kProblem, fmt::format("Target {} is in bypass: it lets every packet pass.", target.socket), ""});
    }
  }
  judge_reload(status, findings);
  if (!status.disk_error.empty()) {
    findings.push_back({kWarning, sentence("What runs would not outlive a restart of controld: " + status.disk_error),
                        "It is tried again."});
  }
  if (status.fleet) judge_fleet(*status.fleet, findings);
  judge_feeds(facts.feeds, facts.now, findings);
  for (const FilterRate& rate : status.false_positives) {
    if (is_outside(rate)) findings.push_back({kWarning, sentence(outside_text(rate)), outside_hint(rate)});
  }
  if (!status.notice.empty()) findings.push_back({kWarning, sentence(status.notice), ""});
  if (has_policy && status.entries == 0)
    findings.push_back({kWarning, "No list has an entry: nothing can be dropped by a list.", ""});
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
