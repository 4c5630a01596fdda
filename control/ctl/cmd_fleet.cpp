#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <memory>

#include "common/files.h"
#include "common/paths.h"
#include "control/answer/json/json.h"
#include "control/answer/request.h"
#include "control/ctl/change_line.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/fleet_files.h"
#include "control/ctl/fleet_rollout.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/fleet/blob.h"
#include "control/model/time_text.h"
#include "control/read/entry_line.h"
#include "control/read/parsers.h"
#include "control/read/policy.h"

namespace weir::control::ctl {

namespace cmd_fleet {

struct Asked {
  std::string action;
  std::vector<std::string> rest;
  std::string config, etcd, name, comment, list, ttl, groups, wait = "10m", watch = "10s", excess = "30%", to;
  std::string blobs_folder, blobs_url, wait_nodes;
  bool stage = false;
};

// --- what is told ---

struct NodeRow {
  fleet::Report report;
  bool is_alive = false;
};
void members(Fields& f, NodeRow& row) {
  members(f, row.report);
  f({"is_alive", "", "it told so within 15 s"}, row.is_alive);
}

struct MemberRow {
  std::string endpoint, version, error;
  int64_t database_bytes = 0;
};
void members(Fields& f, MemberRow& row) {
  f({"endpoint", "", "of etcd"}, row.endpoint);
  f.unless_empty({"version", "", "of etcd"}, row.version);
  f({"database_bytes", "bytes", "of its store"}, row.database_bytes);
  f.unless_empty({"error", "", "why it does not answer"}, row.error);
}

struct FleetAnswer {
  bool ok = true;
  std::string error;
  std::string fleet;
  std::optional<fleet::Head> head;
  std::optional<std::vector<NodeRow>> nodes;
  std::optional<std::vector<fleet::Told>> told;
  std::optional<double> newly_dropped, newly_passed;
  std::optional<std::vector<MemberRow>> etcd;
  std::optional<std::vector<fleet::Revision>> revisions;
  std::optional<std::vector<fleet::Head>> log;
  std::optional<uint64_t> revision;  // pushed, or that is gone back to
  std::optional<uint64_t> bytes_sent, files_sent;
  std::optional<std::vector<std::string>> groups;  // that a rollout reached
  std::optional<uint64_t> entries, missing, waiting;
  std::string difference;
};
void members(Fields& f, FleetAnswer& answer) {
  f({"ok", "", "it is done"}, answer.ok);
  f.unless_empty({"error", "", "why not"}, answer.error);
  f({"fleet", "", "its name"}, answer.fleet);
  f.maybe_object({"head", "", "which revision each group enforces"}, answer.head, "head");
  f.maybe_array({"nodes", "", "how each stands"}, answer.nodes, "node");
  f.maybe_array({"told", "", "what each node says that the revision would do to its traffic"}, answer.told, "told");
  f.maybe({"newly_dropped", "", "share of the packets that all these nodes see"}, answer.newly_dropped);
  f.maybe({"newly_passed", "", "likewise"}, answer.newly_passed);
  f.maybe_array({"etcd", "", "its members"}, answer.etcd, "member");
  f.maybe_array({"revisions", "", "that are kept, the newest first"}, answer.revisions, "revision");
  f.maybe_array({"log", "", "changes of the head, the newest first"}, answer.log, "head");
  f.maybe({"revision", "", "pushed, or that is enforced again"}, answer.revision);
  f.maybe({"bytes_sent", "bytes", "of files that etcd did not have, packed"}, answer.bytes_sent);
  f.maybe({"files_sent", "", "that etcd did not have"}, answer.files_sent);
  std::vector<std::string> groups = answer.groups.value_or(std::vector<std::string>());
  f.unless_empty({"groups", "", "that have the revision"}, groups);
  f.maybe({"entries", "", "added or deleted"}, answer.entries);
  f.maybe({"missing", "", "that were to be deleted, and were not there"}, answer.missing);
  f.maybe({"waiting", "", "nodes that do not have it yet"}, answer.waiting);
  f.unless_empty({"difference", "", "lines of the policy that differ"}, answer.difference);
}

// What others wrote into etcd, too: its lines stay lines.
std::string printable_lines(const std::string& text) {
  std::string shown;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    shown += printable(text.substr(begin, end - begin)) + "\n";
    begin = end + 1;
  }
  return shown;
}

int refuse(const Context& context, const std::string& error, int code = kFailed) {
  if (context.json) fmt::print("{}", failure_line(error));
  fmt::print(stderr, "controlctl fleet: {}", printable_lines(error));
  return code;
}

int finish(const Context& context, const FleetAnswer& answer, const std::string& text) {
  fmt::print("{}", context.json ? answer_line(answer) : printable_lines(text));
  return answer.ok ? kOk : kFailed;
}

// What may take a while says so.
void say_waiting(const Context& context, const std::string& text) {
  if (!context.json && !context.quiet) fmt::print(stderr, "{}\n", text);
}

// --- whose fleet it is ---

std::string who() {
  const passwd* user = getpwuid(getuid());
  char host[256] = "";
  (void)gethostname(host, sizeof host - 1);
  return fmt::format("{}@{}", user != nullptr ? user->pw_name : std::to_string(getuid()), host);
}

struct Fleet {
  FleetSettings settings;
  std::unique_ptr<fleet::Desk> desk;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Result<Fleet> open(const Asked& asked) {
  Fleet fleet;
  if (!asked.etcd.empty()) {
    if (asked.name.empty()) return Error{"--etcd needs the name of the fleet\nhint: --name NAME"};
    fleet.settings.endpoints = split(asked.etcd);
    fleet.settings.name = asked.name;
  } else {
    const Result<std::string> config = asked.config.empty() ? default_config() : Result<std::string>(asked.config);
    if (!config)
      return Error{config.error() + "\nhint: name a file with `fleet:` by --config, or --etcd URL --name FLEET"};
    const std::optional<FleetSettings> settings = read_places(*config).fleet;
    if (!settings) {
      return Error{
          fmt::format("{} does not say which fleet it is of (`fleet:`)\nhint: name a file that does by --config, "
                      "or --etcd URL --name FLEET; `controlctl check {}` says what is wrong",
                      *config, *config)};
    }
    fleet.settings = *settings;
    if (!asked.name.empty()) fleet.settings.name = asked.name;
  }
  if (!fleet::is_name(fleet.settings.name)) return Error{"`" + fleet.settings.name + "` is no name of a fleet"};
  etcd::Access access;
  access.endpoints = fleet.settings.endpoints;
  access.tls.ca_file = fleet.settings.ca_file;
  access.tls.cert_file = fleet.settings.cert_file;
  access.tls.key_file = fleet.settings.key_file;
  access.user = fleet.settings.user;
  access.timeout_ms = 4000;
  if (!fleet.settings.password_file.empty()) {
    constexpr size_t kMostPassword = 4096;
    const Result<std::string> password = read_file(fleet.settings.password_file, kMostPassword);
    if (!password) return Error{password.error()};
    access.password = password->substr(0, password->find('\n'));
  }
  fleet.desk = std::make_unique<fleet::Desk>(std::move(access), fleet.settings.name, who());
  return fleet;
}

std::string when(int64_t at) {
  return at == 0 ? "-" : age(at);
}

// --- the actions ---

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

int status(const Context& context, const Asked&, Fleet& fleet) {
  FleetAnswer answer;
  answer.fleet = fleet.settings.name;
  answer.etcd.emplace();
  for (const etcd::Client::Member& member : fleet.desk->client().members()) {
    answer.etcd->push_back({member.endpoint, member.status.version, member.error, member.status.database_bytes});
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
                 one.error.empty() ? bytes(static_cast<uint64_t>(one.database_bytes)) : "-", one.error});
  }
  text += "\n" + members.text();
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

// The policy as a node would read it; said what is wrong. Empty: there is an error.
std::optional<Policy> read_whole(const Context& context, const std::string& path) {
  Diagnostics diagnostics;
  FeedHistory history;
  // Feeds with an url are each node's to fetch.
  std::optional<Policy> policy = read_policy(path, diagnostics, unix_now(), history);
  if (!context.json) print_diagnostics(diagnostics.kept());
  return policy;
}

// Stores the policy of this file. Empty: it was said why not.
std::optional<fleet::Pushed> store(const Context& context, const Asked& asked, Fleet& fleet, bool is_staged) {
  const std::string& path = asked.rest[0];
  const std::optional<Policy> policy = read_whole(context, path);
  if (!policy) return refuse(context, path + " is not pushed: it has errors"), std::nullopt;
  Result<PolicyFiles> files = policy_files(path, *policy);
  if (!files) return refuse(context, files.error()), std::nullopt;
  fleet::Push wanted;
  wanted.policy = files->policy;
  wanted.files = std::move(files->files);
  wanted.comment = asked.comment.substr(0, fleet::kMostComment);
  wanted.is_staged = is_staged;
  if (!asked.blobs_folder.empty()) {
    wanted.store = [&](const std::string& digest, std::string_view packed) -> Result<std::string> {
      const Result<void> written =
          write_file_durably(asked.blobs_folder + "/" + digest, {std::as_bytes(std::span(packed))}, 0644);
      if (!written) return Error{written.error()};
      return asked.blobs_url + (asked.blobs_url.ends_with('/') ? "" : "/") + digest;
    };
  }
  Result<fleet::Pushed> pushed = fleet.desk->push(wanted);
  if (!pushed) return refuse(context, pushed.error()), std::nullopt;
  return std::move(*pushed);
}

int push(const Context& context, const Asked& asked, Fleet& fleet) {
  if (asked.rest.size() != 1) return refuse(context, "push takes the FILE of a policy", kUsage);
  const std::optional<fleet::Pushed> pushed = store(context, asked, fleet, asked.stage);
  if (!pushed) return kFailed;
  FleetAnswer answer;
  answer.fleet = fleet.settings.name;
  answer.head = pushed->head;
  answer.revision = pushed->revision.number;
  answer.files_sent = pushed->files_sent;
  answer.bytes_sent = pushed->bytes_sent;
  return finish(
      context, answer,
      fmt::format("revision {} of fleet {}: {}, {} new ({})\n{}", pushed->revision.number, fleet.settings.name,
                  plural(pushed->revision.files.size(), "file"), pushed->files_sent, bytes(pushed->bytes_sent),
                  asked.stage ? "it is staged: controlctl fleet rollout brings it to the nodes\n"
                              : "every node takes it now: controlctl fleet status\n"));
}

Result<uint64_t> number_of(const std::string& text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number == 0) {
    return Error{"`" + text + "` is no number of a revision\nhint: controlctl fleet history names them"};
  }
  return number;
}

int rollback(const Context& context, const Asked& asked, Fleet& fleet) {
  const Result<fleet::HeadAt> head = fleet.desk->head();
  if (!head) return refuse(context, head.error());
  uint64_t to = fleet::before(head->head);
  if (!asked.to.empty()) {
    const Result<uint64_t> number = number_of(asked.to);
    if (!number) return refuse(context, number.error(), kUsage);
    to = *number;
  }
  if (to == 0)
    return refuse(context,
                  "there is no revision before\nhint: name one with --to; controlctl fleet history names them");
  if (const Result<fleet::Revision> there = fleet.desk->revision(to); !there) return refuse(context, there.error());
  const Result<fleet::Head> changed =
      fleet.desk->change(fmt::format("rolled back to revision {}", to), [&](fleet::Head& now) {
        fleet::move(now, "", to);
        now.staged = 0;
        now.is_paused = false;
        return Result<void>();
      });
  if (!changed) return refuse(context, changed.error());
  FleetAnswer answer;
  answer.fleet = fleet.settings.name;
  answer.head = *changed;
  answer.revision = to;
  return finish(context, answer, fmt::format("every node goes back to revision {} now: controlctl fleet status\n", to));
}

int pause(const Context& context, const Asked&, Fleet& fleet) {
  const Result<fleet::Head> changed = fleet.desk->change("paused", [](fleet::Head& now) {
    now.is_paused = true;
    return Result<void>();
  });
  if (!changed) return refuse(context, changed.error());
  FleetAnswer answer;
  answer.fleet = fleet.settings.name;
  answer.head = *changed;
  return finish(context, answer, "a rollout that runs stops; groups stay where they are\n");
}

std::optional<double> seconds_of(const Context& context, const char* option, const std::string& text) {
  const auto duration = parse_duration(text);
  if (duration) return static_cast<double>(*duration);
  (void)refuse(context, fmt::format("{} is `{}`: it must be a time like 90s, 10m or 1h", option, text));
  return std::nullopt;
}

int rollout(const Context& context, const Asked& asked, Fleet& fleet) {
  Rollout wanted;
  wanted.groups = split(asked.groups);
  const auto wait = seconds_of(context, "--wait", asked.wait), watch = seconds_of(context, "--watch", asked.watch);
  if (!wait || !watch) return kUsage;
  wanted.wait_s = *wait;
  wanted.watch_s = *watch;
  std::string excess = asked.excess;
  if (excess.ends_with('%')) excess.pop_back();
  unsigned percent_excess = 0;
  const auto [end, error] = std::from_chars(excess.data(), excess.data() + excess.size(), percent_excess);
  if (error != std::errc() || end != excess.data() + excess.size()) {
    return refuse(context, fmt::format("--excess is `{}`: it must be a share like 30%", asked.excess), kUsage);
  }
  wanted.most_excess = percent_excess / 100.0;
  const Result<fleet::HeadAt> head = fleet.desk->head();
  if (!head) return refuse(context, head.error());
  wanted.revision = head->head.staged;
  if (!asked.to.empty()) {
    const Result<uint64_t> number = number_of(asked.to);
    if (!number) return refuse(context, number.error(), kUsage);
    wanted.revision = *number;
  }
  if (wanted.revision == 0) return refuse(context, "nothing is staged\nhint: controlctl fleet push --stage FILE");
  if (const Result<fleet::Revision> there = fleet.desk->revision(wanted.revision); !there)
    return refuse(context, there.error());
  const auto say = [&](const std::string& text) {
    if (!context.json && !context.quiet) fmt::print("{}\n", printable(text));
    std::fflush(stdout);
  };
  const Result<RolledOut> done = roll_out(*fleet.desk, wanted, say);
  if (!done) return refuse(context, done.error());
  FleetAnswer answer;
  answer.fleet = fleet.settings.name;
  answer.revision = wanted.revision;
  answer.groups = done->groups;
  if (!done->stopped.empty()) {
    answer.ok = false;
    answer.error = done->stopped;
    if (!context.json) {
      std::fflush(stdout);
      fmt::print(
          stderr,
          "controlctl fleet: stopped: {}\nhint: controlctl fleet rollback brings all groups back; rollout goes on\n",
          printable(done->stopped));
    }
    return finish(context, answer, "");
  }
  return finish(context, answer,
                fmt::format("revision {} is enforced by {}\n", wanted.revision,
                            wanted.groups.empty() ? "every group" : "the groups that were named"));
}

std::string share_text(const std::optional<fleet::ToldShare>& share) {
  return share ? fmt::format("{} ({} to {})", percent(share->value), percent(share->low), percent(share->high)) : "-";
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
  const time_t end = time(nullptr) + static_cast<time_t>(seconds);
  while (true) {
    const Result<std::vector<fleet::Node>> nodes = fleet.desk->nodes();
    if (!nodes) return Error{nodes.error()};
    const auto waiting =
        static_cast<uint64_t>(std::count_if(nodes->begin(), nodes->end(), [&](const fleet::Node& node) {
          return node.is_alive && node.report.entries_at < at;
        }));
    if (waiting == 0 || time(nullptr) >= end) return waiting;
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
  if (!context.json) fmt::print(stderr, "controlctl fleet: {}\n", answer.error);
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

struct Action {
  const char* name;
  int (*run)(const Context&, const Asked&, Fleet&);
};
constexpr Action kActions[] = {
    {"push", push},
    {"plan", plan},
    {"status", status},
    {"nodes", status},
    {"rollout", rollout},
    {"pause", pause},
    {"rollback", rollback},
    {"add", [](const Context& c, const Asked& a, Fleet& f) { return change(c, a, f, true); }},
    {"del", [](const Context& c, const Asked& a, Fleet& f) { return change(c, a, f, false); }},
    {"diff", diff},
    {"history", history},
};

int run(const Context& context, const Asked& asked) {
  if (asked.blobs_folder.empty() != asked.blobs_url.empty()) {
    return refuse(context, "--blobs and --blobs-url belong together", kUsage);
  }
  const auto action = std::find_if(std::begin(kActions), std::end(kActions),
                                   [&](const Action& one) { return asked.action == one.name; });
  Result<Fleet> fleet = open(asked);
  if (!fleet) return refuse(context, fleet.error());
  return action->run(context, asked, *fleet);
}

Run configure(Options& options) {
  auto asked = std::make_shared<Asked>();
  std::vector<std::string> names;
  for (const Action& action : kActions) names.push_back(action.name);
  options.argument("ACTION", asked->action, "what to do").required().one_of(names);
  options.arguments("ARG...", asked->rest, "push, plan: the FILE of a policy; add, del: entries; diff: two revisions")
      .files();
  options
      .text("--config", "FILE", asked->config, "a file with `fleet:`; default: ./weir.yaml, then /etc/weir/weir.yaml")
      .files();
  options.text("--etcd", "URL,...", asked->etcd, "instead: where etcd is");
  options.text("--name", "NAME", asked->name, "the fleet; default: that of the file");
  options.text("--comment", "TEXT", asked->comment, "push, add: why");
  options.flag("--stage", asked->stage, "push: store it, and let no node take it before `rollout`");
  options.text("--blobs", "DIR", asked->blobs_folder, "push: files of more than 16 MiB, packed, go into this folder")
      .files();
  options.text("--blobs-url", "URL", asked->blobs_url, "push: from which nodes fetch what lies in that folder");
  options.text("--groups", "A,B,...", asked->groups,
               "rollout: these groups alone, in this order; default: all, by name");
  options.text("--wait", "TIME", asked->wait,
               "rollout: how long nodes of a group may take; plan: for answers, 2 minutes at most");
  options.text("--watch", "TIME", asked->watch, "rollout: how long a group is watched before the next one");
  options.text("--excess", "SHARE", asked->excess, "rollout: how much more than expected a node may drop");
  options.text("--to", "REVISION", asked->to, "rollout, rollback, plan: this one");
  options.text("--list", "NAME", asked->list, "add, del: of this list; where one list is dynamic it may be left out");
  options.text("--ttl", "TIME", asked->ttl, "add: for how long; default: until it is deleted");
  options.text("--enforced", "TIME", asked->wait_nodes, "add, del: wait so long until every node enforces it");
  return [asked](const Context& context) { return run(context, *asked); };
}

}  // namespace cmd_fleet

const Command kFleet = {
    "fleet",
    Group::change,
    "one policy for many machines: push it, roll it out, add entries everywhere; speaks to etcd, needs no controld",
    "push stores a policy and its feeds as a revision, which every node takes at once; with --stage they wait for\n"
    "rollout, which brings it to one group of nodes after the other, and stops when a node refuses it, goes silent or\n"
    "drops more than it expected. rollback brings all groups back. plan stores a policy as if to stage it, and asks "
    "each\n"
    "node what it would do to its traffic; exit code 5 says that one would refuse it. add and del change a dynamic "
    "list of every node.\n"
    "Exit code 1 says that it was not done, or that a rollout stopped, 3 that not every node has it yet.",
    cmd_fleet::configure,
    [](MemberTable& table) { table.add<cmd_fleet::FleetAnswer>("fleet"); }};

}  // namespace weir::control::ctl
