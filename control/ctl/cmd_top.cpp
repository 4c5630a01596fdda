#include <fmt/format.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <thread>

#include "common/clock.h"
#include "control/ctl/client.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/direct.h"
#include "control/ctl/line/out.h"
#include "control/ctl/top_interval.h"
#include "control/ctl/top_text.h"
#include "control/tell/answer/stats.h"

// Rates and times of the data planes, interval by interval.
namespace weir::control::ctl {

namespace cmd_top {

constexpr int kAnswerMs = 3000;  // controld answers in a second

struct Asked {
  bool once = false;
  double interval_s = 1;
};

// Over what stands there, so that nothing flickers: home, every line cleared behind its end, then all below.
std::string redrawn(const std::string& text) {
  std::string all = "\x1b[H";
  for (const char c : text) {
    if (c == '\n') all += "\x1b[K";
    all += c;
  }
  return all + "\x1b[J";
}

volatile sig_atomic_t told_to_end = 0;  // the signal

bool is_in_background() {
  const pid_t foreground = tcgetpgrp(STDIN_FILENO);  // -1: of a terminal that is not the session's
  return foreground != -1 && foreground != getpgrp();
}

// A terminal that gives keys one by one and shows none of them, and what stands on it afterwards.
class Terminal {
 public:
  // wanted: else it does nothing but wait.
  explicit Terminal(bool wanted) : reads_(wanted && tcgetattr(STDIN_FILENO, &before_) == 0 && !is_in_background()) {
    if (!reads_) return;
    termios keys = before_;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    keys.c_cc[VMIN] = 0;
    keys.c_cc[VTIME] = 0;
    struct sigaction end = {};
    end.sa_handler = [](int signal) { told_to_end = signal; };
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &end, nullptr);
    tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  }
  Terminal(const Terminal&) = delete;
  ~Terminal() {
    if (reads_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    if (told_to_end == 0) return;
    signal(told_to_end, SIG_DFL);
    raise(told_to_end);
  }

  // True as soon as the user wants no more: q, or a signal.
  bool is_left_before(Clock::time_point due) {
    for (Clock::duration left = due - Clock::now(); told_to_end == 0; left = due - Clock::now()) {
      if (left <= Clock::duration::zero()) return false;
      const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
      pollfd key = {reads_ ? STDIN_FILENO : -1, POLLIN, 0};
      if (poll(&key, 1, static_cast<int>(ms)) <= 0) continue;
      char pressed = 0;
      const ssize_t got = read(STDIN_FILENO, &pressed, 1);
      if (got == 1 && (pressed == 'q' || pressed == 'Q')) return true;
      if (got <= 0) std::this_thread::sleep_until(due);  // no terminal any more
    }
    return true;
  }

 private:
  termios before_ = {};
  const bool reads_;
};

bool is_on_terminal(const Context& context, const Asked& asked) {
  return isatty(STDOUT_FILENO) == 1 && !asked.once && !context.json;
}

void print_interval(const Context& context, const Asked& asked, const Interval& interval, bool first) {
  const std::string text = text_of(interval, context.wide ? Width::wide : Width::terminal);
  if (context.json) {
    print("{}", write_json(interval).line());
  } else if (is_on_terminal(context, asked)) {
    // This program itself writes the codes that move the cursor.
    fmt::print("{}{}", first ? "\x1b[2J" : "", redrawn(printable_lines(text) + "\nq: leave\n"));
  } else {
    print("{}{}", first ? "" : "\n", text);
  }
  fflush(stdout);
}

// By controld, or from the targets themselves when it does not answer; then always so.
class Measurer {
 public:
  explicit Measurer(const Context& context) : context_(context) {}
  // Empty: the answer is not understood; code says what it means, and the user was told.
  std::optional<TelemetryAnswer> measure(int& code);
  bool is_direct() const { return is_direct_; }

 private:
  TelemetryAnswer measure_directly() const;
  const Context& context_;
  bool is_direct_ = false;
};

std::optional<TelemetryAnswer> Measurer::measure(int& code) {
  code = kUnreachable;
  if (is_direct_) return measure_directly();
  Patience patience;
  patience.most_ms = kAnswerMs;
  const Result<Document> answer = call_controld(context_.socket, {"telemetry"}, patience);
  if (!answer && is_forbidden(context_.socket)) {
    code = fail(context_, answer.error());
    return std::nullopt;
  }
  if (!answer) {
    print(stderr, "controlctl: {}\n", answer.error());
    say_direct("top", "its targets are asked directly");
    is_direct_ = true;
    return measure_directly();
  }
  if (const std::optional<std::string> error = answer->text("error")) {
    print(stderr, "controlctl: {}\n", *error);
    return std::nullopt;
  }
  Result<TelemetryAnswer> telemetry = read_json<TelemetryAnswer>(*answer);
  if (telemetry) return std::move(*telemetry);
  code = not_understood(telemetry.error());
  return std::nullopt;
}

TelemetryAnswer Measurer::measure_directly() const {
  TelemetryAnswer answer;
  for (const TargetState& state : look_directly(find_place(context_.socket), Look::counters)) {
    answer.targets.push_back(measures_of(state, state.stats.has_value()));
  }
  return answer;
}

int run(const Context& context, const Asked& asked) {
  Terminal terminal(is_on_terminal(context, asked));
  const auto interval = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(asked.interval_s));
  int code = kOk;
  Measurer measurer(context);
  std::optional<TelemetryAnswer> before = measurer.measure(code);
  Clock::time_point due = Clock::now();
  for (bool first = true; before; first = false) {
    due = std::max(due + interval, Clock::now());
    if (terminal.is_left_before(due)) return kOk;
    std::optional<TelemetryAnswer> after = measurer.measure(code);
    if (!after) break;
    print_interval(context, asked, interval_between(*before, *after), first);
    if (asked.once) return measurer.is_direct() ? kUnreachable : kOk;
    before = std::move(after);
  }
  return code;
}

Run configure(Options& options) {
  auto asked = std::make_shared<Asked>();
  options.flag("--once", asked->once, "one interval, then exit");
  options.number("--interval", "S", asked->interval_s, "seconds").range(0.1, 3600);
  return [asked](const Context& context) { return run(context, *asked); };
}

}  // namespace cmd_top

const Command kTop = {
    "top",
    Group::everyday,
    "rates, load, cycles and latency of the data planes, every second",
    "On a terminal it draws over the last interval until q or Ctrl-C. With --json it prints an object "
    "an interval, each on a\nline.",
    cmd_top::configure,
    [](MemberTable& table) {
      table.add<Interval>("top");
      table.add<TelemetryAnswer>("telemetry");
    }};

}  // namespace weir::control::ctl
