#include "control/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "control/expand.h"
#include "filter/sizing.h"

namespace weir::control {
namespace {

// Each round makes memory this much dearer. After the last one a probe is cheaper than a single expanded key.
constexpr double kMemoryStep = 8;
constexpr double kLastMemoryWeight = 16777216;  // 8^8: 22 bytes then cost 35 ns

constexpr double kMiB = 1 << 20;

struct SizedLevel {
  Level level;
  double keys;   // exact; bitmap: 0, its bytes do not depend on them
  double bytes;  // without rounding to pages and, for a bitmap, without rule chunks: the true size is never below
};

template <class Addr>
LengthCounts counts_of(const PrefixesByLength<Addr>& prefixes) {
  LengthCounts counts = {};
  for (size_t bits = 0; bits < prefixes.size(); bits++) counts[bits] = prefixes[bits].size();
  return counts;
}

std::vector<SizedLevel> size_levels(const Merged& merged, double false_positive_rate, double memory_weight) {
  std::vector<SizedLevel> sized;
  const auto add = [&](const auto& family, uint8_t number) {
    for (Level& level : choose_levels(number, counts_of(family.any_port), counts_of(family.one_port),
                                      false_positive_rate, memory_weight)) {
      const double keys = level.bitmap ? 0 : count_keys(merged, level);
      const double bytes = level.bitmap ? kBitmapBytes : shape_bytes(level.shape, keys, false_positive_rate);
      sized.push_back({std::move(level), keys, bytes});
    }
  };
  add(merged.v4, 4);
  add(merged.v6, 6);
  return sized;
}

double total_bytes(const std::vector<SizedLevel>& levels) {
  double bytes = 0;
  for (const SizedLevel& level : levels) bytes += level.bytes;
  return bytes;
}

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

ShapeReport report(const Merged& merged, const std::vector<SizedLevel>& levels, const weir_shape& shape) {
  ShapeReport report;
  const bool bitmap = shape.layout == WEIR_LAYOUT_BITMAP;
  report.name = shape_name(filter::shape_of(shape), bitmap);
  report.shape = shape;
  if (!bitmap)
    report.expected_fpr =
        filter::layout_fpr(static_cast<weir_layout>(shape.layout), shape.n_keys, shape.filter_lines, shape.k);
  for (const SizedLevel& sized : levels) {
    if (sized.level.shape == filter::shape_of(shape)) report.why = why(merged, sized.level, shape);
  }
  return report;
}

Result<Planned> fill(const Merged& merged, const std::vector<SizedLevel>& levels, const Policy& policy) {
  Planned planned;
  filter::SnapshotInput& input = planned.input;
  input.default_action = policy.default_action;
  input.unparsed_action = policy.unparsed_action;
  for (const List& list : policy.lists) input.lists.push_back({list.name, list.action, list.mode, list.entries()});
  RuleBook book = merged.book;
  for (const SizedLevel& sized : levels) {
    if (sized.level.bitmap) {
      input.networks = expand_networks(merged, sized.level.lengths, book);
    } else {
      input.tables.push_back(expand_keys(merged, sized.level, policy.false_positive_rate, book));
    }
  }
  input.sets = book.sets();
  input.rules = book.rules();

  const Result<filter::SnapshotPlan> layout = filter::plan_snapshot(input);
  if (!layout) return Error{layout.error()};
  planned.layout = *layout;
  const weir_snapshot_header& header = layout->header;
  for (uint32_t i = 0; i < header.n_shapes; i++) planned.shapes.push_back(report(merged, levels, header.shapes[i]));
  return planned;
}

// The smallest that was tried.
struct Refused {
  double bytes = std::numeric_limits<double>::infinity();
  std::vector<SizedLevel> levels;
};

Error too_large(Refused refused, const Policy& policy) {
  constexpr size_t kNamed = 3;
  std::vector<SizedLevel>& levels = refused.levels;
  std::sort(levels.begin(), levels.end(), [](const SizedLevel& a, const SizedLevel& b) { return a.bytes > b.bytes; });
  std::string largest;
  for (size_t i = 0; i < std::min(kNamed, levels.size()); i++) {
    const SizedLevel& sized = levels[i];
    largest += fmt::format("{}{} {:.1f} MiB", i == 0 ? "" : ", ", shape_name(sized.level.shape, sized.level.bitmap),
                           sized.bytes / kMiB);
    if (!sized.level.bitmap) largest += fmt::format(" ({:.0f} keys)", sized.keys);
  }
  return Error{
      fmt::format("the snapshot needs {:.1f} MiB, filter.memory allows {:.1f} MiB; largest: {}\n"
                  "hint: raise filter.memory to {:.0f}MiB or more, take lists out, or allow a higher "
                  "filter.false_positive_rate (now {})",
                  refused.bytes / kMiB, static_cast<double>(policy.memory_bytes) / kMiB, largest,
                  std::ceil(refused.bytes / kMiB), policy.false_positive_rate)};
}

}  // namespace

std::string shape_name(filter::KeyShape shape, bool bitmap) {
  return fmt::format("v{} addr/{}{}{}", shape.family, shape.addr_bits, shape.with_port ? " + port" : "",
                     bitmap ? " bitmap" : "");
}

Result<Planned> plan(const Merged& merged, const Policy& policy) {
  const auto allowed = static_cast<double>(policy.memory_bytes);
  Refused smallest;
  for (double weight = 1; weight <= kLastMemoryWeight; weight *= kMemoryStep) {
    std::vector<SizedLevel> levels = size_levels(merged, policy.false_positive_rate, weight);
    double bytes = total_bytes(levels);
    if (bytes <= allowed) {
      Result<Planned> planned = fill(merged, levels, policy);
      if (!planned) return planned;
      bytes = static_cast<double>(planned->layout.header.total_bytes);
      if (bytes <= allowed) return planned;
    }
    if (bytes < smallest.bytes) smallest = {bytes, std::move(levels)};
  }
  return too_large(std::move(smallest), policy);
}

}  // namespace weir::control
