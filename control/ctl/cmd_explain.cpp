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

namespace cmd_explain {

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

// The entries of which `alone` is this.
Table table_of(const std::vector<Origin>& origins, bool alone, Table table) {
  for (const Origin& origin : origins) {
    if (origin.alone != alone) continue;
    table.row({origin.list, origin.entry, directions_text(origin.directions), place_text(origin)});
  }
  return table;
}
Table origin_table() {
  return Table({{"list"}, {"entry"}, {"match"}, {"written at"}});
}

void show_table(const char* title, const Table& table) {
  if (!table.empty()) fmt::print("\n{}\n{}", title, table.text());
}

void show_more(size_t shown, size_t all) {
  if (shown < all) fmt::print("... and {} more\n", all - shown);
}

void show(const PacketExplanation& explanation) {
  fmt::print("{}: {}\n", explanation.packet, verdict_text(explanation.verdict));
  show_table("entries that match it", table_of(explanation.origins, true, origin_table()));
  show_more(explanation.origins.size(), explanation.n_origins);
}

void show(const Explanation& explanation) {
  fmt::print("{} as source: {}\n", explanation.key, verdict_text(explanation.as_source));
  fmt::print("{} as destination: {}\n", explanation.key, verdict_text(explanation.as_destination));
  const Table alone = table_of(explanation.origins, true, origin_table());
  const Table more = table_of(explanation.of_ports, false, table_of(explanation.origins, false, origin_table()));
  if (alone.empty() && more.empty()) fmt::print("\nno entry names it\n");
  show_table("entries that name it", alone);
  show_table("entries that ask for more of a packet, or have ended", more);
  show_more(explanation.origins.size() + explanation.of_ports.size(), explanation.n_origins + explanation.n_of_ports);
}

// How the filters were asked.
void show_probes(const Explanation& explanation) {
  for (const ShapeProbe& probe : explanation.probes) {
    fmt::print("\nkey type {}: key {}\n  filter  {}, {}: {}\n", probe.shape, probe.key, probe.layout, place_of(probe),
               answer_of(probe));
    if (probe.rule != 0) {
      fmt::print("  exact   rule {}: lists as source: {}; as destination: {}\n", probe.rule, joined(probe.source_lists),
                 joined(probe.destination_lists));
    }
    for (const ShapeCondition& condition : probe.conditions) {
      fmt::print("  asks    as {}, {}: lists {}\n", condition.side, condition.text, joined(condition.lists));
    }
  }
  if (explanation.probes.empty()) fmt::print("\nno filter is asked about such a key alone\n");
  if (explanation.flow_shapes.empty()) return;
  fmt::print("\nkey types that need more of a packet: {}\n", joined(explanation.flow_shapes));
}

void show_answer(const ExplainAnswer& answer) {
  if (answer.of_packet) show(*answer.of_packet);
  if (answer.of_key) show(*answer.of_key);
  fmt::print("\ngeneration {}\n", generation_text(answer.generation));
}

void show_verbose(const ExplainAnswer& answer) {
  show_answer(answer);
  if (answer.of_key) show_probes(*answer.of_key);
}

Run configure(Options& options) {
  auto key = std::make_shared<std::string>();
  auto verbose = std::make_shared<bool>(false);
  options
      .argument("KEY", *key,
                "an address, a.b.c.d:port, [v6]:port, or a packet: 'src 10.0.0.1 dst 203.0.113.9 proto tcp dport 443'")
      .required();
  options.flag("--verbose", *verbose, "also how the filters were asked about an address: pages, lines, bits");
  return [key, verbose](const Context& context) {
    Request asked{"explain"};
    asked.key = *key;
    return request(context, asked, *verbose ? show_verbose : show_answer);
  };
}

}  // namespace cmd_explain

const Command kExplain = {"explain",
                          Group::look,
                          "why an address or a packet drops or passes: verdict, list, entry, file and line",
                          "The verdict on an address is that of a packet with this key in which nothing else matches.",
                          cmd_explain::configure,
                          [](MemberTable& table) { table.add<ExplainAnswer>("explain"); }};

}  // namespace weir::control::ctl
