#include <fmt/format.h>

#include <cstdio>

#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/tell/answer/status.h"

namespace weir::control::ctl {

namespace cmd_shapes {

// /20, /32 in words
std::string tables_text(const GateReport& gate) {
  std::string text;
  for (const weir_gate_table& table : tables_of(gate)) {
    text += text.empty() ? "" : ", ";
    text += fmt::format("/{}{}", table.prefix_bits, table.n_words == 0 ? "" : " in words");
  }
  return text.empty() ? "-" : text;
}

uint64_t bytes_of(const GateReport& gate) {
  uint64_t sum = 0;
  for (const weir_gate_table& table : tables_of(gate)) sum += table.bits.size_bytes;
  return sum;
}

std::string gates_text(const std::vector<GateReport>& gates) {
  Table table({{"gate"},
               {"kind"},
               {"bits"},
               {"bytes", Table::Align::right},
               {"passes", Table::Align::right},
               {"measured", Table::Align::right},
               {"why"}});
  for (const GateReport& gate : gates) {
    table.row({gate.name, name_of_kind(gate), tables_text(gate), bytes(bytes_of(gate)), percent(gate.expected_share),
               gate.measured_share ? percent(*gate.measured_share) : "-", gate.why});
  }
  return table.text();
}

std::string rates_text(const std::vector<FilterRate>& rates) {
  Table table({{"false hits at"},
               {"key type"},
               {"predicted", Table::Align::right},
               {"measured (95 %)"},
               {"keys", Table::Align::right},
               {"of lookups", Table::Align::right},
               {"asked", Table::Align::right},
               {""}});
  for (const FilterRate& rate : rates) {
    table.row({rate.target, shape_text(rate), percent(rate.predicted), rate_text(rate), count(rate.keys),
               rate.of_lookups ? percent(*rate.of_lookups) : "-", count(rate.asked),
               is_outside(rate) ? "OUTSIDE: " + rate.verdict : ""});
  }
  return table.empty() ? "" : table.text();
}

void show(const ShapesAnswer& answer) {
  print("generation {}: {}, {} snapshot\n", generation_text(answer.generation),
        plural(answer.entries, "entry", "entries"), bytes(answer.snapshot_bytes));
  print("filter probes a packet: IPv4 {}, IPv6 {}; {}, {}\n\n", answer.probes_v4, answer.probes_v6,
        plural(answer.sets, "list set"), plural(answer.rules, "rule"));
  Table table({{"key type"},
               {"match"},
               {"keys", Table::Align::right},
               {"filter", Table::Align::right},
               {"exact", Table::Align::right},
               {"false hits", Table::Align::right},
               {"k", Table::Align::right},
               {"bits/key", Table::Align::right},
               {"layout"},
               {"why"}});
  for (const ShapeReport& report : answer.shapes) {
    const weir_shape& shape = report.shape;
    table.row({report.name, directions_text(shape.directions), count(shape.n_keys), bytes(shape.filter.size_bytes),
               bytes(exact_bytes_of(report)), percent(report.expected_fpr), std::to_string(shape.k),
               bits_per_key_text(report), layout_text(report), report.why});
  }
  print("{}\n{}", table.text(), gates_text(answer.gates));
  const std::string rates = rates_text(answer.false_positives);
  if (!rates.empty()) print("\n{}", rates);
}

Run configure(Options&) {
  return [](const Context& context) { return request(context, {"shapes"}, show); };
}

}  // namespace cmd_shapes

const Command kShapes = {
    "shapes", Group::look,           "which key types (shapes) the planner chose, how large, and why",
    "",       cmd_shapes::configure, [](MemberTable& table) { table.add<ShapesAnswer>("shapes"); }};

}  // namespace weir::control::ctl
