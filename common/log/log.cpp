#include "common/log/log.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "common/clock.h"
#include "common/log/limit.h"
#include "common/log/terminal_line.h"
#include "common/log/where.h"
#include "common/printable.h"

namespace weir::log {

namespace {

std::atomic<Level> threshold{Level::info};
std::atomic<Where> where{Where::elsewhere};
std::atomic<bool> is_coloured{false};
std::atomic<bool> has_line{false};  // of progress, on the terminal
constexpr const char* kNoLine = "\r\x1b[K";
std::mutex limit_mutex;
Limit limit;  // by the mutex

const char* name_of(Level level) {
  constexpr const char* kNames[] = {"", "", "", "error", "warning", "notice", "info", "debug"};
  return kNames[static_cast<size_t>(level)];
}

const char* colour_of(Level level) {
  constexpr const char* kColours[] = {"", "", "", "\x1b[1;31m", "\x1b[1;33m", "\x1b[1m", "\x1b[32m", "\x1b[36m"};
  return kColours[static_cast<size_t>(level)];
}

void append_value(std::string& line, std::string_view value) {
  constexpr std::string_view kPlain = "._-/:@+,%[]*~()#;&?<>{}|!^$";
  const auto is_bare = [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || kPlain.find(c) != kPlain.npos;
  };
  const bool is_cut = value.size() > kMostValueBytes;
  const std::string kept = shortened(value, kMostValueBytes);
  value = kept;
  if (!value.empty() && !is_cut && std::all_of(value.begin(), value.end(), is_bare)) {
    line += value;
    return;
  }
  line += '"';
  while (!value.empty()) {
    if (value.front() == '"' || value.front() == '\\') line += '\\';
    append_printable(line, value);
  }
  if (is_cut) line += "...";
  line += '"';
}

std::string time_text() {
  const int64_t now_ms = unix_now_ns() / 1'000'000;
  const time_t now_s = now_ms / 1000;
  tm parts = {};
  localtime_r(&now_s, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec, now_ms % 1000);
}

std::string place_of(const Location& at) {
  if (at.line == 0) return at.file;
  if (at.column == 0) return fmt::format("{}:{}", at.file, at.line);
  return fmt::format("{}:{}:{}", at.file, at.line, at.column);
}

void put(std::string_view line) {
  while (!line.empty()) {
    const ssize_t put = ::write(STDERR_FILENO, line.data(), line.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return;  // nobody takes it: nothing waits for that
    line.remove_prefix(static_cast<size_t>(put));
  }
}

void write(Level level, const char* message, Fields&& fields, bool is_limited = true) {
  if (level <= threshold.load(std::memory_order_relaxed)) write(Event{level, message, std::move(fields), is_limited});
}

}  // namespace

Where where_of(const Surroundings& now) {
  if (now.is_terminal) return Where::terminal;
  if (now.journal_stream != nullptr && now.journal_stream == fmt::format("{}:{}", now.device, now.inode)) {
    return Where::journal;
  }
  const bool is_service = now.exec_pid != nullptr && now.exec_pid == std::to_string(now.pid);
  return is_service && !now.is_file ? Where::journal : Where::elsewhere;
}

void draw_terminal_line(std::string_view text) {
  if (!has_line.exchange(!text.empty()) && text.empty()) return;
  put(fmt::format("{}{}", kNoLine, text));
}

void start() {
  struct stat status = {};
  Surroundings now;
  now.is_terminal = isatty(STDERR_FILENO) == 1;
  if (fstat(STDERR_FILENO, &status) == 0) {
    now.device = status.st_dev;
    now.inode = status.st_ino;
    now.is_file = S_ISREG(status.st_mode) || S_ISCHR(status.st_mode);
  }
  now.journal_stream = getenv("JOURNAL_STREAM");
  now.exec_pid = getenv("SYSTEMD_EXEC_PID");
  now.pid = getpid();
  where = where_of(now);
  const char* no_colour = getenv("NO_COLOR");
  is_coloured = now.is_terminal && (no_colour == nullptr || no_colour[0] == '\0');
  tzset();
}

void set_threshold(Level least) {
  threshold = least;
}

std::string text_of(const Event& event, uint64_t suppressed) {
  std::string line = event.message;
  for (const Field& field : event.fields) {
    const size_t before = line.size();
    line += ' ';
    line += field.key;
    line += '=';
    append_value(line, field.value);
    if (line.size() > kMostBytes) {
      line.erase(before);
      line += " cut=yes";
      break;
    }
  }
  if (suppressed != 0) line += fmt::format(" suppressed={}", suppressed);
  return line;
}

void write(const Event& event) {
  if (event.level > threshold.load(std::memory_order_relaxed)) return;
  uint64_t suppressed = 0;
  if (event.is_limited) {
    const std::lock_guard lock(limit_mutex);
    const std::string_view subject = event.fields.empty() ? std::string_view() : event.fields.front().value;
    const std::optional<uint64_t> admitted = limit.admit(event.message, subject, Clock::now());
    if (!admitted) return;
    suppressed = *admitted;
  }
  const std::string text = text_of(event, suppressed);
  const Where to = where;
  const char* before = to == Where::terminal && has_line.exchange(false) ? kNoLine : "";
  if (to == Where::journal) return put(fmt::format("<{}>{}\n", static_cast<int>(event.level), text));
  const char* level = name_of(event.level);
  if (is_coloured)
    return put(fmt::format("{}{} {}{}\x1b[0m {}\n", before, time_text(), colour_of(event.level), level, text));
  put(fmt::format("{}{} {} {}\n", before, time_text(), level, text));
}

void error(const char* message, Fields fields) {
  write(Level::error, message, std::move(fields));
}
void warning(const char* message, Fields fields) {
  write(Level::warning, message, std::move(fields));
}
void notice(const char* message, Fields fields) {
  write(Level::notice, message, std::move(fields));
}
void info(const char* message, Fields fields) {
  write(Level::info, message, std::move(fields));
}
void debug(const char* message, Fields fields) {
  write(Level::debug, message, std::move(fields));
}
void change(const char* message, Fields fields) {
  write(Level::notice, message, std::move(fields), false);
}

void tell(const Diagnostics& diagnostics, bool is_limited) {
  if (where == Where::terminal) return put(format(diagnostics));
  for (const Diagnostic& one : diagnostics.kept()) {
    const bool is_error = one.severity == Severity::error;
    Event event{is_error ? Level::error : Level::warning, "configuration", {}, is_limited};
    event.fields.emplace_back("place", place_of(one.where));
    event.fields.emplace_back("text", one.message);
    if (!one.hint.empty()) event.fields.emplace_back("hint", one.hint);
    write(event);
  }
}

std::string milliseconds(double ms) {
  return fmt::format("{:.1f}ms", ms);
}

}  // namespace weir::log
