#include <algorithm>
#include <cstdio>

#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/tell/answer/stats.h"

namespace weir::control::ctl {

namespace cmd_stats {

std::string share(uint64_t part, uint64_t whole) {
  return whole == 0 ? "" : percent(static_cast<double>(part) / static_cast<double>(whole));
}

void show(const StatsAnswer& answer) {
  Table totals({{"counter"}, {"total", Table::Align::right}, {"of packets", Table::Align::right}});
  for (const TotalRow& row : totals_rows()) {
    const uint64_t value = answer.totals.*row.member;
    const bool counts_frames = row.member != &wire::Totals::bytes;
    totals.row({row.name, count(value), counts_frames ? share(value, answer.totals.packets) : ""});
  }
  print("{}", totals.text());
  if (answer.capture.on) print("\ncapture: {}\n", capture_text(answer.capture));

  Table lists({{"list"},
               {"matched", Table::Align::right},
               {"dropped", Table::Align::right},
               {"passed", Table::Align::right},
               {"would drop", Table::Align::right},
               {"dropped bytes", Table::Align::right}});
  for (const auto& [name, list] : answer.lists) {
    const bool former = std::find(answer.former.begin(), answer.former.end(), name) != answer.former.end();
    lists.row({former ? name + " (former)" : name, count(list.matched), count(list.dropped), count(list.passed),
               count(list.would_drop), bytes(list.dropped_bytes)});
  }
  if (!lists.empty()) print("\n{}", lists.text());

  Table targets({{"target"}, {"packets", Table::Align::right}, {"generation"}, {"counts since"}, {"updated"}});
  for (const TargetStats& target : answer.targets) {
    targets.row({target.socket, count(target.totals.packets), generation_text(target.generation),
                 age(static_cast<int64_t>(target.start_time)),
                 target.fresh       ? "now"
                 : target.connected ? "earlier: it does not answer"
                                    : "earlier: it is away"});
  }
  if (!targets.empty()) print("\n{}", targets.text());
}

Run configure(Options&) {
  return [](const Context& context) { return request(context, {"stats"}, show); };
}

}  // namespace cmd_stats

const Command kStats = {
    "stats",
    Group::look,
    "counters since the data planes started: verdicts, reasons, lists",
    "Sums over the targets. A target that does not answer within a second counts with what it told last.",
    cmd_stats::configure,
    [](MemberTable& table) { table.add<StatsAnswer>("stats"); }};

}  // namespace weir::control::ctl
