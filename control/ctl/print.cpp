#include "control/ctl/print.h"

#include <fmt/format.h>

#include <cstdio>

#include "control/ctl/line/out.h"
#include "control/ctl/text.h"
#include "filter/format/snapshot.h"

namespace weir::control::ctl {

std::string generation_text(const wire::Generation& generation) {
  if (generation.number == 0) return "none";
  return fmt::format("{} (epoch {:016x})", generation.number, generation.epoch);
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all.empty() ? "-" : all;
}

std::string directions_text(uint8_t mask) {
  std::vector<std::string> names;
  if ((mask & WEIR_AS_SOURCE) != 0) names.emplace_back("src");
  if ((mask & WEIR_AS_DESTINATION) != 0) names.emplace_back("dst");
  return joined(names);
}

std::string layout_text(const ShapeReport& shape) {
  return layout_name(shape) + (shape.layout_why.empty() ? "" : ": " + shape.layout_why);
}

std::string bits_per_key_text(const ShapeReport& shape) {
  return shape.bits_per_key == 0 ? "-" : fmt::format("{:.1f}", shape.bits_per_key);
}

std::string place_text(const Origin& origin) {
  return origin.line == 0 ? origin.file : fmt::format("{}:{}", origin.file, origin.line);
}

std::string verdict_text(const Verdict& verdict) {
  std::string text = verdict.action;
  if (verdict.because) {
    const Origin& entry = *verdict.because;
    text += fmt::format(" by list {}: {} ({})", verdict.reason, entry.entry, place_text(entry));
  } else if (verdict.reason == "default") {
    text += " by default: no list decides";
  } else {
    text += " by list " + verdict.reason;
  }
  if (!verdict.monitored.empty()) text += fmt::format("; only monitored by {}", joined(verdict.monitored));
  return text;
}

std::string capture_text(const CaptureState& capture) {
  const std::string& error = capture.error;
  const std::string state = !error.empty() ? "FAILS: " + error : capture.on ? "on" : "off";
  const CaptureCounts& counts = capture.counts;
  if (counts.sampled == 0) return state;
  return fmt::format("{}; {} of {} samples written, {} past a list's limit, {} lost", state, count(counts.written),
                     count(counts.sampled), count(counts.limited), count(counts.lost));
}

std::string reason_text(const Diagnostics& diagnostics, const std::string& error) {
  return diagnostics.ok() ? error : plural(diagnostics.errors(), "error") + " in the policy";
}

void print_diagnostics(const std::vector<Diagnostic>& diagnostics) {
  for (const Diagnostic& diagnostic : diagnostics) print(stderr, "{}", format(diagnostic));
}

void print_targets(const std::vector<TargetOutcome>& outcomes) {
  for (const TargetOutcome& target : outcomes) {
    if (target.acknowledged) {
      print("target {}: acknowledged\n", target.socket);
    } else {
      print(stderr, "target {}: NOT acknowledged: {}\n", target.socket, target.error);
    }
  }
}

}  // namespace weir::control::ctl
