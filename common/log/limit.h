#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "common/clock.h"

namespace weir::log {

// How often the same event may be told, so that nobody outside can fill a disk: kPerSubject of a subject, and kPerEvent
// of all its subjects together, in kWindow. Memory is bounded too: what has been silent for a window is forgotten.
class Limit {
 public:
  static constexpr unsigned kPerSubject = 5, kPerEvent = 50;
  static constexpr std::chrono::seconds kWindow{10};
  static constexpr size_t kMostSubjects = 256;  // of an event, before silent ones are forgotten

  // How many were left out since the last one that was told. Empty: this one is left out.
  std::optional<uint64_t> admit(std::string_view event, std::string_view subject, Clock::time_point now);
  size_t subjects() const;

 private:
  struct Window {
    Clock::time_point begin = {};
    unsigned told = 0;
    uint64_t left_out = 0;
    // Of a new window nothing was told.
    void move_to(Clock::time_point now) {
      if (told != 0 && now - begin < kWindow) return;
      begin = now;
      told = 0;
    }
    bool is_silent(Clock::time_point now) const { return now - begin >= kWindow; }
  };
  struct Event {
    Window whole;
    std::unordered_map<std::string, Window> subjects;
  };
  std::unordered_map<std::string, Event> events_;  // as many as the program has texts
};

}  // namespace weir::log
