// Which revision the nodes enforce.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "common/clock.h"
#include "common/files.h"
#include "control/ctl/fleet_command.h"
#include "control/ctl/fleet_files.h"
#include "control/ctl/fleet_rollout.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/policy/model/time_text.h"
#include "control/policy/read/parsers.h"
#include "control/policy/read/policy.h"

namespace weir::control::ctl::fleet_command {
namespace {

// The policy as a node would read it; said what is wrong. Empty: there is an error.
std::optional<Policy> read_whole(const Context& context, const std::string& path) {
  Diagnostics diagnostics;
  FeedHistory history;
  // Feeds with an url are each node's to fetch.
  std::optional<Policy> policy = read_policy(path, diagnostics, unix_now(), history);
  if (!context.json) print_diagnostics(diagnostics.kept());
  return policy;
}

}  // namespace

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
    if (!context.json && !context.quiet) print("{}\n", text);
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
      print(stderr,
            "controlctl fleet: stopped: {}\nhint: controlctl fleet rollback brings all groups back; rollout goes on\n",
            done->stopped);
    }
    return finish(context, answer, "");
  }
  return finish(context, answer,
                fmt::format("revision {} is enforced by {}\n", wanted.revision,
                            wanted.groups.empty() ? "every group" : "the groups that were named"));
}

}  // namespace weir::control::ctl::fleet_command
