#include "common/log/progress_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "common/log/terminal_line.h"
#include "common/printable.h"
#include "common/thread.h"
#include "common/wait_for.h"

namespace weir::log {

namespace {

constexpr std::chrono::milliseconds kFirst{500}, kEach{100};

std::string grouped(uint64_t n) {
  std::string text = std::to_string(n);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

std::string progress_text(const ProgressState& state) {
  // A rate is believed when it was seen for a while.
  constexpr double kLeastShare = 0.1, kLeastSeconds = 1;
  std::string text = state.phase;
  const uint64_t done = state.of == 0 ? state.done : std::min(state.done, state.of);
  if (state.unit == "bytes" && state.of != 0) {
    text += fmt::format(": {:.1f} of {:.1f} MB", static_cast<double>(done) / 1e6, static_cast<double>(state.of) / 1e6);
  } else if (state.of != 0) {
    text += fmt::format(": {} of {} {}", grouped(done), grouped(state.of), state.unit);
  }
  const double share = state.of == 0 ? 0 : static_cast<double>(done) / static_cast<double>(state.of);
  if (state.of != 0) text += fmt::format(" ({} %)", static_cast<int>(100 * share));
  text += fmt::format(", {:.0f} s", state.total_s);
  if (share >= kLeastShare && share < 1 && state.phase_s >= kLeastSeconds) {
    text += fmt::format(", about {:.0f} s of this phase left", state.phase_s * (1 - share) / share);
  }
  return text;
}

namespace {

// 0: it is none. Asked for once: a program that has given up its rights may not ask.
unsigned columns_of_terminal() {
  static const unsigned columns = [] {
    constexpr unsigned kUsual = 80;
    winsize size = {};
    if (isatty(STDERR_FILENO) != 1) return 0u;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? unsigned{size.ws_col} : kUsual;
  }();
  return columns;
}

}  // namespace

bool has_progress_line() {
  return columns_of_terminal() != 0;
}

void draw_progress(std::string_view text) {
  // One that wraps could not be taken back.
  draw_terminal_line(shortened(printable(text), std::max(1u, columns_of_terminal()) - 1));
}

void clear_progress() {
  draw_terminal_line("");
}

ProgressLine::ProgressLine(const Progress& progress, bool is_wanted) : progress_(progress) {
  if (!is_wanted || !has_progress_line()) return;
  Result<std::thread> thread = start_thread([this] { run(); });
  if (thread) thread_ = std::move(*thread);  // else nobody sees it
}

ProgressLine::~ProgressLine() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ProgressLine::run() {
  const Clock::time_point begin = Clock::now();
  Clock::time_point phase_begin = begin;
  std::string phase;
  std::unique_lock lock(mutex_);
  wait_for(changed_, lock, kFirst, [&] { return is_over_; });
  while (!is_over_) {
    ProgressState state{progress_.phase.load(), progress_.unit.load(), progress_.done, progress_.of, 0, 0};
    if (state.phase != phase) phase_begin = Clock::now();
    phase = state.phase;
    state.phase_s = seconds_since(phase_begin);
    state.total_s = seconds_since(begin);
    if (!phase.empty()) draw_progress(progress_text(state));
    wait_for(changed_, lock, kEach, [&] { return is_over_; });
  }
  clear_progress();
}

}  // namespace weir::log
