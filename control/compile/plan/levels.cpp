#include "control/compile/plan/levels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "filter/build/builder.h"
#include "filter/build/sizing.h"
#include "filter/format/buckets.h"
#include "filter/format/snapshot.h"
#include "filter/layouts/layout.h"

namespace weir::control {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr unsigned kMaxShapes = WEIR_MAX_SHAPES_PER_FAMILY;

// Lengths that are planned together: one length, or every length that the bitmap could take.
struct Step {
  unsigned bits;  // the shape that serves it without expansion; kBitmapBits for the bitmap
  bool bitmap;
  std::vector<unsigned> lengths;
};

std::vector<Step> steps_of(uint8_t family, bool with_port, const LengthCounts& counts) {
  std::vector<Step> steps;
  const unsigned width = family == 4 ? kAddrBits<Ipv4> : kAddrBits<Ipv6>;
  for (unsigned bits = 0; bits <= width; bits++) {
    if (counts[bits] == 0) continue;
    const bool bitmap = family == 4 && !with_port && bits <= kBitmapBits;
    if (!bitmap || steps.empty()) steps.push_back({bitmap ? kBitmapBits : bits, bitmap, {}});
    steps.back().lengths.push_back(bits);
  }
  return steps;
}

// For every number k of shapes: the cheapest way to serve all steps with exactly k, and its price.
struct Choices {
  std::array<double, kMaxShapes + 1> cost;
  std::array<std::vector<Level>, kMaxShapes + 1> levels;
};

class Programme {
 public:
  Programme(uint8_t family, bool with_port, const LengthCounts& counts, weir_layout layout, double false_positive_rate,
            double memory_weight)
      : counts_(counts),
        steps_(steps_of(family, with_port, counts)),
        shape_{family, 0, with_port},
        probe_ns_(probe_ns(layout)) {
    if (steps_.empty()) return;
    constexpr double kMany = 1e6;  // keys: enough for the bytes of one to be a constant
    bytes_per_key_ = shape_bytes(shape_, layout, kMany, false_positive_rate) / kMany;
    ns_per_byte_ = kNsPerMiB * memory_weight / (1 << 20);
  }

  // best(k, j): the least cost of serving steps [0, j) with k shapes = min over i of best(k - 1, i) + one shape for
  // steps [i, j), which has the length of step j - 1.
  Choices solve() const {
    const size_t n = steps_.size();
    std::vector<std::array<double, kMaxShapes + 1>> best(n + 1);
    std::vector<std::array<size_t, kMaxShapes + 1>> from(n + 1);
    for (auto& row : best) row.fill(kInfinite);
    best[0][0] = 0;
    for (size_t j = 1; j <= n; j++) {
      for (size_t i = 0; i < j; i++) {
        const double cost = shape_cost(i, j);
        for (unsigned k = 1; k <= kMaxShapes; k++) {
          if (best[i][k - 1] + cost >= best[j][k]) continue;
          best[j][k] = best[i][k - 1] + cost;
          from[j][k] = i;
        }
      }
    }
    Choices choices;
    choices.cost = best[n];
    for (unsigned k = 0; k <= kMaxShapes; k++) {
      if (choices.cost[k] == kInfinite) continue;
      size_t j = n;
      for (unsigned left = k; left > 0; j = from[j][left--]) {
        choices.levels[k].insert(choices.levels[k].begin(), level(from[j][left], j));
      }
    }
    return choices;
  }

 private:
  double shape_cost(size_t begin, size_t end) const {
    const unsigned bits = steps_[end - 1].bits;
    if (steps_[end - 1].bitmap)
      return probe_ns(WEIR_LAYOUT_BITMAP) + kBitmapBytes * ns_per_byte_;  // its networks overlap for free
    double keys = 0;
    for (size_t i = begin; i < end; i++) {
      for (unsigned length : steps_[i].lengths) {
        keys += std::ldexp(static_cast<double>(counts_[length]), static_cast<int>(bits - length));
      }
    }
    return probe_ns_ + keys * bytes_per_key_ * ns_per_byte_;
  }

  Level level(size_t begin, size_t end) const {
    Level level{shape_, steps_[end - 1].bitmap, {}};
    level.shape.addr_bits = static_cast<uint8_t>(steps_[end - 1].bits);
    for (size_t i = begin; i < end; i++) {
      level.lengths.insert(level.lengths.end(), steps_[i].lengths.begin(), steps_[i].lengths.end());
    }
    return level;
  }

  const LengthCounts& counts_;
  std::vector<Step> steps_;
  filter::KeyShape shape_;
  double probe_ns_;
  double bytes_per_key_ = 0;
  double ns_per_byte_ = 0;
};

// Lines of a filter for each of its keys. Rates depend on nothing else, so one inversion, which takes up to a second
// for a ribbon, does for all sizes; not above the exact value, and less than a millionth below it (pages: 1e-5).
double lines_per_key(weir_layout layout, double false_positive_rate) {
  constexpr uint64_t kManyKeys = 1'000'000'000;
  static std::mutex mutex;
  static std::map<std::pair<weir_layout, double>, double> known;
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace({layout, false_positive_rate}, kInfinite);
  if (!is_new) return at->second;
  if (const auto size = filter::size_filter(layout, kManyKeys, false_positive_rate)) {
    at->second = (static_cast<double>(size->lines) - filter::layout_of(layout).unit_lines) / kManyKeys;
  }
  return at->second;
}

}  // namespace

double probe_ns(weir_layout layout) {
  switch (layout) {
    case WEIR_LAYOUT_BITMAP:
      return kBitmapProbeNs;
    case WEIR_LAYOUT_PAGE2:
      return kPage2Probes * kProbeNs;
    case WEIR_LAYOUT_RIBBON:
      return kRibbonProbes * kProbeNs;
    case WEIR_LAYOUT_PAGE7:
      return kPage7Probes * kProbeNs;
    default:
      return kProbeNs;
  }
}

double shape_bytes(filter::KeyShape shape, weir_layout layout, double n_keys, double false_positive_rate) {
  constexpr double kMostKeys = 4e9;  // above, proportion is near enough: no machine has the memory
  const double scale = n_keys > kMostKeys ? n_keys / kMostKeys : 1;
  const auto sized_for = static_cast<uint64_t>(n_keys / scale);
  const double unit = filter::layout_of(layout).unit_lines;
  const double units = std::ceil(static_cast<double>(sized_for) * lines_per_key(layout, false_positive_rate) / unit);
  const uint32_t buckets =
      filter::exact_buckets(sized_for, filter::slots_per_bucket(shape), filter::buckets_per_page(shape));
  return scale * (std::max(units, 1.0) * unit * WEIR_LINE_BYTES +
                  static_cast<double>(filter::exact_stage_bytes(shape, buckets)));
}

std::vector<Level> choose_levels(uint8_t family, const LengthCounts& any_port, const LengthCounts& one_port,
                                 weir_layout layout, double false_positive_rate, double memory_weight,
                                 unsigned max_levels) {
  Choices any = Programme(family, false, any_port, layout, false_positive_rate, memory_weight).solve();
  Choices one = Programme(family, true, one_port, layout, false_positive_rate, memory_weight).solve();
  unsigned best_any = 0, best_one = 0;
  double least = kInfinite;
  for (unsigned a = 0; a <= max_levels; a++) {
    for (unsigned b = 0; a + b <= max_levels; b++) {
      if (any.cost[a] + one.cost[b] >= least) continue;
      least = any.cost[a] + one.cost[b];
      best_any = a;
      best_one = b;
    }
  }
  std::vector<Level> levels = std::move(any.levels[best_any]);
  for (Level& level : one.levels[best_one]) levels.push_back(std::move(level));
  return levels;
}

}  // namespace weir::control
