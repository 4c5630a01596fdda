#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "common/clock.h"
#include "common/own_folder.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/policy/model/time_text.h"
#include "control/tell/answer/list.h"

namespace weir::control::ctl {

namespace cmd_list {

void show(const ListAnswer& answer) {
  std::vector<Table::Column> columns = {{"list"},
                                        {"action"},
                                        {"mode"},
                                        {"match"},
                                        {"entries", Table::Align::right},
                                        {"v4", Table::Align::right},
                                        {"v6", Table::Align::right},
                                        {"flows", Table::Align::right},
                                        {"bad lines", Table::Align::right},
                                        {"feed"}};
  const bool has_comments = std::any_of(answer.lists.begin(), answer.lists.end(),
                                        [](const ListDetails& list) { return !list.comment.empty(); });
  if (has_comments) columns.push_back({"comment"});
  Table table(columns);
  for (const ListDetails& list : answer.lists) {
    std::vector<std::string> cells = {list.name,
                                      list.action,
                                      list.mode,
                                      directions_text(list.match),
                                      count(list.entries),
                                      count(list.v4),
                                      count(list.v6),
                                      count(list.flows),
                                      list.feed ? count(list.feed->bad) : "",
                                      list.feed ? list.feed->path : ""};
    if (has_comments) cells.push_back(list.comment);
    table.row(std::move(cells));
  }
  print("{}", table.text());
}

void show_feed(const FeedReport& feed) {
  print("\nfeed {}: {}, {}, {}, {} skipped\n", feed.path, plural(feed.lines, "line"),
        plural(feed.entries, "entry", "entries"), plural(feed.bad, "bad line"), count(feed.skipped));
  for (const LineSample& line : feed.samples) {
    const std::string kind =
        line.kind == LineSample::host_bits ? "" : fmt::format(" {}", LineSample::kNames[line.kind]);
    print("  line {}{}: {}: {}\n", line.line, kind, line.reason, line.text);
  }
}

// One list: also what became of its IPv6 hosts, and what is wrong with its feed.
void show_one(const ListAnswer& answer) {
  show(answer);
  for (const ListDetails& list : answer.lists) {
    if (list.widened) {
      print("\n{} widened to /{}\n", plural(list.widened->ipv6_widened, "IPv6 address", "IPv6 addresses"),
            list.widened->ipv6_aggregate);
    }
    if (list.feed) show_feed(*list.feed);
    if (!list.files) continue;
    for (const FeedReport& file : *list.files) show_feed(file);
  }
}

std::string time_left(uint32_t expires) {
  const int64_t seconds = int64_t{expires} - unix_now();
  if (seconds <= 0) return "ended";
  return duration(static_cast<uint64_t>(seconds));
}

void show_entries(const EntriesAnswer& answer) {
  Table table({{"entry"}, {"match"}, {"written at"}, {"ends in"}, {"added"}, {"by"}, {"comment"}});
  for (const EntryDetails& entry : answer.entries) {
    const std::string place = entry.line == 0 ? entry.file : fmt::format("{}:{}", entry.file, entry.line);
    const std::string as = entry.enforced_as.empty() ? "" : " as " + entry.enforced_as;
    std::vector<std::string> cells = {entry.entry + as, entry.match == 0 ? "" : directions_text(entry.match), place,
                                      entry.expires ? time_left(*entry.expires) : ""};
    if (entry.added) {
      cells.insert(cells.end(), {age(entry.added->at), user_text(entry.added->by), entry.added->comment});
    } else {
      cells.resize(7);
    }
    table.row(std::move(cells));
  }
  if (!table.empty()) print("{}", table.text());
}

// The first of the list's entries, for a look.
int show_first_entries(const Context& context, const std::string& name) {
  constexpr size_t kMost = 20;
  Request wanted{"entries"};
  wanted.name = name;
  const std::optional<Document> document = ask(context, wanted);
  if (!document) return kUnreachable;
  Result<EntriesAnswer> answer = read_json<EntriesAnswer>(*document);
  if (!answer) return not_understood(answer.error());
  const bool has_more = answer->entries.size() > kMost || document->text("next");
  answer->entries.resize(std::min(answer->entries.size(), kMost));
  if (answer->entries.empty()) return kOk;
  print("\n");
  show_entries(*answer);
  if (has_more) print("... all of them: controlctl list {} --entries\n", name);
  return kOk;
}

Run configure(Options& options) {
  auto name = std::make_shared<std::string>();
  auto entries = std::make_shared<bool>(false);
  options.argument("NAME", *name,
                   "only this list, with its first entries, and samples of its feed's bad and skipped lines");
  options.flag("--entries", *entries,
               "all entries of the list, those that were added with their age, end, user, comment");
  options.needs("--entries", "NAME");
  return [name, entries](const Context& context) {
    Request wanted{*entries ? "entries" : "list"};
    if (!name->empty()) wanted.name = *name;
    if (*entries) return request_pages<EntriesAnswer>(context, wanted, show_entries);
    const int code = request(context, wanted, name->empty() ? show : show_one);
    return name->empty() || context.json || code != kOk ? code : show_first_entries(context, *name);
  };
}

}  // namespace cmd_list

const Command kList = {"list",
                       Group::everyday,
                       "the lists that are enforced; with NAME, what is in one",
                       "With --entries and --json every line is a page, an object of its own.",
                       cmd_list::configure,
                       [](MemberTable& table) {
                         table.add<ListAnswer>("list");
                         table.add<EntriesAnswer>("entries");
                       },
                       false,
                       "show ls"};

}  // namespace weir::control::ctl
