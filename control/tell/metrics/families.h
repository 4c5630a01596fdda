#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "control/tell/metrics/facts.h"

// Families of metrics are built here for Prometheus.
namespace weir::control::metrics {

using Label = prometheus::ClientMetric::Label;
using Labels = std::vector<Label>;

// Values of a histogram: how many are at most so large.
struct Steps {
  std::vector<std::pair<double, uint64_t>> up_to;  // bound and count, both rising; without the infinite one
  uint64_t count = 0;
  double sum = 0;
};

// Families in the order in which their first value comes.
class Builder {
 public:
  // name without `weir_`; a counter's ends with _total.
  void counter(std::string_view name, const char* help, Labels labels, double value);
  void gauge(std::string_view name, const char* help, Labels labels, double value);
  void histogram(std::string_view name, const char* help, Labels labels, const Steps& steps);

  std::vector<prometheus::MetricFamily> take() { return std::move(families_); }

 private:
  prometheus::ClientMetric& metric(std::string_view name, const char* help, prometheus::MetricType type,
                                   Labels&& labels);
  std::vector<prometheus::MetricFamily> families_;
};

// Every family that there is, each once; docs/operate/metrics.md lists them. A target that did not answer just now has
// its weir_target_up of 0, and nothing of what it counts: what it told last would look as if nothing happened there.
std::vector<prometheus::MetricFamily> families(const Facts& facts);

}  // namespace weir::control::metrics
