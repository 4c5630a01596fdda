#include "control/ctl/fleet_rollout.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "common/clock.h"

namespace weir::control::ctl {
namespace {

constexpr std::chrono::milliseconds kLook{300};
constexpr double kLeastExcess = 0.01;  // of packets: less is noise
constexpr double kLeastRate = 100;     // packets a second that say something

std::chrono::milliseconds seconds(double s) {
  return std::chrono::milliseconds(static_cast<int64_t>(s * 1000));
}

using Nodes = std::map<std::string, fleet::Node>;

Result<Nodes> alive_in(fleet::Desk& desk, const std::string& group) {
  const Result<std::vector<fleet::Node>> all = desk.nodes();
  if (!all) return Error{all.error()};
  Nodes nodes;
  for (const fleet::Node& node : *all) {
    if (node.report.group == group && node.is_alive) nodes.emplace(node.report.node, node);
  }
  return nodes;
}

Result<bool> is_paused(fleet::Desk& desk) {
  const Result<fleet::HeadAt> head = desk.head();
  return head ? Result<bool>(head->head.is_paused) : Error{head.error()};
}

// Until the nodes enforce the revision, and then for a while. Returns why not. turn: in which the group was given it;
// what a node tells of an earlier one, a revision that it refused then, say, does not count.
Result<std::string> watch(fleet::Desk& desk, const Rollout& rollout, const std::string& group, uint64_t turn,
                          const Nodes& before) {
  const auto deadline = Clock::now() + seconds(rollout.wait_s);
  auto watched_until = Clock::time_point::max();
  while (true) {
    const Result<Nodes> now = alive_in(desk, group);
    if (!now) return Error{now.error()};
    std::string waiting;
    for (const auto& [name, was] : before) {
      const auto node = now->find(name);
      if (node == now->end()) return fmt::format("node {} has gone silent", name);
      const fleet::Report& report = node->second.report;
      if (report.revision != rollout.revision || report.state != "enforcing") {
        if (report.state == "refused" && report.turn >= turn)
          return fmt::format("node {} refuses it: {}", name, report.error);
        waiting += (waiting.empty() ? "" : ", ") + name;
        continue;
      }
      if (const std::string ill = ailment(node->second, was, rollout.most_excess); !ill.empty()) return ill;
    }
    const Result<bool> paused = is_paused(desk);
    if (!paused) return Error{paused.error()};
    if (*paused) return std::string("it was paused");
    if (waiting.empty()) {
      if (watched_until == Clock::time_point::max()) watched_until = Clock::now() + seconds(rollout.watch_s);
      if (Clock::now() >= watched_until) return std::string();
    } else if (Clock::now() >= deadline) {
      return fmt::format("these nodes do not enforce it after {:.0f} s: {}", rollout.wait_s, waiting);
    }
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace

std::string ailment(const fleet::Node& node, const fleet::Node& before, double most_excess) {
  const fleet::Report& report = node.report;
  if (!report.error.empty()) return fmt::format("node {}: {}", report.node, report.error);  // a feed is refused, say
  // What it counted in its last look must be of this revision alone.
  const bool is_measured = report.at - report.enforced_at >= 5 && report.packets_per_s >= kLeastRate;
  if (!is_measured) return "";
  if (report.expected_high) {
    const double excess = report.dropped_share - *report.expected_high;
    if (excess > kLeastExcess && excess > most_excess * *report.expected_high) {
      return fmt::format("node {} drops {:.2f} % of its packets, and expected {:.2f} %", report.node,
                         100 * report.dropped_share, 100 * report.expected_share.value_or(0));
    }
  }
  if (before.report.packets_per_s >= kLeastRate && report.packets_per_s < before.report.packets_per_s / 2) {
    return fmt::format("node {} sees {:.0f} packets a second, and saw {:.0f} before", report.node, report.packets_per_s,
                       before.report.packets_per_s);
  }
  return "";
}

Result<RolledOut> roll_out(fleet::Desk& desk, const Rollout& rollout,
                           const std::function<void(const std::string&)>& say) {
  RolledOut done;
  const Result<std::vector<fleet::Node>> all = desk.nodes();
  if (!all) return Error{all.error()};
  std::vector<std::string> groups = rollout.groups;
  std::set<std::string> others;
  for (const fleet::Node& node : *all) {
    const bool is_named = std::find(groups.begin(), groups.end(), node.report.group) != groups.end();
    if (!is_named) others.insert(node.report.group);
  }
  if (rollout.groups.empty()) groups.assign(others.begin(), others.end());
  const std::string what = fmt::format("rollout of revision {}", rollout.revision);
  for (const std::string& group : groups) {
    const Result<Nodes> before = alive_in(desk, group);
    if (!before) return Error{before.error()};
    say(fmt::format("group {}: revision {} for {} nodes", group, rollout.revision, before->size()));
    const Result<fleet::Head> moved = desk.change(fmt::format("{}: group {}", what, group), [&](fleet::Head& head) {
      fleet::move(head, group, rollout.revision);
      head.is_paused = false;
      return Result<void>();
    });
    if (!moved) return Error{moved.error()};
    const Result<std::string> ill = watch(desk, rollout, group, moved->turn, *before);
    if (!ill) return Error{ill.error()};
    if (!ill->empty()) {
      done.stopped = fmt::format("group {}: {}", group, *ill);
      const Result<fleet::Head> paused =
          desk.change(fmt::format("{} stopped: {}", what, done.stopped), [](fleet::Head& head) {
            head.is_paused = true;
            return Result<void>();
          });
      if (!paused) say("the rollout is not noted as paused: " + paused.error());
      return done;
    }
    done.groups.push_back(group);
    say(fmt::format("group {}: enforced, and well for {:.0f} s", group, rollout.watch_s));
  }
  // With the groups that were named alone, the others stay where they are.
  if (!rollout.groups.empty() && !others.empty()) return done;
  const Result<fleet::Head> everywhere = desk.change(what + ": everywhere", [&](fleet::Head& head) {
    fleet::move(head, "", rollout.revision);
    return Result<void>();
  });
  if (!everywhere) return Error{everywhere.error()};
  return done;
}

}  // namespace weir::control::ctl
