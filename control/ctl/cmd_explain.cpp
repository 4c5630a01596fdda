#include <fmt/format.h>

#include <cstdio>

#include <CLI/CLI.hpp>

#include "control/ctl/command.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"

// Walks a key through the running generation: key -> shapes -> page, line, bits -> rule -> lists -> file and line.
namespace weir::control::ctl {

namespace {

void show_verdict(const char* side, const Json& verdict) {
  fmt::print("as {:<12} {} ({}){}\n", side, verdict.at("action").get<std::string>(),
             verdict.at("reason").get<std::string>(),
             verdict.at("monitored").empty() ? "" : "; monitored by " + joined(verdict.at("monitored")));
}

std::string place_of(const Json& probe) {
  std::string bits;
  for (const Json& bit : probe.at("bits")) bits += (bits.empty() ? "" : " ") + std::to_string(bit.get<uint32_t>());
  return fmt::format("page {}, line {}, bits {}", probe.at("page").get<uint64_t>(), probe.at("line").get<uint64_t>(),
                     bits);
}

void show(const Json& answer) {
  fmt::print("{} in generation {}\n\n", answer.at("key").get<std::string>(), generation_text(answer.at("generation")));
  show_verdict("source", answer.at("as_source"));
  show_verdict("destination", answer.at("as_destination"));

  for (const Json& probe : answer.at("probes")) {
    const uint64_t rule = probe.at("rule").get<uint64_t>();
    fmt::print("\nshape {}: key {}\n  filter  {}: {}\n", probe.at("shape").get<std::string>(),
               probe.at("key").get<std::string>(), place_of(probe),
               !probe.at("filter_hit").get<bool>() ? "not set"
               : rule == 0                         ? "all set (false positive)"
                                                   : "all set");
    if (rule != 0) {
      fmt::print("  exact   rule {}: lists as source: {}; as destination: {}\n", rule, joined(probe.at("source_lists")),
                 joined(probe.at("destination_lists")));
    }
  }
  if (answer.at("probes").empty()) fmt::print("\nno shape of this snapshot looks at such a key\n");

  Table origins({{"list"}, {"entry"}, {"match"}, {"written at"}});
  for (const Json& origin : answer.at("origins")) {
    origins.row({origin.at("list").get<std::string>(), origin.at("entry").get<std::string>(),
                 joined(origin.at("directions")),
                 fmt::format("{}:{}", origin.at("file").get<std::string>(), origin.at("line").get<uint32_t>())});
  }
  if (!origins.empty()) fmt::print("\n{}", origins.text());
}

int run(const Context& context) {
  return request(context, {{"command", "explain"}, {"key", context.key}}, show);
}

void options(CLI::App& app, Context& context) {
  app.add_option("KEY", context.key, "an address, a.b.c.d:port or [v6]:port")->required();
}

}  // namespace

const Command kExplain = {"explain", "why an address drops or passes: filter bits, rule, lists, file and line", options,
                          run};

}  // namespace weir::control::ctl
