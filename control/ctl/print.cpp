#include "control/ctl/print.h"

#include <fmt/format.h>

#include <cstdio>

#include "control/ctl/text.h"

namespace weir::control::ctl {

std::string generation_text(const Json& generation) {
  const uint64_t number = generation.at("number").get<uint64_t>();
  if (number == 0) return "none";
  return fmt::format("{} (epoch {})", number, generation.at("epoch").get<std::string>());
}

std::string joined(const Json& strings) {
  std::string text;
  for (const Json& one : strings) text += (text.empty() ? "" : ", ") + one.get<std::string>();
  return text.empty() ? "-" : text;
}

std::string layout_text(const Json& shape) {
  const std::string layout = shape.at("layout").get<std::string>(), why = shape.at("layout_why").get<std::string>();
  return why.empty() ? layout : layout + ": " + why;
}

std::string bits_per_key_text(const Json& shape) {
  const double bits = shape.at("bits_per_key").get<double>();
  return bits == 0 ? "-" : fmt::format("{:.1f}", bits);
}

std::string capture_text(const Json& capture) {
  const auto number = [&](const char* name) { return count(capture.at(name).get<uint64_t>()); };
  const std::string error = capture.at("last_error").get<std::string>();
  const std::string state = !error.empty() ? "FAILS: " + error : capture.at("on").get<bool>() ? "on" : "off";
  if (capture.at("sampled").get<uint64_t>() == 0) return state;
  return fmt::format("{}; {} of {} samples written, {} past a list's limit, {} lost", state, number("written"),
                     number("sampled"), number("limited"), number("lost"));
}

void print_diagnostics(const Json& diagnostics) {
  for (const Json& json : diagnostics) {
    Diagnostic diagnostic;
    diagnostic.severity = json.at("severity") == "error" ? Severity::error : Severity::warning;
    diagnostic.where = {json.at("file").get<std::string>(), json.at("line").get<uint32_t>(),
                        json.at("column").get<uint32_t>()};
    diagnostic.message = json.at("message").get<std::string>();
    diagnostic.source_line = json.at("source").get<std::string>();
    diagnostic.hint = json.at("hint").get<std::string>();
    fmt::print(stderr, "{}", format(diagnostic));
  }
}

void print_targets(const Json& outcomes) {
  for (const Json& target : outcomes) {
    const std::string socket = target.at("socket").get<std::string>();
    if (target.at("acknowledged").get<bool>()) {
      fmt::print("target {}: acknowledged\n", socket);
    } else {
      fmt::print(stderr, "target {}: NOT acknowledged: {}\n", socket, target.at("error").get<std::string>());
    }
  }
}

}  // namespace weir::control::ctl
