#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "common/clock.h"
#include "common/fd.h"
#include "common/files.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/restore_plan.h"
#include "control/ctl/text.h"
#include "control/policy/feeds/reading.h"
#include "control/tell/answer/change.h"
#include "control/tell/answer/list.h"

namespace weir::control::ctl {

namespace cmd_restore {

struct Arguments {
  std::string file = "-";
  std::string format = "auto";
  RestoreOptions options;
  bool dry_run = false;
};

// --- what is printed ---

struct SetAnswer {
  struct LeftOutAnswer {
    std::string reason;
    uint64_t entries = 0;
    std::vector<std::string> first;
  };
  std::string set, type, list;
  uint64_t entries = 0, ended = 0;
  std::vector<LeftOutAnswer> left_out;
  std::vector<std::string> exceptions;
  std::string error;
};

struct ListResult {
  std::string list;
  uint64_t wanted = 0, added = 0, renewed = 0, entries = 0;
  std::string error;
};

struct RestoreAnswer {
  bool ok = true;
  bool dry_run = false;
  std::vector<SetAnswer> sets;
  std::vector<ListResult> lists;
  std::string policy;
};

void members(Fields& f, SetAnswer::LeftOutAnswer& left_out) {
  f({"reason", "", "why they are no entries"}, left_out.reason);
  f({"entries", "", "how many"}, left_out.entries);
  f.texts({"first", "", "the first ones"}, left_out.first);
}

void members(Fields& f, SetAnswer& set) {
  f({"set", "", "its name; empty: lines that belong to no set"}, set.set);
  f.unless_empty({"type", "", "as the text has it"}, set.type);
  f({"list", "", "that takes its entries"}, set.list);
  f({"entries", "", "that are taken"}, set.entries);
  f({"ended", "", "whose time is over"}, set.ended);
  f.array({"left_out", "", "what weir has no entry for"}, set.left_out, "left out");
  f.unless_empty({"exceptions", "", "`nomatch`"}, set.exceptions);
  f.unless_empty({"error", "", "why nothing of it is taken"}, set.error);
}

void members(Fields& f, ListResult& list) {
  f({"list", "", "its name"}, list.list);
  f({"wanted", "", "entries that it is to get"}, list.wanted);
  f({"added", "", "entries that were not there"}, list.added);
  f({"renewed", "", "that were: they have the new time to live and comment"}, list.renewed);
  f({"entries", "", "that the list has of add now"}, list.entries);
  f.unless_empty({"error", "", "why it was not changed, or that not every target has it"}, list.error);
}

void members(Fields& f, RestoreAnswer& answer) {
  f({"ok", "", "all entries of all sets are enforced; after --dry-run: could be taken"}, answer.ok);
  f({"dry_run", "", "nothing was changed"}, answer.dry_run);
  f.array({"sets", "", "in the order of the file"}, answer.sets, "restored set");
  f.array({"lists", "", "each is one change"}, answer.lists, "restored list");
  f.unless_empty({"policy", "", "lines of YAML for lists that are not there"}, answer.policy);
}

// --- reading ---

Result<void> read_sets(const Arguments& arguments, feeds::NamedSets& sets) {
  const bool is_stdin = arguments.file == "-";
  const Fd opened(is_stdin ? -1 : open(arguments.file.c_str(), O_RDONLY | O_CLOEXEC));
  const int fd = is_stdin ? STDIN_FILENO : opened.get();
  struct stat about {};
  if (fd < 0 || fstat(fd, &about) != 0) return errno_error("cannot open " + arguments.file);
  feeds::Options options;
  options.sets = &sets;
  options.written = static_cast<uint32_t>(S_ISREG(about.st_mode) ? about.st_mtim.tv_sec : unix_now());
  feeds::Reading reading(feeds::find_format(arguments.format), options);
  ListDraft read_so_far;
  const auto take = [&](std::string_view bytes, bool is_end) {
    for (bool more = reading.read(bytes, is_end, read_so_far); more;) more = reading.read({}, is_end, read_so_far);
    read_so_far.v4.clear();  // the sets have them
    read_so_far.v6.clear();
  };
  std::vector<char> part(feeds::kMostTextBytes);
  while (true) {
    const ssize_t got = read(fd, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error("cannot read " + arguments.file);
    if (got == 0) break;
    take({part.data(), static_cast<size_t>(got)}, false);
  }
  take({}, true);
  const std::string name = is_stdin ? "stdin" : arguments.file;
  // JSON holds no set that is read here, whatever is wrong with it.
  const bool is_json = reading.format() != nullptr && reading.format()->is_json;
  if (read_so_far.fault && !is_json) {
    return Error{name + " " + read_so_far.fault->reason + "\nhint: " + read_so_far.fault->hint};
  }
  if (sets.has_too_many()) {
    return Error{
        fmt::format("{} has more than {} sets\nhint: restore them in parts", name, feeds::NamedSets::kMostSets)};
  }
  const bool has_sets =
      std::any_of(sets.all().begin(), sets.all().end(), [](const auto& set) { return !set.name.empty(); });
  if (!has_sets) {
    return Error{fmt::format("{} holds no set of ipset or nftables\nhint: {}", name,
                             is_json ? "it is JSON: print the sets without -j"
                                     : "give it what `ipset save` or `nft list ruleset` prints, and --format when it "
                                       "is taken for something else")};
  }
  return {};
}

// --- the change ---

// Of each dynamic list. Empty: said already.
std::optional<std::vector<ListDetails>> known_lists(const Context& context, int& code) {
  const std::optional<Document> document = ask(context, Request{"list"});
  if (!document) return code = kUnreachable, std::nullopt;
  if (document->contains("error")) {
    (void)is_printed(context, *document);
    return code = kFailed, std::nullopt;
  }
  Result<ListAnswer> answer = read_json<ListAnswer>(*document);
  if (!answer) return code = not_understood(answer.error()), std::nullopt;
  return std::move(answer->lists);
}

// Why the list cannot take anything; empty: it can.
std::string why_not(const std::string& name, const std::vector<ListDetails>& lists) {
  const auto list =
      std::find_if(lists.begin(), lists.end(), [&](const ListDetails& each) { return each.name == name; });
  if (list == lists.end()) return "there is no list " + name;
  if (!list->dynamic) return fmt::format("list {} is not dynamic\nhint: write `dynamic: true` in it, and reload", name);
  return "";
}

ListResult change_list(const Context& context, const RestoredList& list, int& code) {
  Request wanted{"add"};
  wanted.name = list.name;
  wanted.entries = list.entries;
  wanted.ttls = list.ttls;
  wanted.comments = list.comments;
  ListResult result;
  result.list = list.name;
  result.wanted = list.entries.size();
  const std::optional<Document> document = ask({context.socket, false}, wanted);
  if (!document) {
    code = kUnreachable;
    result.error = "controld cannot be reached any more";
    return result;
  }
  if (const Result<ChangeAnswer> answer = read_json<ChangeAnswer>(*document)) {
    result.added = answer->counts.added;
    result.renewed = answer->counts.renewed;
    result.entries = answer->entries;
    result.error = answer->error;
    if (!answer->ok && code == kOk) code = kNotAcknowledged;
    return result;
  }
  result.error = document->text("error").value_or("the answer of controld is not understood");
  code = kFailed;
  return result;
}

// --- for people ---

std::string indented(const std::string& text) {
  std::string lines = text;
  for (size_t at = 0; (at = lines.find('\n', at)) != std::string::npos; at++) lines.insert(at + 1, "  ");
  return lines;
}

// Two streams that a reader sees as one text, in this order.
FILE* after_stdout() {
  std::fflush(stdout);
  return stderr;
}

void show_set(const SetAnswer& set) {
  const std::string type = set.type.empty() ? "" : " (" + set.type + ")";
  const std::string name = set.set.empty() ? "outside of all sets" : "set " + set.set + type;
  if (!set.error.empty()) {
    print(after_stdout(), "{}: nothing is taken: {}\n", name, indented(set.error));
  } else {
    print("{}: {} for list {}\n", name, plural(set.entries, "entry", "entries"), set.list);
  }
  if (set.ended != 0) print("  {} whose time is over\n", plural(set.ended, "entry", "entries"));
  for (const SetAnswer::LeftOutAnswer& one : set.left_out) {
    std::string first;
    for (const std::string& text : one.first) first += (first.empty() ? "" : ", ") + text;
    print(after_stdout(), "  {} left out: {}: {}{}\n", plural(one.entries, "entry", "entries"), one.reason, first,
          one.entries > one.first.size() ? ", ..." : "");
  }
}

void show(const RestoreAnswer& answer) {
  for (const SetAnswer& set : answer.sets) show_set(set);
  for (const ListResult& list : answer.lists) {
    if (answer.dry_run) {
      print("list {} would get {}\n", list.list, plural(list.wanted, "entry", "entries"));
    } else if (list.added + list.renewed == 0 && !list.error.empty()) {
      print(after_stdout(), "list {}: nothing was changed: {}\n", list.list, list.error);
    } else {
      print("list {}: {} added, {} renewed; {} added to it now\n", list.list, plural(list.added, "entry", "entries"),
            count(list.renewed), plural(list.entries, "entry", "entries"));
      if (!list.error.empty()) print(after_stdout(), "controlctl: {}\n", list.error);
    }
  }
  if (answer.policy.empty()) return;
  print(stderr,
        "hint: for sets without a list write these lines below `lists:` in weir.yaml, reload, and restore again:\n{}",
        answer.policy);
}

SetAnswer answer_of(const RestoredSet& set) {
  SetAnswer answer{set.name, set.type, set.list, set.entries, set.ended, {}, set.exceptions, set.refused};
  for (const feeds::LeftOut& one : set.left_out) answer.left_out.push_back({one.why, one.n, one.first});
  return answer;
}

// Sets whose list is not there are told so, and their lists are taken out of the plan. Returns the lists' names.
std::vector<std::string> refuse_without_list(RestorePlan& plan, const std::vector<ListDetails>& known) {
  std::vector<std::string> missing;
  const auto is_out = [&](const RestoredList& list) {
    const std::string why = why_not(list.name, known);
    if (why.empty()) return false;
    if (why.find("hint") == std::string::npos) missing.push_back(list.name);
    for (RestoredSet& set : plan.sets) {
      if (set.list != list.name || !set.refused.empty()) continue;
      set.refused = why;
      set.entries = 0;
    }
    return true;
  };
  plan.lists.erase(std::remove_if(plan.lists.begin(), plan.lists.end(), is_out), plan.lists.end());
  return missing;
}

int run(const Context& context, const Arguments& arguments) {
  feeds::NamedSets sets;
  const Result<void> read = read_sets(arguments, sets);
  Result<RestorePlan> plan =
      read ? plan_restore(sets.all(), arguments.options, unix_now()) : Result<RestorePlan>(Error{read.error()});
  if (!plan) {
    if (context.json) print("{}", failure_line(plan.error()));
    print(stderr, "controlctl: {}\n", plan.error());
    return kFailed;
  }
  RestoreAnswer answer;
  answer.dry_run = arguments.dry_run;
  int code = kOk;
  if (!arguments.dry_run) {
    const std::optional<std::vector<ListDetails>> known = known_lists(context, code);
    if (!known) return code;
    answer.policy = lines_of_policy(refuse_without_list(*plan, *known));
  }
  for (const RestoredList& list : plan->lists) {
    if (arguments.dry_run) {
      answer.lists.push_back({list.name, list.entries.size(), 0, 0, 0, ""});
    } else if (code == kUnreachable) {
      answer.lists.push_back({list.name, list.entries.size(), 0, 0, 0, "controld cannot be reached any more"});
    } else {
      answer.lists.push_back(change_list(context, list, code));
    }
  }
  for (const RestoredSet& set : plan->sets) {
    answer.sets.push_back(answer_of(set));
    const bool is_whole = set.refused.empty() && set.left_out.empty();
    if (!is_whole && (code == kOk || code == kNotAcknowledged)) code = kFailed;
  }
  answer.ok = code == kOk;
  context.json ? print("{}", answer_line(answer)) : show(answer);
  return code;
}

Run configure(Options& options) {
  auto arguments = std::make_shared<Arguments>();
  options
      .argument("FILE", arguments->file,
                "what `ipset save`, `nft list ruleset` or `nft list set` printed; default: stdin, as - says, too")
      .files();
  options.text("--list", "NAME", arguments->options.list,
               "all sets go into this list; default: each into the list of its name");
  options.texts("--set", "NAME", arguments->options.sets, "only this set; may be given several times");
  options.text("--format", "NAME", arguments->format, "what FILE is, where it cannot be told by its text")
      .one_of({"auto", "ipset", "nft"});
  options.flag("--ignore-exceptions", arguments->options.ignore_exceptions,
               "take sets with `nomatch` entries, without these");
  options.flag("--dry-run", arguments->dry_run, "only say what would be done; needs no controld");
  return [arguments](const Context& context) { return run(context, *arguments); };
}

}  // namespace cmd_restore

const Command kRestore = {
    "restore",
    Group::change,
    "add the entries of ipset's or nftables' sets to dynamic lists, with their times and comments",
    "Entries keep the rest of their time, and their comments. Each list is one change: it gets all of its entries, or "
    "none. What weir has no entry for (ports, MAC addresses, interfaces, exceptions) is left out, counted and shown. "
    "A list must be in the policy with `dynamic: true`; for those that are not, the lines to write are shown.\n\n"
    "Exit code 1 says that something was left out or not done, 3 that not every target has the entries yet.",
    cmd_restore::configure,
    [](MemberTable& table) { table.add<cmd_restore::RestoreAnswer>("restore"); }};

}  // namespace weir::control::ctl
