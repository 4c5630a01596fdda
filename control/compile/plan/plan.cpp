#include "control/compile/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/compile/plan/expand.h"
#include "filter/build/sizing.h"
#include "filter/layouts/layout.h"

namespace weir::control {
namespace {

// 24-28, 30, 32
std::string lengths_text(const std::vector<unsigned>& lengths) {
  std::string text;
  for (size_t i = 0, end = 0; i < lengths.size(); i = end) {
    for (end = i + 1; end < lengths.size() && lengths[end] == lengths[end - 1] + 1;) end++;
    text += fmt::format("{}/{}", text.empty() ? "" : ", ", lengths[i]);
    if (end - i > 1) text += fmt::format("-/{}", lengths[end - 1]);
  }
  return text;
}

// Prefixes of the lengths that the level serves.
uint64_t prefixes_in(const Merged& merged, const Level& level, bool all_lengths) {
  const auto count = [&](const auto& prefixes) {
    uint64_t n = 0;
    for (unsigned bits : level.lengths) {
      if (all_lengths || bits == level.shape.addr_bits) n += prefixes[bits].size();
    }
    return n;
  };
  if (level.shape.family == 4) return count(level.shape.with_port ? merged.v4.one_port : merged.v4.any_port);
  return count(level.shape.with_port ? merged.v6.one_port : merged.v6.any_port);
}

std::string why(const Merged& merged, const Level& level, const weir_shape& shape) {
  const std::string serves = "serves " + lengths_text(level.lengths);
  if (level.bitmap) {
    return fmt::format("{}: {} prefixes are {} networks of /24, one bit each", serves, prefixes_in(merged, level, true),
                       shape.n_keys);
  }
  if (level.lengths.size() == 1 && level.lengths[0] == shape.addr_bits) {
    return fmt::format("{}: {} keys, none from expansion", serves, shape.n_keys);
  }
  return fmt::format("{}: {} keys, {} of them from expanding shorter prefixes", serves, shape.n_keys,
                     shape.n_keys - prefixes_in(merged, level, false));
}

ShapeReport report(const Merged& merged, const Mixture& levels, const Policy& policy, const weir_shape& shape) {
  ShapeReport report = describe(shape);
  for (const FlowTable& table : merged.flow_tables) {
    if (table.keys.shape != filter::shape_of(shape)) continue;
    report.why = fmt::format("serves {} flow{}: {} key{} of what {} exactly", table.flows, table.flows == 1 ? "" : "s",
                             shape.n_keys, shape.n_keys == 1 ? "" : "s", table.flows == 1 ? "it names" : "they name");
    report.layout_why = policy.layout ? "asked for" : reason_of_rate(policy.false_positive_rate);
  }
  for (const SizedLevel& sized : levels) {
    if (sized.level.shape != filter::shape_of(shape)) continue;
    report.why = why(merged, sized.level, shape);
    report.layout_why = sized.layout_why;
  }
  return report;
}

// Gates take what the shapes leave of the memory: they shrink before any shape does.
Result<filter::SnapshotPlan> plan_with_gates(filter::SnapshotInput& input, GateReasons& why, const Policy& policy) {
  why = choose_gates(input, static_cast<double>(policy.memory_bytes), policy.gates_for);
  const Result<filter::SnapshotPlan> layout = filter::plan_snapshot(input);
  if (!layout || layout->header.total_bytes <= policy.memory_bytes) return layout;
  const double shapes = static_cast<double>(layout->header.total_bytes) - gate_bytes(layout->header);
  why = choose_gates(input, std::max(0.0, static_cast<double>(policy.memory_bytes) - shapes), policy.gates_for);
  return filter::plan_snapshot(input);
}

Result<Planned> fill(const Merged& merged, const Mixture& levels, const Policy& policy) {
  Planned planned;
  filter::SnapshotInput& input = planned.input;
  input.default_action = policy.default_action;
  input.unparsed_action = policy.unparsed_action;
  input.tunnels = policy.tunnels;
  for (const List& list : policy.lists) input.lists.push_back({list.name, list.action, list.mode, list.entries()});
  RuleBook book = merged.book;
  for (const SizedLevel& sized : levels) {
    if (sized.level.bitmap) {
      input.networks = expand_networks(merged, sized.level.lengths, book);
    } else {
      input.tables.push_back(expand_keys(merged, sized.level, book));
      input.tables.back().layout = sized.layout;
      input.tables.back().false_positive_rate = policy.false_positive_rate;
    }
  }
  for (const FlowTable& table : merged.flow_tables) {
    input.tables.push_back(table.keys);
    input.tables.back().layout = policy.layout.value_or(filter::layout_for_rate(policy.false_positive_rate));
    input.tables.back().false_positive_rate = policy.false_positive_rate;
  }
  if (book.longest_chain() > WEIR_MAX_CHAIN) {
    return Error{fmt::format(
        "{} entries with conditions (ports, flags, expiry) meet at one address; at most {} may\nhint: take apart lists "
        "whose networks contain one another, or let them expire together",
        book.longest_chain(), WEIR_MAX_CHAIN)};
  }
  book.write(input);

  const Result<filter::SnapshotPlan> layout = plan_with_gates(input, planned.gates, policy);
  if (!layout) return Error{layout.error()};
  planned.layout = *layout;
  const weir_snapshot_header& header = layout->header;
  for (uint32_t i = 0; i < header.n_shapes; i++)
    planned.shapes.push_back(report(merged, levels, policy, header.shapes[i]));
  return planned;
}

}  // namespace

ShapeReport describe(const weir_shape& shape) {
  const auto layout = static_cast<weir_layout>(shape.layout);
  ShapeReport report;
  report.name = shape_name(filter::shape_of(shape), layout == WEIR_LAYOUT_BITMAP);
  report.shape = shape;
  if (layout == WEIR_LAYOUT_BITMAP) return report;
  report.expected_fpr = filter::layout_fpr(layout, shape.n_keys, shape.filter_lines, shape.k);
  report.bits_per_key = static_cast<double>(shape.filter_lines) * WEIR_LINE_BYTES * 8 /
                        static_cast<double>(std::max<uint64_t>(shape.n_keys, 1));
  return report;
}

Result<Planned> plan(const Merged& merged, const Policy& policy) {
  Planned planned;
  const auto fits = fit(merged, policy, [&](const Mixture& mixture) -> Result<double> {
    Result<Planned> filled = fill(merged, mixture, policy);
    if (!filled) return Error{filled.error()};
    planned = std::move(*filled);
    return static_cast<double>(planned.layout.header.total_bytes);
  });
  if (!fits) return Error{fits.error()};
  return planned;
}

}  // namespace weir::control
