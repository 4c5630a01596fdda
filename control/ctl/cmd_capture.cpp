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

void show(const CaptureState& state) {
  print("capture     {}\n", capture_text(state));
  if (!state.files) return;
  const CaptureSettings& asked = state.files->settings;
  const std::string& current = state.files->current;
  print("samples     1 in {} dropped frames, at most {} of a list a second, {} of each\nfilter      {}\n",
        count(asked.one_in), count(asked.per_list_per_second), bytes(asked.snap_bytes),
        asked.filter.empty() ? "none" : asked.filter);
  print("folder      {}\nfiles       at most {} of {} or {}\nwriting     {}\n", asked.folder, count(asked.files),
        bytes(asked.file_bytes), seconds_text(asked.file_age_s), current.empty() ? "nothing yet" : current);
  std::vector<std::string> targets;
  for (const CaptureState::Target& target : state.files->targets) targets.push_back(target.socket);
  print("targets     {}\n", joined(targets));
  const CaptureCounts& counts = state.counts;
  Table counters({{"counter"}, {"samples", Table::Align::right}});
  counters.row({"sampled", count(counts.sampled)});
  counters.row({"written", count(counts.written)});
  counters.row({"filtered", count(counts.filtered)});
  counters.row({"limited", count(counts.limited)});
  if (counts.logged != 0) counters.row({"logged", count(counts.logged)});
  counters.row({"lost", count(counts.lost)});
  counters.row({"waiting", count(counts.waiting)});
  print("\n{}", counters.text());
  for (const CaptureState::Target& target : state.files->targets) {
    if (!target.error.empty()) print("{}: {}\n", target.socket, target.error);
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
                          [](MemberTable& table) { table.add<CaptureState>("capture"); }};

}  // namespace weir::control::ctl
