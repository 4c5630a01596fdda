#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "common/progress.h"

// What long work shows to somebody who watches a terminal: one line that changes, and goes at the end.
namespace weir::log {

struct ProgressState {
  std::string phase, unit;
  uint64_t done = 0, of = 0;
  double phase_s = 0, total_s = 0;  // since the phase, and all of it, began
};
// "merge: 3,000,000 of 10,000,000 entries (30 %), 4 s, about 5 s of this phase left".
std::string progress_text(const ProgressState& state);

bool has_progress_line();                   // stderr is a terminal
void draw_progress(std::string_view text);  // in place of the one before
void clear_progress();

// Draws it from half a second on, 10 times a second, by a thread of its own. Without a terminal, or when it is not
// wanted, nothing is shown.
class ProgressLine {
 public:
  explicit ProgressLine(const Progress& progress, bool is_wanted = true);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;

 private:
  void run();

  const Progress& progress_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;  // by the mutex
  std::thread thread_;
};

}  // namespace weir::log
