#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/base/json/fields.h"
#include "control/policy/model/capture.h"

namespace weir::control {

// docs/operate/capture.md, "Counters".
struct CaptureAnswer {
  struct Target {
    std::string socket, last_error;
  };
  struct Settings {
    CaptureSettings asked;
    std::string current;
    std::vector<Target> targets;
  };
  bool on = false;
  std::string last_error;
  uint64_t sampled = 0, written = 0, filtered = 0, limited = 0, logged = 0, lost = 0, waiting = 0;
  std::optional<Settings> settings;
};
void members(Fields& f, CaptureAnswer::Target& target);
void members(Fields& f, CaptureAnswer::Settings& settings);
void members(Fields& f, CaptureAnswer& answer);

}  // namespace weir::control
