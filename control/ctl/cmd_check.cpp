#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>
#include <thread>

#include "common/clock.h"
#include "common/files.h"
#include "common/log/progress_line.h"
#include "common/memory.h"
#include "common/paths.h"
#include "control/compile/compile.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/text.h"
#include "control/enforce/publish/in_force.h"
#include "control/enforce/publish/store.h"
#include "control/lists/book/disk.h"
#include "control/policy/read/parsers.h"
#include "control/policy/read/policy.h"
#include "control/policy/read/supplies.h"
#include "control/tell/answer/list.h"
#include "control/tell/answer/status.h"

// Needs no controld and changes nothing: reads the policy and its feeds, compiles and proves, as a reload would, with
// processes of its own that parse.
namespace weir::control::ctl {

namespace cmd_check {

std::string summary_line(const std::string& config, const Diagnostics& diagnostics) {
  return fmt::format("{}: {}, {}\n", config, plural(diagnostics.errors(), "error"),
                     plural(diagnostics.warnings(), "warning"));
}

void show_feed(const std::string& list, const FeedReport& feed) {
  if (!feed.why.empty() && feed.format != "plain") {
    print("{}: list {}: read as {}: {}\n", feed.path, list, feed.format, feed.why);
  }
  for (const LineSample& line : feed.samples) {
    const std::string what =
        line.kind == LineSample::host_bits ? "prefix" : fmt::format("{} line", LineSample::kNames[line.kind]);
    print("{}:{}: {} of list {}: {}: {}\n", feed.path, line.line, what, list, line.reason, line.text);
  }
  const auto tell_rest = [&](uint64_t lines, const char* what) {
    if (lines <= kSamplesOfAKind) return;
    print("{}: ... and {} more {}\n", feed.path, count(lines - kSamplesOfAKind), what);
  };
  tell_rest(feed.bad, "bad lines");
  tell_rest(feed.skipped, "skipped lines");
  tell_rest(feed.host_bits, "prefixes with host bits");
}

void show(const std::string& config, const Diagnostics& diagnostics, const Book& lists,
          const std::optional<CompileReport>& plan) {
  print(stderr, "{}", format(diagnostics));
  if (!plan) {
    print(stderr, "{}", summary_line(config, diagnostics));
    return;
  }
  uint64_t bad_lines = 0, skipped_lines = 0;
  for (const List& list : lists) {
    if (list.ipv6_aggregate != 128) {
      print("{}: list {}: {} widened to /{}\n", config, list.name,
            plural(list.ipv6_widened, "IPv6 address", "IPv6 addresses"), list.ipv6_aggregate);
    }
    if (list.cut.entries != 0) {
      print("{}: list {}: policy.own is cut out of {}, the first at {}:{}: {}\n", config, list.name,
            plural(list.cut.entries, "entry", "entries"), list.file_of(list.cut.source), list.cut.line, list.cut.first);
    }
    bad_lines += list.feed.bad;
    skipped_lines += list.feed.skipped;
    for (const FeedFile& file : list.feeds()) show_feed(list.name, file.feed);
  }
  print("{}: ok: {}, {}, {}, {} snapshot; {}", config, plural(lists.size(), "list"),
        plural(plan->entries, "entry", "entries"), plural(plan->shapes.size(), "shape"), bytes(plan->snapshot_bytes),
        plural(bad_lines, "bad feed line"));
  if (skipped_lines != 0) print(", {} skipped", count(skipped_lines));
  print("{}\n", diagnostics.warnings() == 0 ? "" : "; " + plural(diagnostics.warnings(), "warning"));
}

struct CheckAnswer {
  struct Planned {
    CompileReport report;
  };
  bool ok = false;
  Diagnostics diagnostics;
  std::vector<ListDetails> lists;
  std::vector<RefusedFeed> refused;
  std::optional<Planned> planned;
};

void members(Fields& f, CheckAnswer::Planned& planned) {
  f({"entries", "", "of all lists"}, planned.report.entries);
  f({"snapshot_bytes", "bytes", "of the snapshot, room for more included"}, planned.report.snapshot_bytes);
  f.array({"shapes", "", "that the planner would choose"}, planned.report.shapes, "shape");
}

void members(Fields& f, CheckAnswer& answer) {
  f({"ok", "", "there is no error"}, answer.ok);
  members(f, answer.diagnostics);
  f.array({"lists", "", "in the order of the policy"}, answer.lists, "list");
  f.array({"refused", "", "feeds that would not be taken: their lists would keep what they have"}, answer.refused,
          "refused feed");
  f.group("entries", answer.planned);
}

CheckAnswer answer_of(const Diagnostics& diagnostics, const Book& lists, const std::optional<CompileReport>& plan) {
  CheckAnswer answer;
  answer.ok = plan.has_value();
  answer.diagnostics = diagnostics;
  answer.lists = details_of(lists);
  answer.refused = refused_feeds(lists);
  if (plan) answer.planned = {*plan};
  return answer;
}

// Of the whole policy: "MESSAGE\nhint: HINT".
Diagnostic refusal(const std::string& config, const std::string& error) {
  constexpr std::string_view kHint = "\nhint: ";
  const size_t hint = error.find(kHint);
  if (hint == std::string::npos) return {Severity::error, {config, 0, 0}, error, "", ""};
  return {Severity::error, {config, 0, 0}, error.substr(0, hint), "", error.substr(hint + kHint.size())};
}

struct Asked {
  std::string config;
  std::string state_dir;  // empty: the policy's
};

// What controld last enforced: feeds are judged beside it. Of a folder that was asked for whatever is in it, else what
// is of this policy. Error: there is something, or there should be, and it cannot be read.
Result<Book> last_good(const Asked& asked, const confine::Helpers& parsers) {
  std::error_code ignored;
  const std::string absolute = std::filesystem::absolute(asked.config, ignored).lexically_normal().string();
  std::string state_dir = asked.state_dir;
  if (state_dir.empty()) {
    state_dir =
        read_places(asked.config, &parsers).state_dir.value_or(remembered_state_dir(default_state_dir(), absolute));
    if (access((state_dir + "/targets").c_str(), R_OK) != 0) {
      return errno == ENOENT ? Result<Book>(Book()) : errno_error("cannot read " + state_dir);
    }
    const Result<std::optional<InForce>> in_force = read_in_force(state_dir);
    if (!in_force) return Error{in_force.error()};
    if (!*in_force || !is_same_file((*in_force)->config, asked.config)) return Book();
  }
  const Result<Store::Bytes> bytes = Store::book_in(state_dir);
  return bytes ? read_book(bytes->bytes()) : Result<Book>(Error{bytes.error()});
}

struct Checked {
  Diagnostics diagnostics;
  Book lists;
  std::optional<CompileReport> plan;
};

void check(const Asked& asked, const confine::Helpers& parsers, Checked& checked, Progress& progress) {
  const Result<Book> before = last_good(asked, parsers);
  FeedHistory history(before ? &*before : nullptr);
  history.is_ours = false;
  history.parsers = &parsers;
  history.progress = &progress;
  progress.begin("read", "bytes");
  history.state_dir = asked.state_dir;
  history.host_supplies = host_supplies;
  std::optional<Policy> policy = read_policy(asked.config, checked.diagnostics, unix_now(), history);
  const bool has_feeds = !policy || std::any_of(policy->lists.begin(), policy->lists.end(),
                                                [](const List& list) { return !list.feed.path.empty(); });
  if (!before && has_feeds) {
    checked.diagnostics.add({Severity::warning,
                             {asked.config, 0, 0},
                             "feeds are not compared with what is enforced: " + before.error(),
                             "",
                             "ask as the user of controld; --state-dir names the folder that controld was given"});
  }
  if (!policy) return;
  Result<Compiled> compiled = compile(*policy, {}, std::max(1u, std::thread::hardware_concurrency() / 2), &progress);
  if (compiled) {
    checked.plan = std::move(compiled->report);
  } else {
    checked.diagnostics.add(refusal(asked.config, compiled.error()));
  }
  checked.lists = std::move(policy->lists);
}

int check(const Context& context, const Asked& asked) {
  const std::string& config = asked.config;
  Checked checked;
  const Result<std::unique_ptr<confine::Helpers>> parsers = start_parsers();
  if (!parsers) {
    checked.diagnostics.add({Severity::error, {config, 0, 0}, parsers.error(), "", ""});
  } else {
    Progress progress;
    const log::ProgressLine line(progress, !context.quiet && !context.json);
    const Result<void> had_memory = with_memory([&] { check(asked, **parsers, checked, progress); });
    if (!had_memory) {
      checked.diagnostics.add({Severity::error, {config, 0, 0}, had_memory.error(), "", "make feeds smaller"});
    }
  }
  if (context.json) {
    print("{}", answer_line(answer_of(checked.diagnostics, checked.lists, checked.plan)));
  } else {
    show(config, checked.diagnostics, checked.lists, checked.plan);
  }
  if (!checked.plan) return kFailed;
  return refused_feeds(checked.lists).empty() ? kOk : kNotAcknowledged;
}

int run(const Context& context, const Asked& asked) {
  const Result<std::string> config = asked.config.empty() ? default_config() : Result<std::string>(asked.config);
  if (config) return check(context, {*config, asked.state_dir});
  if (context.json) print("{}", failure_line(config.error()));
  print(stderr, "controlctl check: {}\n", config.error());
  return kFailed;
}

Run configure(Options& options) {
  auto asked = std::make_shared<Asked>();
  options.text("--config", "FILE", asked->config, "the policy file; default: ./weir.yaml, then /etc/weir/weir.yaml")
      .argument_too()
      .files();
  options
      .text(
          "--state-dir", "DIR", asked->state_dir,
          "compare feeds with what controld enforced and keeps here, of whatever policy; default: what it enforced of "
          "this one")
      .files();
  return [asked](const Context& context) { return run(context, *asked); };
}

}  // namespace cmd_check

const Command kCheck = {
    "check",
    Group::everyday,
    "read a policy and its feeds, and say all that is wrong; needs no controld",
    "It compiles and proves what a reload would publish, canaries included, and changes nothing. Exit code 1 says\n"
    "that the policy has errors, or that a proof failed, 3 that a feed would be refused: its list would keep what\n"
    "controld last enforced.",
    cmd_check::configure,
    [](MemberTable& table) { table.add<cmd_check::CheckAnswer>("check"); },
    false,
    "validate verify"};

}  // namespace weir::control::ctl
