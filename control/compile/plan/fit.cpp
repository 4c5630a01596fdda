#include "control/compile/plan/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "control/compile/plan/expand.h"
#include "filter/layouts/layout.h"

namespace weir::control {
namespace {

// Each round makes memory this much dearer. After the last one a probe is cheaper than a single expanded key.
constexpr double kMemoryStep = 8;
constexpr double kLastMemoryWeight = 16777216;  // 8^8: 22 bytes then cost 35 ns

constexpr double kMiB = 1 << 20;

template <class Addr>
LengthCounts counts_of(const PrefixesByLength<Addr>& prefixes) {
  LengthCounts counts = {};
  for (size_t bits = 0; bits < prefixes.size(); bits++) counts[bits] = prefixes[bits].size();
  return counts;
}

double bytes_of(const Mixture& mixture) {
  return std::accumulate(mixture.begin(), mixture.end(), 0.0,
                         [](double sum, const SizedLevel& sized) { return sum + sized.bytes; });
}

double packet_ns(const Mixture& mixture) {
  return std::accumulate(mixture.begin(), mixture.end(), 0.0,
                         [](double sum, const SizedLevel& sized) { return sum + probe_ns(sized.layout); });
}

std::string name_of(weir_layout layout) {
  return std::string(filter::layout_of(layout).name);
}

class Fitting {
 public:
  Fitting(const Merged& merged, const Policy& policy, const TrueBytes& true_bytes)
      : merged_(merged),
        policy_(policy),
        true_bytes_(true_bytes),
        rate_(policy.false_positive_rate),
        layout_(policy.layout.value_or(filter::layout_for_rate(rate_))),
        may_compact_(!policy.layout && layout_ == WEIR_LAYOUT_LINE8 && rate_ >= kLeastRibbonRate),
        allowed_(static_cast<double>(policy.memory_bytes)) {}

  Result<void> run() {
    if (layout_ == WEIR_LAYOUT_RIBBON && rate_ < kLeastRibbonRate) {
      return Error{
          fmt::format("no ribbon filter keeps a false-positive rate of {}\nhint: raise "
                      "filter.false_positive_rate to 0.004, or take filter.layout out",
                      rate_)};
    }
    for (double weight = 1; weight <= kLastMemoryWeight; weight *= kMemoryStep) {
      const Mixture plain = levels_for(weight);
      const bool is_last = weight == kLastMemoryWeight;
      const bool fits = bytes_of(plain) <= allowed_;
      if (fits) {
        waiting_.push_back(plain);
      } else {
        remember(plain, bytes_of(plain));
        add_compact(plain, 0);
      }
      if (!fits && !is_last) continue;
      if (Result<bool> done = ask_waiting(); !done || *done) return done ? Result<void>{} : Error{done.error()};
      // It seemed to fit, and does not: what is beyond its bytes is known now, and compact filters may make up for it.
      if (fits) add_compact(plain, beyond_);
      if (!is_last) continue;
      if (Result<bool> done = ask_waiting(); !done || *done) return done ? Result<void>{} : Error{done.error()};
    }
    return too_large();
  }

 private:
  Mixture levels_for(double memory_weight) const {
    Mixture mixture;
    const auto add = [&](const auto& family, uint8_t number) {
      const auto flow_shapes = std::count_if(merged_.flow_tables.begin(), merged_.flow_tables.end(),
                                             [&](const FlowTable& table) { return table.keys.shape.family == number; });
      for (Level& level :
           choose_levels(number, counts_of(family.any_port), counts_of(family.one_port), layout_, rate_, memory_weight,
                         WEIR_MAX_SHAPES_PER_FAMILY - static_cast<unsigned>(flow_shapes))) {
        if (level.bitmap) {
          mixture.push_back({std::move(level), WEIR_LAYOUT_BITMAP, "one bit for each /24", 0, kBitmapBytes});
        } else {
          const double keys = count_keys(merged_, level);
          const double bytes = shape_bytes(level.shape, layout_, keys, rate_);
          mixture.push_back({std::move(level), layout_, why(), keys, bytes});
        }
      }
    };
    add(merged_.v4, 4);
    add(merged_.v6, 6);
    return mixture;
  }

  std::string why() const { return policy_.layout ? "asked for" : reason_of_rate(rate_); }

  // As few ribbons as make it fit, those that save most first: to a packet each costs the same. beyond: what the
  // snapshot needs besides the mixture's bytes.
  void add_compact(Mixture mixture, double beyond) {
    if (!may_compact_) return;
    double bytes = bytes_of(mixture) + beyond;
    const std::string why =
        fmt::format("line8 needs {:.1f} MiB more than filter.memory allows", (bytes - allowed_) / kMiB);
    std::vector<std::pair<double, SizedLevel*>> savings;
    for (SizedLevel& sized : mixture) {
      if (sized.layout != WEIR_LAYOUT_LINE8) continue;
      const double saved = sized.bytes - shape_bytes(sized.level.shape, WEIR_LAYOUT_RIBBON, sized.keys, rate_);
      if (saved > 0) savings.emplace_back(saved, &sized);
    }
    std::sort(savings.begin(), savings.end(), std::greater<>());
    for (auto& [saved, sized] : savings) {
      if (bytes <= allowed_) break;
      sized->layout = WEIR_LAYOUT_RIBBON;
      sized->layout_why = why;
      sized->bytes -= saved;
      bytes -= saved;
    }
    if (bytes <= allowed_) {
      waiting_.push_back(std::move(mixture));
    } else {
      remember(mixture, bytes);
    }
  }

  // True: one of them fits.
  Result<bool> ask_waiting() {
    std::stable_sort(waiting_.begin(), waiting_.end(),
                     [](const Mixture& a, const Mixture& b) { return packet_ns(a) < packet_ns(b); });
    for (const Mixture& mixture : waiting_) {
      const Result<double> bytes = true_bytes_(mixture);
      if (!bytes) return Error{bytes.error()};
      if (*bytes <= allowed_) return true;
      beyond_ = *bytes - bytes_of(mixture);
      remember(mixture, *bytes);
    }
    waiting_.clear();
    return false;
  }

  void remember(const Mixture& mixture, double bytes) {
    if (bytes >= smallest_bytes_) return;
    smallest_ = mixture;
    smallest_bytes_ = bytes;
  }

  Error too_large() const {
    constexpr size_t kNamed = 3;
    Mixture levels = smallest_;
    std::sort(levels.begin(), levels.end(), [](const SizedLevel& a, const SizedLevel& b) { return a.bytes > b.bytes; });
    std::string largest;
    for (size_t i = 0; i < std::min(kNamed, levels.size()); i++) {
      const SizedLevel& sized = levels[i];
      largest += fmt::format("{}{} {:.1f} MiB", i == 0 ? "" : ", ", shape_name(sized.level.shape, sized.level.bitmap),
                             sized.bytes / kMiB);
      if (!sized.level.bitmap) largest += fmt::format(" ({:.0f} keys, {})", sized.keys, name_of(sized.layout));
    }
    return Error{
        fmt::format("the snapshot needs {:.1f} MiB, filter.memory allows {:.1f} MiB; largest: {}\n"
                    "hint: raise filter.memory to {:.0f}MiB or more, take lists out, {}allow a higher "
                    "filter.false_positive_rate (now {})",
                    smallest_bytes_ / kMiB, allowed_ / kMiB, largest, std::ceil(smallest_bytes_ / kMiB),
                    policy_.layout ? fmt::format("take filter.layout ({}) out, or ", name_of(layout_)) : "or ", rate_)};
  }

  const Merged& merged_;
  const Policy& policy_;
  const TrueBytes& true_bytes_;
  const double rate_;
  const weir_layout layout_;
  const bool may_compact_;
  const double allowed_;
  std::vector<Mixture> waiting_;  // they fit by their bytes; not asked about yet
  double beyond_ = 0;             // what the last one asked about needs besides its bytes
  Mixture smallest_;              // of those that do not fit
  double smallest_bytes_ = std::numeric_limits<double>::infinity();
};

}  // namespace

std::string reason_of_rate(double false_positive_rate) {
  const bool low = filter::layout_for_rate(false_positive_rate) == WEIR_LAYOUT_PAGE2;
  return fmt::format("{:.3g} % wanted{}", false_positive_rate * 100, low ? ", below 0.1 %" : "");
}

std::string shape_name(filter::KeyShape shape, bool bitmap) {
  if (shape.flow) {
    std::string name;
    const auto add = [&](bool is_there, const std::string& part) {
      if (is_there) name += (name.empty() ? "" : " + ") + part;
    };
    add(shape.addr_bits != 0, fmt::format("src/{}", shape.addr_bits));
    add(shape.destination_bits != 0, fmt::format("dst/{}", shape.destination_bits));
    add((shape.flow_fields & WEIR_FLOW_PROTOCOL) != 0, "proto");
    add((shape.flow_fields & WEIR_FLOW_SPORT) != 0, "sport");
    add((shape.flow_fields & WEIR_FLOW_DPORT) != 0, "dport");
    return fmt::format("v{} {}", shape.family, name.empty() ? "any packet" : name);
  }
  return fmt::format("v{} addr/{}{}{}", shape.family, shape.addr_bits, shape.with_port ? " + port" : "",
                     bitmap ? " bitmap" : "");
}

Result<void> fit(const Merged& merged, const Policy& policy, const TrueBytes& true_bytes) {
  return Fitting(merged, policy, true_bytes).run();
}

}  // namespace weir::control
