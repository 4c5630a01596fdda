#include <fmt/format.h>

#include <cstdio>
#include <utility>

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

// page 12, line 3: bits 5 77; line 9: bits 0 64
std::string place_of(const Json& probe) {
  std::string text = fmt::format("page {}, ", probe.at("page").get<uint64_t>());
  const bool ribbon = probe.at("layout") == "ribbon";
  const char* separator = "";
  for (const Json& line : probe.at("lines")) {
    text += fmt::format("{}line {}: bits", std::exchange(separator, "; "), line.at("line").get<uint64_t>());
    for (const Json& bit : line.at("bits")) text += " " + std::to_string(bit.get<uint32_t>());
    if (ribbon) text += " of each word";
  }
  return text;
}

// What the filter said: bits that are set, or a ribbon's that add up to zero.
const char* answer_of(const Json& probe) {
  const bool ribbon = probe.at("layout") == "ribbon";
  if (!probe.at("filter_hit").get<bool>()) return ribbon ? "they do not add up" : "not set";
  if (probe.at("rule").get<uint64_t>() == 0)
    return ribbon ? "they add up (false positive)" : "all set (false positive)";
  return ribbon ? "they add up" : "all set";
}

void show(const Json& answer) {
  fmt::print("{} in generation {}\n\n", answer.at("key").get<std::string>(), generation_text(answer.at("generation")));
  show_verdict("source", answer.at("as_source"));
  show_verdict("destination", answer.at("as_destination"));

  for (const Json& probe : answer.at("probes")) {
    const uint64_t rule = probe.at("rule").get<uint64_t>();
    fmt::print("\nshape {}: key {}\n  filter  {}, {}: {}\n", probe.at("shape").get<std::string>(),
               probe.at("key").get<std::string>(), probe.at("layout").get<std::string>(), place_of(probe),
               answer_of(probe));
    if (rule != 0) {
      fmt::print("  exact   rule {}: lists as source: {}; as destination: {}\n", rule, joined(probe.at("source_lists")),
                 joined(probe.at("destination_lists")));
    }
    for (const Json& condition : probe.at("conditions")) {
      fmt::print("  asks    as {}, {}: lists {}\n", condition.at("side").get<std::string>(),
                 condition.at("condition").get<std::string>(), joined(condition.at("lists")));
    }
  }
  if (answer.at("probes").empty()) fmt::print("\nno shape of this snapshot looks at such a key\n");

  if (!answer.at("flow_shapes").empty()) {
    fmt::print("\nshapes that need more of a packet than this key: {}\n", joined(answer.at("flow_shapes")));
  }

  Table origins({{"list"}, {"entry"}, {"match"}, {"written at"}});
  for (const Json& origin : answer.at("origins")) {
    origins.row({origin.at("list").get<std::string>(), origin.at("entry").get<std::string>(),
                 joined(origin.at("directions")),
                 fmt::format("{}:{}", origin.at("file").get<std::string>(), origin.at("line").get<uint32_t>())});
  }
  if (!origins.empty()) fmt::print("\n{}", origins.text());
  const size_t shown = answer.at("origins").size(), all = answer.at("n_origins").get<size_t>();
  if (shown < all) fmt::print("... and {} more\n", all - shown);
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
