#include "common/diagnostic.h"

#include <cstdio>

#include "common/printable.h"

namespace weir {

void Diagnostics::add(Diagnostic diagnostic) {
  size_t& count = diagnostic.severity == Severity::error ? errors_ : warnings_;
  if (count++ < kKept) kept_.push_back(std::move(diagnostic));
}

const Diagnostic* Diagnostics::first_error() const {
  for (const Diagnostic& diagnostic : kept_) {
    if (diagnostic.severity == Severity::error) return &diagnostic;
  }
  return nullptr;
}

void Diagnostics::append(const Diagnostics& other) {
  size_t errors = 0, warnings = 0;
  for (const Diagnostic& d : other.kept_) {
    (d.severity == Severity::error ? errors : warnings)++;
    add(d);
  }
  errors_ += other.errors_ - errors;
  warnings_ += other.warnings_ - warnings;
}

std::string format(const Diagnostic& d) {
  std::string text = printable(d.where.file);
  if (d.where.line != 0) text += ":" + std::to_string(d.where.line);
  if (d.where.line != 0 && d.where.column != 0) text += ":" + std::to_string(d.where.column);
  if (!text.empty()) text += ": ";
  text += d.severity == Severity::error ? "error: " : "warning: ";
  text += printable(d.message) + "\n";
  if (!d.source_line.empty()) {
    char number[16];
    snprintf(number, sizeof number, "%5u | ", d.where.line);
    text += number + printable(d.source_line) + "\n";
  }
  if (!d.hint.empty()) text += "hint: " + printable(d.hint) + "\n";
  return text;
}

std::string format(const Diagnostics& diagnostics) {
  std::string text;
  size_t errors = 0, warnings = 0;
  for (const Diagnostic& d : diagnostics.kept()) {
    text += format(d);
    (d.severity == Severity::error ? errors : warnings)++;
  }
  if (size_t more = diagnostics.errors() - errors) text += "... and " + std::to_string(more) + " more errors\n";
  if (size_t more = diagnostics.warnings() - warnings) text += "... and " + std::to_string(more) + " more warnings\n";
  return text;
}

}  // namespace weir
