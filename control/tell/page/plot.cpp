#include "control/tell/page/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "control/tell/answer/text.h"

namespace weir::control::page {

namespace {

// In the units of the drawing. The page's own style sheet says how large it is shown.
constexpr double kWidth = 600, kHeight = 160, kSparkWidth = 100, kSparkHeight = 20;
constexpr double kGap_s = 12;  // between looks: nobody knows what was in between

struct Frame {
  double width, height, from, to, most;
  double x(double at) const { return (at - from) / (to - from) * width; }
  double y(double value) const { return height - value / most * height; }
};

// The runs of looks without a gap: [first, last) of `at`.
std::vector<std::pair<size_t, size_t>> runs_of(const std::vector<double>& at) {
  std::vector<std::pair<size_t, size_t>> runs;
  size_t first = 0;
  for (size_t i = 1; i <= at.size(); i++) {
    if (i < at.size() && at[i] - at[i - 1] <= kGap_s) continue;
    if (i - first > 1) runs.emplace_back(first, i);
    first = i;
  }
  return runs;
}

// The area between two lines.
void area(Html& html, const Frame& frame, const std::vector<double>& at, const std::vector<double>& lower,
          const std::vector<double>& upper) {
  for (const auto& [first, last] : runs_of(at)) {
    for (size_t i = first; i < last; i++) {
      if (i == first) {
        html << "M";
      } else {
        html << "L";
      }
      html.tenths(frame.x(at[i])) << " ";
      html.tenths(frame.y(upper[i]));
    }
    for (size_t i = last; i > first; i--) {
      html << "L";
      html.tenths(frame.x(at[i - 1])) << " ";
      html.tenths(frame.y(lower[i - 1]));
    }
    html << "Z";
  }
}

std::vector<double> sum_of(const std::vector<double>& one, const std::vector<double>& other) {
  std::vector<double> sum(one.size());
  std::transform(one.begin(), one.end(), other.begin(), sum.begin(), std::plus<>());
  return sum;
}

double most_of(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

double mean_of(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

Frame frame_of(const History& history, double most) {
  return {kWidth, kHeight, history.from, history.to, nice_above(most)};
}

// The numbers beside and below: texts of the page, not of the drawing, which is stretched.
void begin_drawing(Html& html, const Frame& frame, std::string_view text) {
  html << "<div class=\"drawing\"><div class=\"scale\" aria-hidden=\"true\"><span class=\"most\">"
       << Text(scaled(frame.most)) << "</span><span class=\"half\">" << Text(scaled(frame.most / 2))
       << "</span><span>0</span></div><svg viewBox=\"0 0 600 160\" preserveAspectRatio=\"none\" role=\"img\" "
          "aria-label=\""
       << Text(text) << "\"><path class=\"grid\" d=\"M0 .5H600M0 80H600M0 159.5H600\"/>";
}

void end_drawing(Html& html, const History& history) {
  html << "</svg><div class=\"times\" aria-hidden=\"true\"><span>"
       << Text(fmt::format("{:.0f} min ago", (history.to - history.from) / 60))
       << "</span><span>now</span></div></div>";
}

double effect_of(const ListRate& rate) {
  return rate.dropped + rate.would_drop + rate.passed;
}

}  // namespace

bool is_enforced_drop(const ListDetails& list) {
  return list.action == "drop" && list.mode == "enforce";
}

std::vector<const ListDetails*> shown_lists(const Facts& facts) {
  std::vector<std::pair<uint64_t, size_t>> ranked;
  const ListCounters& counted = facts.stats.lists;
  for (size_t i = 0; i < facts.lists.lists.size(); i++) {
    const std::string& name = facts.lists.lists[i].name;
    // In the order of the policy, as a rule.
    auto known =
        i < counted.size() && counted[i].first == name
            ? counted.begin() + static_cast<ptrdiff_t>(i)
            : std::find_if(counted.begin(), counted.end(), [&](const auto& list) { return list.first == name; });
    ranked.emplace_back(known == counted.end() ? 0 : known->second.matched, i);
  }
  const size_t n = std::min(kShownLists, ranked.size());
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& one, const auto& other) { return one.first > other.first; });
  ranked.resize(n);
  std::sort(ranked.begin(), ranked.end(), [](const auto& one, const auto& other) { return one.second < other.second; });
  std::vector<const ListDetails*> shown;
  for (const auto& [matched, i] : ranked) shown.push_back(&facts.lists.lists[i]);
  return shown;
}

History history_of(const Facts& facts, const std::vector<const ListDetails*>& shown) {
  History history;
  history.to = facts.now;
  history.from = facts.now - Looks::kKeep_s;
  for (const ListDetails* list : shown) history.lists.push_back({list->name, {}, 0});
  if (facts.looks == nullptr) return history;
  for (const Rates& rates : facts.looks->rates()) {
    if (rates.at < history.from || rates.at > history.to) continue;
    history.at.push_back(rates.at);
    history.packets.push_back(rates.packets);
    history.passed.push_back(rates.passed);
    history.dropped.push_back(rates.dropped);
    for (Series& series : history.lists) {
      const ListRate* rate = rates.list(series.name);
      const double value = rate == nullptr ? 0 : effect_of(*rate);
      series.values.push_back(value);
      series.sum += value;
    }
  }
  return history;
}

std::vector<const Series*> most_dropping(const Facts& facts, const History& history) {
  std::vector<const Series*> all;
  for (const Series& series : history.lists) {
    const auto list = std::find_if(facts.lists.lists.begin(), facts.lists.lists.end(),
                                   [&](const ListDetails& one) { return one.name == series.name; });
    if (list != facts.lists.lists.end() && is_enforced_drop(*list) && series.sum > 0) all.push_back(&series);
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Series* one, const Series* other) { return one->sum > other->sum; });
  if (all.size() > kDrawnLists) all.resize(kDrawnLists);
  return all;
}

double nice_above(double value) {
  double power = 1;
  while (value > 10 * power) power *= 10;
  for (const double step : {1.0, 2.0, 5.0}) {
    if (value <= step * power) return step * power;
  }
  return 10 * power;
}

void draw_traffic(Html& html, const History& history) {
  const Frame frame = frame_of(history, most_of(history.packets));
  begin_drawing(html, frame, traffic_text(history));
  const std::vector<double> none(history.at.size());
  html << "<path class=\"passed\" d=\"";
  area(html, frame, history.at, history.dropped, sum_of(history.dropped, history.passed));
  html << "\"/><path class=\"dropped\" d=\"";
  area(html, frame, history.at, none, history.dropped);
  html << "\"/>";
  end_drawing(html, history);
}

void draw_drops(Html& html, const History& history, const std::vector<const Series*>& series) {
  std::vector<double> top(history.at.size());
  for (const Series* one : series) top = sum_of(top, one->values);
  const Frame frame = frame_of(history, most_of(top));
  begin_drawing(html, frame, drops_text(series, history));
  std::vector<double> lower(history.at.size());
  size_t number = 0;
  for (const Series* one : series) {
    std::vector<double> upper = sum_of(lower, one->values);
    html << "<path class=\"band band" << ++number << "\" d=\"";
    area(html, frame, history.at, lower, upper);
    html << "\"/>";
    lower = std::move(upper);
  }
  end_drawing(html, history);
}

void draw_spark(Html& html, const History& history, const Series& series) {
  const Frame frame = {kSparkWidth, kSparkHeight - 2, history.from, history.to, std::max(1.0, most_of(series.values))};
  html << "<svg class=\"spark\" viewBox=\"0 -1 100 20\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><path d=\"";
  area(html, frame, history.at, std::vector<double>(history.at.size()), series.values);
  html << "\"/></svg>";
}

std::string traffic_text(const History& history) {
  if (history.at.empty()) return "Nothing was measured in the last 5 minutes yet.";
  const auto about = [](const char* what, const std::vector<double>& values) {
    return fmt::format("{} {} a second on average, {} at most", what, scaled(mean_of(values)), scaled(most_of(values)));
  };
  return fmt::format("Packets of the last 5 minutes: {}; {}.", about("passed", history.passed),
                     about("dropped", history.dropped));
}

std::string drops_text(const std::vector<const Series*>& series, const History& history) {
  if (history.at.empty()) return "Nothing was measured in the last 5 minutes yet.";
  if (series.empty()) return "No list dropped anything in the last 5 minutes.";
  std::string text = "Drops of the last 5 minutes, packets a second on average, by list:";
  for (const Series* one : series) {
    text += fmt::format("{} {} {}", one == series.front() ? "" : ",", one->name, scaled(mean_of(one->values)));
  }
  return text + ".";
}

}  // namespace weir::control::page
