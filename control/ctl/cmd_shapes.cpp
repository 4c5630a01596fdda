#include <fmt/format.h>

#include <cstdio>

#include "control/answer/shapes.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"

namespace weir::control::ctl {

namespace cmd_shapes {

void show(const ShapesAnswer& answer) {
  fmt::print("generation {}: {}, {} snapshot\n", generation_text(answer.generation),
             plural(answer.entries, "entry", "entries"), bytes(answer.snapshot_bytes));
  fmt::print("filter probes a packet: IPv4 {}, IPv6 {}; {}, {}\n\n", answer.probes_v4, answer.probes_v6,
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
  for (const ShapeDetails& shape : answer.shapes) {
    table.row({shape.name, directions_text(shape.directions), count(shape.keys), bytes(shape.filter_bytes),
               bytes(shape.exact_bytes), percent(shape.expected_fpr), std::to_string(shape.k), bits_per_key_text(shape),
               layout_text(shape), shape.why});
  }
  fmt::print("{}", table.text());
}

Run configure(Options&) {
  return [](const Context& context) { return request(context, {"shapes"}, show); };
}

}  // namespace cmd_shapes

const Command kShapes = {
    "shapes", Group::look,           "which key types (shapes) the planner chose, how large, and why",
    "",       cmd_shapes::configure, [](MemberTable& table) { table.add<ShapesAnswer>("shapes"); }};

}  // namespace weir::control::ctl
