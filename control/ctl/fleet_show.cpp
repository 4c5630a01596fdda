// What a fleet is like, was like, and would be like.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "control/ctl/fleet_command.h"
#include "control/ctl/fleet_files.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"

namespace weir::control::ctl::fleet_command {
namespace {

std::string head_text(const fleet::Head& head) {
  if (head.turn == 0) return "nothing was pushed yet: controlctl fleet push FILE\n";
  std::string text = head.revision == 0 ? "no revision is enforced by groups that are not named\n"
                                        : fmt::format("revision {} is enforced{}\n", head.revision,
                                                      head.groups.empty() ? "" : " by all other groups");
  for (const fleet::GroupAt& at : head.groups) text += fmt::format("group {}: revision {}\n", at.group, at.revision);
  if (head.staged != 0) {
    text += fmt::format("revision {} is staged{}: controlctl fleet rollout\n", head.staged,
                        head.is_paused ? ", and its rollout paused" : "");
  }
  return text + fmt::format("turn {}: {}, by {}, {}\n", head.turn, head.what, head.by, when(head.at));
}

std::string share_text(const std::optional<fleet::ToldShare>& share) {
  return share ? fmt::format("{} ({} to {})", percent(share->value), percent(share->low), percent(share->high)) : "-";
}

}  // namespace

int status(const Context& context, const Asked&, Fleet& fleet) {
  FleetAnswer answer;
  answer.fleet = fleet.settings.name;
  answer.etcd.emplace();
  for (const etcd::Client::Member& member : fleet.desk->client().members()) {
    answer.etcd->push_back(
        {member.endpoint, member.status.version, member.error, member.status.database_bytes, member.status.alarms});
  }
  const Result<fleet::HeadAt> head = fleet.desk->head();
  if (!head) return refuse(context, head.error());
  const Result<std::vector<fleet::Node>> nodes = fleet.desk->nodes();
  if (!nodes) return refuse(context, nodes.error());
  answer.head = head->head;
  answer.nodes.emplace();
  for (const fleet::Node& node : *nodes) answer.nodes->push_back({node.report, node.is_alive});

  std::string text = fmt::format("fleet {}\n{}", fleet.settings.name, head_text(head->head));
  Table members({{"etcd"}, {"version"}, {"store", Table::Align::right}, {""}});
  for (const MemberRow& one : *answer.etcd) {
    members.row({one.endpoint, one.version.empty() ? "-" : one.version,
                 one.error.empty() ? bytes(static_cast<uint64_t>(one.database_bytes)) : "-",
                 one.error.empty() ? fmt::format("{}", fmt::join(one.alarms, ", ")) : one.error});
  }
  text += "\n" + members.text();
  const auto is_full = [](const MemberRow& one) {
    return std::find(one.alarms.begin(), one.alarms.end(), "NOSPACE") != one.alarms.end();
  };
  if (std::any_of(answer.etcd->begin(), answer.etcd->end(), is_full)) {
    text += fmt::format(
        "etcd has used up its space and takes nothing new: what nodes tell here is as it was before\nhint: {}\n",
        etcd::kMakeRoom);
  }
  Table table({{"node"},
               {"group"},
               {"state"},
               {"revision", Table::Align::right},
               {"generation", Table::Align::right},
               {"packets/s", Table::Align::right},
               {"dropped", Table::Align::right},
               {"expected", Table::Align::right},
               {"entries", Table::Align::right},
               {"told"},
               {""}});
  for (const fleet::Node& node : *nodes) {
    const fleet::Report& report = node.report;
    const bool is_behind = report.turn < head->head.turn;
    std::string more = report.error;
    if (is_behind && more.empty()) more = fmt::format("follows turn {}", report.turn);
    if (report.entries_refused != 0)
      more += fmt::format("{}{} entries not taken", more.empty() ? "" : "; ", report.entries_refused);
    table.row({report.node, report.group, node.is_alive ? report.state : "silent", std::to_string(report.revision),
               std::to_string(report.generation), fmt::format("{:.0f}", report.packets_per_s),
               percent(report.dropped_share), report.expected_share ? percent(*report.expected_share) : "-",
               std::to_string(report.entries), when(report.at), more});
  }
  if (!nodes->empty()) text += "\n" + table.text();
  return finish(context, answer, text);
}

int history(const Context& context, const Asked&, Fleet& fleet) {
  constexpr size_t kMost = 50;
  Result<std::vector<fleet::Revision>> revisions = fleet.desk->revisions();
  if (!revisions) return refuse(context, revisions.error());
  Result<std::vector<fleet::Head>> log = fleet.desk->log(kMost);
  if (!log) return refuse(context, log.error());
  FleetAnswer answer;
  answer.fleet = fleet.settings.name;
  answer.revisions = *revisions;
  answer.log = *log;
  Table table({{"revision", Table::Align::right},
               {"files", Table::Align::right},
               {"bytes", Table::Align::right},
               {"pushed"},
               {"by"},
               {"comment"}});
  for (const fleet::Revision& revision : *revisions) {
    uint64_t sum = 0;
    for (const fleet::BlobFile& file : revision.files) sum += file.bytes;
    table.row({std::to_string(revision.number), std::to_string(revision.files.size()), bytes(sum), when(revision.at),
               revision.by, revision.comment});
  }
  Table turns({{"turn", Table::Align::right}, {"when"}, {"by"}, {"what"}});
  for (const fleet::Head& head : *log) turns.row({std::to_string(head.turn), when(head.at), head.by, head.what});
  return finish(context, answer, table.text() + "\n" + turns.text());
}

int diff(const Context& context, const Asked& asked, Fleet& fleet) {
  constexpr size_t kMostLines = 200;
  const Result<fleet::HeadAt> head = fleet.desk->head();
  if (!head) return refuse(context, head.error());
  uint64_t from = head->head.revision, to = head->head.staged;
  if (to == 0 || to == from) from = head->head.everywhere_before, to = head->head.revision;
  std::vector<uint64_t*> named = {&from, &to};
  if (asked.rest.size() > 2) return refuse(context, "diff takes two revisions, or none", kUsage);
  for (size_t i = 0; i < asked.rest.size(); i++) {
    const Result<uint64_t> number = number_of(asked.rest[i]);
    if (!number) return refuse(context, number.error(), kUsage);
    *named[i] = *number;
  }
  if (from == 0 || to == 0)
    return refuse(context, "there are no two revisions to compare\nhint: controlctl fleet history names them");
  const Result<fleet::Revision> before = fleet.desk->revision(from), after = fleet.desk->revision(to);
  if (!before) return refuse(context, before.error());
  if (!after) return refuse(context, after.error());
  const auto find = [](const fleet::Revision& revision, const std::string& path) -> const fleet::BlobFile* {
    const auto found = std::find_if(revision.files.begin(), revision.files.end(),
                                    [&](const fleet::BlobFile& file) { return file.path == path; });
    return found == revision.files.end() ? nullptr : &*found;
  };
  std::string text = fmt::format("revision {} -> {}\n", from, to);
  for (const fleet::BlobFile& file : before->files) {
    if (find(*after, file.path) == nullptr) text += fmt::format("{}: removed\n", file.path);
  }
  for (const fleet::BlobFile& file : after->files) {
    const fleet::BlobFile* old = find(*before, file.path);
    if (old == nullptr) {
      text += fmt::format("{}: new, {}\n", file.path, bytes(file.bytes));
      continue;
    }
    if (old->digest == file.digest) continue;
    text += fmt::format("{}: {} -> {}\n", file.path, bytes(old->bytes), bytes(file.bytes));
    const Result<std::string> was = fleet.desk->file(*old), is = fleet.desk->file(file);
    if (was && is) text += line_difference(*was, *is, kMostLines);
  }
  FleetAnswer answer;
  answer.fleet = fleet.settings.name;
  answer.difference = text;
  return finish(context, answer, text);
}

// What a revision would do to the traffic of every node: each judges its own samples.
int plan(const Context& context, const Asked& asked, Fleet& fleet) {
  const auto wait = seconds_of(context, "--wait", asked.wait);
  if (!wait) return kUsage;
  if (asked.rest.size() > 1) return refuse(context, "plan takes the FILE of a policy, or none", kUsage);
  FleetAnswer answer;
  answer.fleet = fleet.settings.name;
  uint64_t revision = 0;
  if (!asked.rest.empty()) {
    const std::optional<fleet::Pushed> pushed = store(context, asked, fleet, true);
    if (!pushed) return kFailed;
    revision = pushed->revision.number;
  } else if (!asked.to.empty()) {
    const Result<uint64_t> number = number_of(asked.to);
    if (!number) return refuse(context, number.error(), kUsage);
    revision = *number;
  } else {
    const Result<fleet::HeadAt> head = fleet.desk->head();
    if (!head) return refuse(context, head.error());
    revision = head->head.staged;
  }
  if (revision == 0)
    return refuse(context, "nothing is staged\nhint: name the FILE of a policy, or a revision with --to");
  if (const Result<fleet::Revision> there = fleet.desk->revision(revision); !there)
    return refuse(context, there.error());
  const double most_s = std::min(*wait, 120.0);
  say_waiting(context, fmt::format("every node is asked about revision {}: {:.0f} s at most", revision, most_s));
  const Result<std::vector<fleet::Told>> told = fleet.desk->plan(revision, most_s);
  if (!told) return refuse(context, told.error());
  const Result<std::vector<fleet::Node>> nodes = fleet.desk->nodes();
  if (!nodes) return refuse(context, nodes.error());

  answer.revision = revision;
  answer.told = *told;
  double packets = 0, dropped = 0, passed = 0;
  Table table({{"node"},
               {"group"},
               {"packets/s", Table::Align::right},
               {"newly dropped", Table::Align::right},
               {"newly passed", Table::Align::right},
               {"samples", Table::Align::right},
               {""}});
  for (const fleet::Told& one : *told) {
    if (one.newly_dropped && one.newly_passed) {
      packets += one.packets_per_s;
      dropped += one.packets_per_s * one.newly_dropped->value;
      passed += one.packets_per_s * one.newly_passed->value;
    }
    const std::string more = !one.error.empty()         ? one.error
                             : !one.over_limits.empty() ? one.over_limits
                                                        : one.why_no_radius;
    answer.ok = answer.ok && one.error.empty() && one.over_limits.empty();
    table.row({one.node, one.group, fmt::format("{:.0f}", one.packets_per_s), share_text(one.newly_dropped),
               share_text(one.newly_passed), count(one.samples), more});
  }
  std::string silent;
  for (const fleet::Node& node : *nodes) {
    const bool has_told =
        std::any_of(told->begin(), told->end(), [&](const fleet::Told& one) { return one.node == node.report.node; });
    if (node.is_alive && !has_told) silent += (silent.empty() ? "" : ", ") + node.report.node;
  }
  std::string text = fmt::format("revision {}, beside what each node runs\n", revision);
  if (packets > 0) {
    answer.newly_dropped = dropped / packets;
    answer.newly_passed = passed / packets;
    text += fmt::format("of {:.0f} packets a second it would newly drop {}, and newly pass {}\n", packets,
                        percent(dropped / packets), percent(passed / packets));
  }
  text += "\n" + table.text();
  if (!silent.empty()) {
    answer.ok = false;
    answer.error = "these nodes have not answered: " + silent;
    text += answer.error + "\n";
  }
  const bool is_over =
      std::any_of(told->begin(), told->end(), [](const fleet::Told& one) { return !one.over_limits.empty(); });
  const int code = finish(context, answer, text);
  return is_over ? kOverLimit : code;
}

}  // namespace weir::control::ctl::fleet_command
