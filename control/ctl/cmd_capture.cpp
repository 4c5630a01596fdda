#include <fmt/format.h>

#include <cstdio>

#include "control/ctl/command.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"

namespace weir::control::ctl {

namespace {

std::string seconds_text(uint64_t seconds) {
  for (const auto& [unit, name] : {std::pair{86400u, 'd'}, std::pair{3600u, 'h'}, std::pair{60u, 'm'}}) {
    if (seconds % unit == 0) return fmt::format("{}{}", seconds / unit, name);
  }
  return fmt::format("{}s", seconds);
}

void show(const Json& answer) {
  const auto number = [&](const char* name) { return answer.at(name).get<uint64_t>(); };
  const auto text = [&](const char* name) { return answer.at(name).get<std::string>(); };
  fmt::print("capture     {}\n", capture_text(answer));
  if (!answer.at("on").get<bool>()) return;
  fmt::print("samples     1 in {} dropped frames, at most {} of a list a second, {} of each\nfilter      {}\n",
             count(number("one_in")), count(number("per_list_per_second")), bytes(number("snap_bytes")),
             text("filter").empty() ? "none" : text("filter"));
  fmt::print("folder      {}\nfiles       at most {} of {} or {}\nwriting     {}\n", text("folder"), number("files"),
             bytes(number("file_bytes")), seconds_text(number("file_age_s")),
             text("current").empty() ? "nothing yet" : text("current"));
  Table counters({{"counter"}, {"samples", Table::Align::right}});
  for (const char* name : {"sampled", "written", "filtered", "limited", "lost", "waiting"}) {
    counters.row({name, count(number(name))});
  }
  fmt::print("\n{}", counters.text());
  for (const Json& target : answer.at("targets")) {
    const std::string error = target.at("last_error").get<std::string>();
    if (!error.empty()) fmt::print("{}: {}\n", target.at("socket").get<std::string>(), error);
  }
}

int run(const Context& context) {
  return request(context, {{"command", "capture"}}, show);
}

}  // namespace

const Command kCapture = {"capture", "what becomes of the samples of dropped frames", nullptr, run};

}  // namespace weir::control::ctl
