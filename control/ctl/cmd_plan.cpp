#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "common/files.h"
#include "control/ctl/client.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/tell/answer/change.h"

// What a change would do, before it is made.
namespace weir::control::ctl {

namespace cmd_plan {

constexpr uint64_t kMostPolicyBytes = 8 << 20;  // with what JSON makes of it, within a request
constexpr size_t kMostLists = 20, kMostEntries = 3, kMostShown = 5;

std::string placed_text(const PlacedEntry& placed) {
  return placed.line == 0 ? fmt::format("{} ({})", placed.entry, placed.file)
                          : fmt::format("{} ({}:{})", placed.entry, placed.file, placed.line);
}

// 0.42 % (0.38 to 0.47 %)
std::string share_text(const Share& share) {
  const auto digits = [](double value) { return fmt::format("{:.3g}", 100 * value); };
  return fmt::format("{} % ({} to {} %)", digits(share.value), digits(share.low), digits(share.high));
}

std::string verdict_line(const PlanAnswer& answer) {
  const std::string reason = reason_text(answer.diagnostics, answer.error);
  if (!reason.empty()) return "no: " + reason;
  if (!answer.over_limits.empty()) return "no: " + answer.over_limits.front().text();
  if (!answer.radius)
    return "a reload would take it; what it would do to traffic is not known: " + answer.why_no_radius;
  return "a reload would take it";
}

void show_radius(const Radius& radius) {
  print("\nof the packets of the last {} ({} seen, for {})\n", duration(radius.seconds), count(radius.samples),
        scaled(radius.frames));
  Table shares({{""}, {"packets"}});
  shares.row({"newly dropped", share_text(radius.newly_dropped)});
  shares.row({"newly passed", share_text(radius.newly_passed)});
  shares.row({"dropped now", share_text(radius.dropped_before)});
  shares.row({"dropped then", share_text(radius.dropped_after)});
  print("{}", shares.text());
  if (radius.are_tunnels_different) {
    print("`policy.tunnels` changes: what is inside of tunnels is known only as what runs sees it\n");
  }
  Table credits({{"by"}, {"newly dropped"}, {"newly passed"}});
  for (const Radius::Credit& credit : radius.credits) {
    const auto text = [](const Share& share) { return share.value == 0 ? std::string("-") : share_text(share); };
    credits.row({credit.name, text(credit.newly_dropped), text(credit.newly_passed)});
  }
  if (!credits.empty()) print("\n{}", credits.text());
  for (const Radius::LetThrough& one : radius.let_through) {
    print("\npass list {} lets {} through, though a drop list matches\n", one.list, share_text(one.share));
  }
  Table talkers({{"address"}, {"side"}, {"becomes"}, {"packets"}, {"by"}});
  for (const Radius::Talker& talker : radius.talkers) {
    talkers.row({talker.address, talker.side, talker.is_dropped ? "dropped" : "passed", share_text(talker.share),
                 talker.credit});
  }
  if (!talkers.empty()) print("\n{}", talkers.text());
}

void show_lists(const std::vector<ListPreview>& lists) {
  if (lists.empty()) {
    print("\nno list changes\n");
    return;
  }
  Table table({{"list"},
               {""},
               {"added", Table::Align::right},
               {"removed", Table::Align::right},
               {"entries", Table::Align::right},
               {"what else"}});
  for (size_t i = 0; i < lists.size() && i < kMostLists; i++) {
    const ListPreview& list = lists[i];
    table.row({list.change.name, list.change.state, count(list.change.added), count(list.change.removed),
               count(list.change.entries), list.how});
  }
  print("\n{}", table.text());
  if (lists.size() > kMostLists) print("... and {} more lists\n", lists.size() - kMostLists);
  Table entries({{"list"}, {""}, {"entry"}});
  for (size_t i = 0; i < lists.size() && i < kMostLists; i++) {
    const ListPreview& list = lists[i];
    const auto add = [&](const char* what, const std::vector<PlacedEntry>& placed, uint64_t all) {
      for (size_t e = 0; e < placed.size() && e < kMostEntries; e++) {
        entries.row({list.change.name, what, placed_text(placed[e])});
      }
      if (all > kMostEntries && !placed.empty()) {
        entries.row({list.change.name, what, fmt::format("... and {} more", count(all - kMostEntries))});
      }
    };
    add("new", list.added, list.change.added);
    add("old", list.removed, list.change.removed);
  }
  if (!entries.empty()) print("\n{}", entries.text());
}

std::string concern_text(const Concern& concern) {
  const std::string entries = plural(concern.entries, "new entry", "new entries");
  if (concern.kind == "pass list") {
    return fmt::format("{} without effect: pass list {} exempts what they hold", entries, concern.what);
  }
  if (concern.kind == "reserved") return fmt::format("{} of reserved addresses ({})", entries, concern.what);
  return fmt::format("{} of a network that many people use ({})", entries, concern.what);
}

void show_concerns(const ListsPreview& preview) {
  Table concerns({{"list"}, {"look at"}, {"the first"}});
  for (const Concern& concern : preview.concerns) {
    concerns.row({concern.list, concern_text(concern), placed_text(concern.first)});
  }
  if (!concerns.empty()) print("\n{}", concerns.text());
  Table widest({{"list"}, {"widest new entries"}, {"addresses", Table::Align::right}});
  for (size_t i = 0; i < preview.widest.size() && i < kMostShown; i++) {
    const WideEntry& wide = preview.widest[i];
    widest.row({wide.list, placed_text(wide.entry), scaled(wide.addresses)});
  }
  if (!widest.empty()) print("\n{}", widest.text());
}

void show(const PlanAnswer& answer) {
  std::fflush(stdout);
  print_diagnostics(answer.diagnostics.kept());
  print("{}\n", verdict_line(answer));
  for (const RefusedFeed& refused : answer.refused) {
    print("list {} would keep what it has: {}\n", refused.list, refused.reason);
  }
  for (size_t i = 1; i < answer.over_limits.size(); i++) print("{}\n", answer.over_limits[i].text());
  if (!answer.diagnostics.ok()) return;
  if (answer.radius) show_radius(*answer.radius);
  show_lists(answer.preview.lists);
  show_concerns(answer.preview);
  if (!answer.error.empty() || answer.after.snapshot_bytes == 0) return;
  Table cost({{"cost"}, {"now", Table::Align::right}, {"then", Table::Align::right}});
  cost.row({"entries", count(answer.before.entries), count(answer.after.entries)});
  cost.row({"snapshot", bytes(answer.before.snapshot_bytes), bytes(answer.after.snapshot_bytes)});
  cost.row({"probes, IPv4", count(answer.before.probes_v4), count(answer.after.probes_v4)});
  cost.row({"probes, IPv6", count(answer.before.probes_v6), count(answer.after.probes_v6)});
  double ms = 0;
  for (const PhaseTime& phase : answer.phases) ms += phase.milliseconds;
  print("\n{}compiling it took {}; compared with generation {}\n", cost.text(), milliseconds(ms),
        generation_text(answer.generation));
}

struct Asked {
  std::string policy, list, file, url;
};

int run(const Context& context, const Asked& asked) {
  const auto fail_usage = [](const char* why) {
    print(stderr, "controlctl plan: {}\n", why);
    return kUsage;
  };
  Request wanted{"plan"};
  if (asked.policy.empty() && asked.list.empty())
    return fail_usage("name a policy FILE, or --list with --file or --url");
  if (!asked.list.empty() && asked.file.empty() == asked.url.empty()) {
    return fail_usage("--list needs either --file or --url: what its feed would be");
  }
  if (asked.list.empty() && !(asked.file.empty() && asked.url.empty())) {
    return fail_usage("--file and --url need --list: the list whose feed it would be");
  }
  std::error_code ignored;
  const auto absolute = [&](const std::string& path) {
    return std::filesystem::absolute(path, ignored).lexically_normal().string();
  };
  if (!asked.policy.empty()) {
    Result<std::string> text = read_file(asked.policy, kMostPolicyBytes);
    if (!text) return fail(context, text.error()), kFailed;
    wanted.policy = std::move(*text);
    wanted.path = absolute(asked.policy);
  }
  if (!asked.list.empty()) wanted.name = asked.list;
  if (!asked.file.empty()) wanted.file = absolute(asked.file);
  if (!asked.url.empty()) wanted.url = asked.url;
  return request(context, wanted, show);
}

Run configure(Options& options) {
  auto asked = std::make_shared<Asked>();
  options.argument("FILE", asked->policy, "a policy; without one, the policy that runs is meant").files();
  options.text("--list", "LIST", asked->list, "a list whose feed is replaced");
  options.text("--file", "FEED", asked->file, "with --list: the file that is its feed instead").files();
  options.text("--url", "URL", asked->url, "with --list: controld fetches it, and it is its feed instead");
  return [asked](const Context& context) { return run(context, *asked); };
}

}  // namespace cmd_plan

const Command kPlan = {
    "plan",
    Group::look,
    "what a changed policy or feed would do to the lists, and to the traffic that flows",
    "It compiles the candidate beside what runs, proofs included, and judges samples of the recent traffic by both.\n"
    "Nothing is published. Files are read by controld, with the rights of its user. Exit code 5 says that a limit of\n"
    "`plan` in the policy is exceeded: `controlctl reload` would refuse it, and takes it with --force.",
    cmd_plan::configure,
    [](MemberTable& table) { table.add<PlanAnswer>("plan"); }};

}  // namespace weir::control::ctl
