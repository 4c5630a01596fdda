#include <fmt/format.h>

#include "common/own_folder.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/policy/model/time_text.h"
#include "control/tell/answer/change.h"

namespace weir::control::ctl {

namespace cmd_history {

// bans +2 -1, drop +100; the first ones
std::string changes_text(const std::vector<ListChange>& changes) {
  constexpr size_t kMostShown = 4;
  std::string text;
  for (size_t i = 0; i < changes.size() && i < kMostShown; i++) {
    const ListChange& change = changes[i];
    text += fmt::format("{}{}", text.empty() ? "" : ", ", change.name);
    if (change.state != "changed") text += " " + change.state;
    if (change.added != 0) text += " +" + count(change.added);
    if (change.removed != 0) text += " -" + count(change.removed);
  }
  if (changes.size() > kMostShown) text += fmt::format(" and {} more", changes.size() - kMostShown);
  return text.empty() ? "-" : text;
}

std::string cause_text(const std::string& cause) {
  if (cause == "asked for") return "reload";
  return cause == "a new base for the overlay" ? "merged in the background" : cause;
}

void show(const HistoryAnswer& answer) {
  Table table({{"generation", Table::Align::right}, {"time"}, {"ago"}, {"cause"}, {"by"}, {"changes"}, {"rollback"}});
  for (const HistoryRow& row : answer.generations) {
    const bool runs = row.number == answer.generation.number;
    table.row({std::to_string(row.number), time_text(static_cast<uint32_t>(row.at)), age(row.at), cause_text(row.cause),
               row.uid == kNobody ? "" : user_text(row.uid), changes_text(row.changes),
               runs       ? "runs"
               : row.kept ? "possible"
                          : "not kept"});
  }
  print("{}", table.text());
  if (!answer.notice.empty()) print("\n{}\n", answer.notice);
}

Run configure(Options&) {
  return [](const Context& context) { return request(context, {"history"}, show); };
}

}  // namespace cmd_history

const Command kHistory = {"history",
                          Group::look,
                          "what was published, when, why, and what it changed",
                          "The newest 200. What is kept, and for how long, is `history` of the policy.",
                          cmd_history::configure,
                          [](MemberTable& table) { table.add<HistoryAnswer>("history"); }};

}  // namespace weir::control::ctl
