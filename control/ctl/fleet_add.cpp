// Entries of dynamic lists on every node.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "common/clock.h"
#include "control/ctl/change_line.h"
#include "control/ctl/fleet_command.h"
#include "control/ctl/fleet_files.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/policy/read/entry_line.h"
#include "control/policy/read/parsers.h"
#include "control/policy/read/policy.h"

namespace weir::control::ctl::fleet_command {
namespace {

// The policy that most nodes enforce, for its lists.
Result<Policy> policy_of(Fleet& fleet) {
  const Result<fleet::HeadAt> head = fleet.desk->head();
  if (!head) return Error{head.error()};
  uint64_t number = head->head.revision;
  if (number == 0 && !head->head.groups.empty()) number = head->head.groups[0].revision;
  if (number == 0) return Error{"no revision is enforced yet\nhint: controlctl fleet push FILE"};
  const Result<fleet::Revision> revision = fleet.desk->revision(number);
  if (!revision) return Error{revision.error()};
  for (const fleet::BlobFile& file : revision->files) {
    if (file.path != revision->policy) continue;
    Result<std::string> text = fleet.desk->file(file);
    if (!text) return Error{text.error()};
    Diagnostics diagnostics;
    std::optional<Policy> policy = parse_policy(file.path, std::move(*text), diagnostics);
    if (!policy) return Error{fmt::format("the policy of revision {} has errors", number)};
    return std::move(*policy);
  }
  return Error{"the revision has no policy"};
}

// Until every node that is alive has what is in etcd at this revision of its store, or the time is over. Returns how
// many do not.
Result<uint64_t> wait_for_nodes(Fleet& fleet, int64_t at, double seconds) {
  const time_t end = unix_now() + static_cast<time_t>(seconds);
  while (true) {
    const Result<std::vector<fleet::Node>> nodes = fleet.desk->nodes();
    if (!nodes) return Error{nodes.error()};
    const auto waiting =
        static_cast<uint64_t>(std::count_if(nodes->begin(), nodes->end(), [&](const fleet::Node& node) {
          return node.is_alive && node.report.entries_at < at;
        }));
    if (waiting == 0 || unix_now() >= end) return waiting;
    usleep(50'000);
  }
}

int finish_change(const Context& context, const Asked& asked, Fleet& fleet, FleetAnswer& answer, int64_t at,
                  const std::string& text) {
  if (asked.wait_nodes.empty()) return finish(context, answer, text);
  const auto seconds = seconds_of(context, "--enforced", asked.wait_nodes);
  if (!seconds) return kUsage;
  say_waiting(context, fmt::format("waiting until every node enforces it: {:.0f} s at most", *seconds));
  const Result<uint64_t> waiting = wait_for_nodes(fleet, at, *seconds);
  if (!waiting) return refuse(context, waiting.error());
  answer.waiting = *waiting;
  if (*waiting == 0) return finish(context, answer, text + "every node that is there enforces it\n");
  answer.error = fmt::format("{} do not have it yet", plural(*waiting, "node"));
  (void)finish(context, answer, text);
  if (!context.json) print(stderr, "controlctl fleet: {}\n", answer.error);
  return kNotAcknowledged;
}

int change(const Context& context, const Asked& asked, Fleet& fleet, bool is_add) {
  if (asked.rest.empty()) return refuse(context, asked.action + " takes entries", kUsage);
  std::optional<std::vector<std::string>> keys = read_keys(asked.rest);
  if (!keys) return kUsage;
  uint64_t ttl_s = 0;
  if (!asked.ttl.empty()) {
    const auto ttl = parse_duration(asked.ttl);
    if (!ttl || *ttl == 0)
      return refuse(context, "--ttl is `" + asked.ttl + "`: it must be a time like 90s, 10m or 24h", kUsage);
    ttl_s = *ttl;
  }
  const Result<Policy> policy = policy_of(fleet);
  if (!policy) return refuse(context, policy.error());
  const Result<std::string> list = dynamic_list(*policy, asked.list);
  if (!list) return refuse(context, list.error());
  const auto found =
      std::find_if(policy->lists.begin(), policy->lists.end(), [&](const List& one) { return one.name == *list; });
  if (is_add && found->dynamic->max_ttl_s != 0 && ttl_s > found->dynamic->max_ttl_s) {
    return refuse(context, fmt::format("--ttl is longer than entries of list {} may stay: {} s (`max_ttl`)", *list,
                                       found->dynamic->max_ttl_s));
  }
  std::vector<fleet::Desk::NewEntry> entries;
  for (const std::string& key : *keys) {
    ListDraft draft;
    draft.match = found->match;
    Result<std::string> text = read_entry_line(key, found->dynamic->allow_any, draft);
    if (!text) return refuse(context, text.error());
    if (text->size() > fleet::kMostEntry) return refuse(context, "an entry is longer than 512 bytes");
    entries.push_back({*list, std::move(*text)});
  }
  FleetAnswer answer;
  answer.fleet = fleet.settings.name;
  if (is_add) {
    const Result<int64_t> at = fleet.desk->add(entries, ttl_s, asked.comment.substr(0, fleet::kMostComment));
    if (!at) return refuse(context, at.error());
    answer.entries = entries.size();
    return finish_change(
        context, asked, fleet, answer, *at,
        fmt::format("{} for list {} of every node\n", plural(entries.size(), "entry", "entries"), *list));
  }
  const Result<fleet::Desk::Deleted> deleted = fleet.desk->del(entries);
  if (!deleted) return refuse(context, deleted.error());
  answer.entries = deleted->deleted;
  answer.missing = deleted->missing;
  return finish_change(
      context, asked, fleet, answer, deleted->at,
      fmt::format("{} deleted from list {} of every node{}\n", plural(deleted->deleted, "entry", "entries"), *list,
                  deleted->missing != 0 ? fmt::format("; {} not there", deleted->missing) : ""));
}

}  // namespace

int add(const Context& context, const Asked& asked, Fleet& fleet) {
  return change(context, asked, fleet, true);
}

int del(const Context& context, const Asked& asked, Fleet& fleet) {
  return change(context, asked, fleet, false);
}

}  // namespace weir::control::ctl::fleet_command
