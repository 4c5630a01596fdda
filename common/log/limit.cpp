#include "common/log/limit.h"

#include <utility>

namespace weir::log {

std::optional<uint64_t> Limit::admit(std::string_view event, std::string_view subject, Clock::time_point now) {
  constexpr size_t kMostSubjectBytes = 128;
  Event& known = events_[std::string(event)];
  known.whole.move_to(now);
  if (known.whole.told >= kPerEvent) return known.whole.left_out++, std::nullopt;
  if (known.subjects.size() >= kMostSubjects) {
    for (auto it = known.subjects.begin(); it != known.subjects.end();) {
      const auto here = it++;
      if (!here->second.is_silent(now)) continue;
      known.whole.left_out += here->second.left_out;
      known.subjects.erase(here);
    }
  }
  Window& window = known.subjects[std::string(subject.substr(0, kMostSubjectBytes))];
  window.move_to(now);
  if (window.told >= kPerSubject) return window.left_out++, std::nullopt;
  window.told++;
  known.whole.told++;
  return std::exchange(window.left_out, 0) + std::exchange(known.whole.left_out, 0);
}

size_t Limit::subjects() const {
  size_t n = 0;
  for (const auto& [name, event] : events_) n += event.subjects.size();
  return n;
}

}  // namespace weir::log
