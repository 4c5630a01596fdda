#include <fmt/format.h>

#include <cstdio>

#include "control/ctl/command.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"

namespace weir::control::ctl {

namespace {

void show(const Json& answer) {
  std::fflush(stdout);
  print_diagnostics(answer.at("diagnostics"));
  const uint64_t errors = answer.at("errors").get<uint64_t>();
  const std::string running = generation_text(answer.at("generation"));
  const bool published = !answer.at("targets").empty() || answer.at("ok").get<bool>();
  if (!published) {
    const std::string reason = errors != 0 ? plural(errors, "error") + " in the policy" : answer.value("error", "");
    fmt::print(stderr, "reload failed: {}\nstill enforced: generation {}\n", reason, running);
    return;
  }
  Table phases({{"phase"}, {"time", Table::Align::right}});
  for (const auto& [name, ms] : answer.at("phases").items()) phases.row({name, milliseconds(ms.get<double>())});
  phases.row({"total", milliseconds(answer.at("total_ms").get<double>())});
  fmt::print("{}\n", phases.text());
  fmt::print("generation {}: {}, {} snapshot\n", running,
             plural(answer.at("entries").get<uint64_t>(), "entry", "entries"),
             bytes(answer.at("snapshot_bytes").get<uint64_t>()));
  print_targets(answer.at("targets"));
  if (answer.contains("error")) fmt::print(stderr, "reload: {}\n", answer.at("error").get<std::string>());
}

int run(const Context& context) {
  return request(context, {{"command", "reload"}}, show);
}

}  // namespace

const Command kReload = {"reload", "read the policy again, compile and publish it; waits for every target", nullptr,
                         run};

}  // namespace weir::control::ctl
