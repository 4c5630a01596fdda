#include <fmt/format.h>

#include <cstdio>

#include "control/ctl/command.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"

namespace weir::control::ctl {

namespace {

void show(const Json& answer) {
  fmt::print("generation {}: {}, {} snapshot\n", generation_text(answer.at("generation")),
             plural(answer.at("entries").get<uint64_t>(), "entry", "entries"),
             bytes(answer.at("snapshot_bytes").get<uint64_t>()));
  fmt::print("filter probes a packet: IPv4 {}, IPv6 {}; {}, {}\n\n", answer.at("probes_v4").get<uint64_t>(),
             answer.at("probes_v6").get<uint64_t>(), plural(answer.at("sets").get<uint64_t>(), "list set"),
             plural(answer.at("rules").get<uint64_t>(), "rule"));
  Table table({{"shape"},
               {"match"},
               {"keys", Table::Align::right},
               {"room for", Table::Align::right},
               {"filter", Table::Align::right},
               {"exact", Table::Align::right},
               {"false hits", Table::Align::right},
               {"k", Table::Align::right},
               {"bits/key", Table::Align::right},
               {"layout"},
               {"why"}});
  for (const Json& shape : answer.at("shapes")) {
    table.row({shape.at("name").get<std::string>(), joined(shape.at("directions")),
               count(shape.at("keys").get<uint64_t>()), count(shape.at("max_keys").get<uint64_t>()),
               bytes(shape.at("filter_bytes").get<uint64_t>()), bytes(shape.at("exact_bytes").get<uint64_t>()),
               percent(shape.at("expected_fpr").get<double>()), std::to_string(shape.at("k").get<uint64_t>()),
               bits_per_key_text(shape), layout_text(shape), shape.at("why").get<std::string>()});
  }
  fmt::print("{}", table.text());
}

int run(const Context& context) {
  return request(context, {{"command", "shapes"}}, show);
}

}  // namespace

const Command kShapes = {"shapes", "which key shapes the planner chose, how large, and why", nullptr, run};

}  // namespace weir::control::ctl
