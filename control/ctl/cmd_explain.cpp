#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "control/answer/explain_answer.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"

// Walks a key through the running generation: key -> shapes -> page, line, bits -> rule -> lists -> file and line.
namespace weir::control::ctl {

namespace {

void show_verdict(const char* side, const Verdict& verdict) {
  fmt::print("as {:<12} {} ({}){}\n", side, verdict.action, verdict.reason,
             verdict.monitored.empty() ? "" : "; monitored by " + joined(verdict.monitored));
}

// page 12, line 3: bits 5 77; line 9: bits 0 64
std::string place_of(const ShapeProbe& probe) {
  std::string text = fmt::format("page {}, ", probe.place.page);
  const bool ribbon = probe.layout == "ribbon";
  const char* separator = "";
  for (const LineBits& line : probe.place.lines) {
    text += fmt::format("{}line {}: bits", std::exchange(separator, "; "), line.line);
    for (const uint32_t bit : line.bits) text += " " + std::to_string(bit);
    if (ribbon) text += " of each word";
  }
  return text;
}

// What the filter said: bits that are set, or a ribbon's that add up to zero.
const char* answer_of(const ShapeProbe& probe) {
  const bool ribbon = probe.layout == "ribbon";
  if (!probe.filter_hit) return ribbon ? "they do not add up" : "not set";
  if (probe.rule == 0) return ribbon ? "they add up (false positive)" : "all set (false positive)";
  return ribbon ? "they add up" : "all set";
}

void show_origins(const std::vector<Origin>& origins, size_t all) {
  Table table({{"list"}, {"entry"}, {"match"}, {"written at"}});
  for (const Origin& origin : origins) {
    table.row({origin.list, origin.entry, directions_text(origin.directions),
               fmt::format("{}:{}", origin.file, origin.line)});
  }
  if (!table.empty()) fmt::print("\n{}", table.text());
  if (origins.size() < all) fmt::print("... and {} more\n", all - origins.size());
}

void show(const PacketExplanation& explanation) {
  const Verdict& verdict = explanation.verdict;
  fmt::print("{} ({}){}\n", verdict.action, verdict.reason,
             verdict.monitored.empty() ? "" : "; monitored by " + joined(verdict.monitored));
  if (verdict.matched.empty()) fmt::print("no list matches it\n");
  show_origins(explanation.origins, explanation.n_origins);
}

void show(const Explanation& explanation) {
  show_verdict("source", explanation.as_source);
  show_verdict("destination", explanation.as_destination);

  for (const ShapeProbe& probe : explanation.probes) {
    fmt::print("\nshape {}: key {}\n  filter  {}, {}: {}\n", probe.shape, probe.key, probe.layout, place_of(probe),
               answer_of(probe));
    if (probe.rule != 0) {
      fmt::print("  exact   rule {}: lists as source: {}; as destination: {}\n", probe.rule, joined(probe.source_lists),
                 joined(probe.destination_lists));
    }
    for (const ShapeCondition& condition : probe.conditions) {
      fmt::print("  asks    as {}, {}: lists {}\n", condition.side, condition.text, joined(condition.lists));
    }
  }
  const bool named = !explanation.origins.empty() || !explanation.of_ports.empty();
  if (explanation.probes.empty()) {
    fmt::print("\n{}\n", named ? "no entry names it alone: those below ask for more of a packet"
                               : "no shape of this snapshot looks at such a key");
  }
  if (!explanation.flow_shapes.empty()) {
    fmt::print("\nshapes that need more of a packet than this key: {}\n", joined(explanation.flow_shapes));
  }
  show_origins(explanation.origins, explanation.n_origins);
  if (explanation.of_ports.empty()) return;
  fmt::print("\nwith a port:\n");
  show_origins(explanation.of_ports, explanation.n_of_ports);
}

void show_answer(const ExplainAnswer& answer) {
  const std::string what = answer.of_packet ? answer.of_packet->packet : answer.of_key ? answer.of_key->key : "";
  fmt::print("{} in generation {}\n\n", what, generation_text(answer.generation));
  if (answer.of_packet) show(*answer.of_packet);
  if (answer.of_key) show(*answer.of_key);
}

Run configure(Options& options) {
  auto key = std::make_shared<std::string>();
  options
      .argument("KEY", *key,
                "an address, a.b.c.d:port, [v6]:port, or a packet: 'src 10.0.0.1 dst 203.0.113.9 proto tcp dport 443'")
      .required();
  return [key](const Context& context) {
    Request asked{"explain"};
    asked.key = *key;
    return request(context, asked, show_answer);
  };
}

}  // namespace

const Command kExplain = {"explain",
                          Group::look,
                          "why an address or a packet drops or passes: filter bits, rule, lists, file and line",
                          "The verdict on an address is that of a packet with this key in which nothing else matches.",
                          configure,
                          [](MemberTable& table) { table.add<ExplainAnswer>("explain"); }};

}  // namespace weir::control::ctl
