#include "control/tell/answer/standing.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "control/tell/answer/text.h"

namespace weir::control {

namespace {

constexpr Gravity kWarning = Gravity::warning, kProblem = Gravity::problem;

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
                        sentence(fmt::format("Target {} would lose the policy that it enforces at its restart{}{}",
                                             name, target.disk_error.empty() ? "" : ": ", target.disk_error)),
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

}  // namespace

bool is_everywhere(const TargetStatus& target) {
  if (!target.interfaces) return true;
  return std::all_of(target.interfaces->begin(), target.interfaces->end(), [](const auto& i) { return i.attached; });
}

std::string sentence(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ' || text.back() == '.')) text.pop_back();
  return text + ".";
}

std::vector<Finding> findings_of(const StatusAnswer& status, std::vector<Finding> of_feeds) {
  const bool has_policy = status.generation.number != 0;
  std::vector<Finding> findings;
  if (status.bypass) {
    findings.push_back(
        {kProblem, "Bypass is on: every packet passes, nothing is dropped.", "controlctl bypass off ends it."});
  }
  if (!has_policy) {
    findings.push_back({kProblem, "Nothing is published yet: the first policy is being compiled.", ""});
  } else if (status.targets.empty()) {
    findings.push_back({kProblem, "Nothing is enforced: the policy has no target.",
                        "`weir setup` lets an interface or cards enforce it.", false});
  }
  for (const TargetStatus& target : status.targets) {
    judge_target(target, findings);
    if (target.bypass && !status.bypass) {
      findings.push_back({kProblem, fmt::format("Target {} is in bypass: it lets every packet pass.", target.socket),
                          "controlctl bypass off ends it."});
    }
  }
  judge_reload(status, findings);
  if (!status.disk_error.empty()) {
    findings.push_back({kWarning,
                        sentence("controld would lose the policy that runs at its restart: " + status.disk_error),
                        "It is tried again."});
  }
  if (status.fleet) judge_fleet(*status.fleet, findings);
  std::move(of_feeds.begin(), of_feeds.end(), std::back_inserter(findings));
  for (const FilterRate& rate : status.false_positives) {
    if (is_outside(rate)) findings.push_back({kWarning, sentence(outside_text(rate)), outside_hint(rate), false});
  }
  if (!status.notice.empty()) findings.push_back({kWarning, sentence(status.notice), "", false});
  if (has_policy && status.entries == 0) {
    findings.push_back({kWarning, "No list has an entry: nothing can be dropped by a list.", "", false});
  }
  return findings;
}

std::string enforced_where(const StatusAnswer& status) {
  const auto n = static_cast<uint64_t>(std::count_if(status.targets.begin(), status.targets.end(), enforces));
  const std::string where = n == status.targets.size()
                                ? plural(n, "target")
                                : fmt::format("{} of {}", n, plural(status.targets.size(), "target"));
  return fmt::format("generation {} is enforced on {}", status.generation.number, where);
}

std::string not_enforced(bool is_bypassed, std::span<const TargetStatus> targets) {
  if (is_bypassed) return "PASSES NOW: bypass is on, and every packet passes. The policy says:";
  if (targets.empty()) return "NOT ENFORCED: the policy has no target. It says:";
  const auto n = std::count_if(targets.begin(), targets.end(),
                               [](const TargetStatus& target) { return enforces(target) && !target.bypass; });
  const auto all = std::ssize(targets);
  if (n == all) return "";
  return fmt::format("NOT ENFORCED{}: {} of {} targets. The policy says:", n == 0 ? "" : " EVERYWHERE", n, all);
}

Standing standing_of(const StatusAnswer& status) {
  std::vector<Finding> of_feeds;
  for (const RefusedFeed& feed : status.refused) {
    of_feeds.push_back({kWarning, sentence(fmt::format("The feed of list {} is refused: {}", feed.list, feed.reason)),
                        "The list keeps its last good content; controlctl feeds tells the way out."});
  }
  std::vector<Finding> findings = findings_of(status, std::move(of_feeds));
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& one, const Finding& other) { return one.level > other.level; });
  Standing standing;
  standing.is_wrong = std::any_of(findings.begin(), findings.end(), [](const Finding& one) { return one.is_wrong; });
  if (findings.empty()) {
    standing.line = "OK: " + enforced_where(status);
    return standing;
  }
  const Finding& first = findings.front();
  standing.line = fmt::format("{}: {}{}{}", first.level == kProblem ? "PROBLEM" : "WARNING", first.text,
                              first.hint.empty() ? "" : " ", first.hint);
  if (findings.size() > 1) standing.line += fmt::format(" ({} more)", findings.size() - 1);
  return standing;
}

}  // namespace weir::control
