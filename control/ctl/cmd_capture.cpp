#include <fmt/format.h>

#include <cstdio>

#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/tell/answer/stats.h"

namespace weir::control::ctl {

namespace cmd_capture {

std::string seconds_text(uint64_t seconds) {
  for (const auto& [unit, name] : {std::pair{86400u, 'd'}, std::pair{3600u, 'h'}, std::pair{60u, 'm'}}) {
    if (seconds % unit == 0) return fmt::format("{}{}", seconds / unit, name);
  }
  return fmt::format("{}s", seconds);
}

void show(const CaptureAnswer& answer) {
  print("capture     {}\n", capture_text(answer));
  if (!answer.settings) return;
  const CaptureSettings& asked = answer.settings->asked;
  const std::string& current = answer.settings->current;
  print("samples     1 in {} dropped frames, at most {} of a list a second, {} of each\nfilter      {}\n",
        count(asked.one_in), count(asked.per_list_per_second), bytes(asked.snap_bytes),
        asked.filter.empty() ? "none" : asked.filter);
  print("folder      {}\nfiles       at most {} of {} or {}\nwriting     {}\n", asked.folder, count(asked.files),
        bytes(asked.file_bytes), seconds_text(asked.file_age_s), current.empty() ? "nothing yet" : current);
  std::vector<std::string> targets;
  for (const CaptureAnswer::Target& target : answer.settings->targets) targets.push_back(target.socket);
  print("targets     {}\n", joined(targets));
  Table counters({{"counter"}, {"samples", Table::Align::right}});
  counters.row({"sampled", count(answer.sampled)});
  counters.row({"written", count(answer.written)});
  counters.row({"filtered", count(answer.filtered)});
  counters.row({"limited", count(answer.limited)});
  if (answer.logged != 0) counters.row({"logged", count(answer.logged)});
  counters.row({"lost", count(answer.lost)});
  counters.row({"waiting", count(answer.waiting)});
  print("\n{}", counters.text());
  for (const CaptureAnswer::Target& target : answer.settings->targets) {
    if (!target.last_error.empty()) print("{}: {}\n", target.socket, target.last_error);
  }
}

Run configure(Options&) {
  return [](const Context& context) { return request(context, {"capture"}, show); };
}

}  // namespace cmd_capture

const Command kCapture = {"capture",
                          Group::look,
                          "what becomes of the samples of dropped frames",
                          "The policy says what is sampled, in its section capture.",
                          cmd_capture::configure,
                          [](MemberTable& table) { table.add<CaptureAnswer>("capture"); }};

}  // namespace weir::control::ctl
