#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/diagnostic.h"

// What programs say of what happens: one event, one line on stderr, for people and for machines:
//     published generation=17 cause="feeds/scanners.txt changed" lists=3 took=38.1ms
// docs/operate/logs.md.
namespace weir::log {

// As syslog(3) numbers them. notice: what is enforced changed, or by whom it is.
enum class Level : uint8_t { none = 0, error = 3, warning = 4, notice = 5, info = 6, debug = 7 };

struct Field {
  std::string_view key;  // [a-z_]+, of the program's text
  std::string value;     // whatever comes from outside
  Field(std::string_view its_key, std::string its_value) : key(its_key), value(std::move(its_value)) {}
  Field(std::string_view its_key, std::string_view its_value) : key(its_key), value(its_value) {}
  Field(std::string_view its_key, const char* its_value) : key(its_key), value(its_value) {}
  template <class Number>
  requires std::is_arithmetic_v<Number> Field(std::string_view its_key, Number number) : key(its_key) {
    if constexpr (std::is_same_v<Number, bool>) {
      value = number ? "yes" : "no";
    } else {
      value = std::to_string(number);
    }
  }
};
using Fields = std::vector<Field>;

struct Event {
  Level level = Level::info;
  const char* message = "";  // plain words of the program, none of them with = or "; names the event, too
  Fields fields;             // the first value is the event's subject: of a list, a target, a port
  // Of more than a few such events of a subject within seconds, only how many there were is said.
  bool is_limited = true;
};

// Looks once at where stderr goes: a terminal, systemd's journal (then lines begin with <LEVEL>, and have no time), or
// something else. Before threads, and before rights are given up. Events before that go out as for something else.
void start();
// Events that are less urgent are left out; none: all are. info at the start.
void set_threshold(Level least);

// Writes one line by one system call. Any thread; waits for stderr alone.
void write(const Event& event);

void error(const char* message, Fields fields = {});
void warning(const char* message, Fields fields = {});
void notice(const char* message, Fields fields = {});
void info(const char* message, Fields fields = {});
void debug(const char* message, Fields fields = {});
// What is enforced changed, or somebody ordered it: notice, and never left out.
void change(const char* message, Fields fields = {});

// As many events: "configuration place=weir.yaml:17:10 text=... hint=..."; on a terminal as the text that
// everybody knows from compilers, with the line of the file.
void tell(const Diagnostics& diagnostics, bool is_limited = false);

std::string milliseconds(double ms);  // 38.1ms

// "message key=value key=..." without level and time. A value that is not plain is quoted, and nothing in it can end
// the line, forge a field or move a terminal's cursor: \n, \t, \r, \", \\, and what common/printable.h makes an escape.
// Longer than kMostBytes: cut, and "..." says so.
std::string text_of(const Event& event, uint64_t suppressed = 0);
constexpr size_t kMostBytes = 3900;       // of a line: pipes take it as a whole (PIPE_BUF)
constexpr size_t kMostValueBytes = 1024;  // of a value as it came

}  // namespace weir::log
