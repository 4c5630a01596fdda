#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace weir {

// A place in a file the user wrote. line and column count from 1; 0 = unknown.
struct Location {
  std::string file;
  uint32_t line = 0;
  uint32_t column = 0;
};

enum class Severity : uint8_t { error, warning };

struct Diagnostic {
  Severity severity = Severity::error;
  Location where;
  std::string message;      // names the value that is wrong
  std::string source_line;  // the line as the user wrote it; empty when there is none
  std::string hint;         // the way out; empty when there is none
};

// All that is wrong with one input. The first 100 errors and the first 100 warnings are kept, all are counted.
class Diagnostics {
 public:
  static constexpr size_t kKept = 100;

  Diagnostics() = default;
  // Another program told these: the diagnostics that it kept, and its counts of all.
  Diagnostics(std::vector<Diagnostic> kept, size_t errors, size_t warnings)
      : kept_(std::move(kept)), errors_(errors), warnings_(warnings) {}

  void add(Diagnostic diagnostic);
  void append(const Diagnostics& other);

  const std::vector<Diagnostic>& kept() const { return kept_; }
  size_t errors() const { return errors_; }
  size_t warnings() const { return warnings_; }
  bool ok() const { return errors_ == 0; }
  const Diagnostic* first_error() const;  // null: there is none

 private:
  std::vector<Diagnostic> kept_;
  size_t errors_ = 0;
  size_t warnings_ = 0;
};

// FILE:LINE:COLUMN: error: MESSAGE, the source line under it, then the hint:
//   edge.yaml:17:10: error: prefix length 33 is larger than 32
//      17 |   - src: 203.0.113.0/33
//   hint: an IPv4 prefix is /0 to /32
// Its texts are printable(): a value of a file adds no line.
std::string format(const Diagnostic& diagnostic);
// Every kept one, then a line that says how many more there are, if any.
std::string format(const Diagnostics& diagnostics);

}  // namespace weir
