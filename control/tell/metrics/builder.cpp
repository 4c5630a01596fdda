#include "control/tell/metrics/builder.h"

#include <algorithm>
#include <limits>

#include "common/printable.h"

namespace weir::control::metrics {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

ClientMetric& Builder::metric(std::string_view name, const char* help, MetricType type, Labels&& labels) {
  const std::string whole = "weir_" + std::string(name);
  // The newest ones first: most values belong to the family of the one before, or to one near it.
  auto found =
      std::find_if(families_.rbegin(), families_.rend(), [&](const MetricFamily& one) { return one.name == whole; });
  MetricFamily& family =
      found != families_.rend() ? *found : families_.emplace_back(MetricFamily{whole, help, type, {}});
  ClientMetric& made = family.metric.emplace_back();
  made.label = std::move(labels);
  for (Label& label : made.label) label.value = printable(label.value);
  return made;
}

void Builder::counter(std::string_view name, const char* help, Labels labels, double value) {
  metric(name, help, MetricType::Counter, std::move(labels)).counter.value = value;
}

void Builder::gauge(std::string_view name, const char* help, Labels labels, double value) {
  metric(name, help, MetricType::Gauge, std::move(labels)).gauge.value = value;
}

void Builder::histogram(std::string_view name, const char* help, Labels labels, const Steps& steps) {
  ClientMetric::Histogram& histogram = metric(name, help, MetricType::Histogram, std::move(labels)).histogram;
  histogram.sample_count = steps.count;
  histogram.sample_sum = steps.sum;
  for (const auto& [bound, count] : steps.up_to) histogram.bucket.push_back({count, bound});
  histogram.bucket.push_back({steps.count, std::numeric_limits<double>::infinity()});
}

}  // namespace weir::control::metrics
