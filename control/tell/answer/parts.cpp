#include "control/tell/answer/parts.h"

#include <fmt/format.h>

#include "filter/format/snapshot.h"

namespace weir::control {

void members(Fields& f, wire::Generation& generation) {
  f.hex({"epoch", "", "random, one for each state directory of controld"}, generation.epoch);
  f({"number", "", "rises by one with each publication; 0: none"}, generation.number);
}

void members(Fields& f, Diagnostic& diagnostic) {
  std::string severity = diagnostic.severity == Severity::error ? "error" : "warning";
  f({"severity", "", "error or warning"}, severity);
  if (f.reading()) diagnostic.severity = severity == "error" ? Severity::error : Severity::warning;
  f({"file", "", "the policy or a feed"}, diagnostic.where.file);
  f({"line", "", "from 1 on; 0: not known"}, diagnostic.where.line);
  f({"column", "", "from 1 on; 0: not known"}, diagnostic.where.column);
  f({"message", "", "what is wrong, with the value"}, diagnostic.message);
  f({"hint", "", "what to do about it; may be empty"}, diagnostic.hint);
  f({"source", "", "the line as it is in the file; may be empty"}, diagnostic.source_line);
}

void members(Fields& f, Diagnostics& diagnostics) {
  uint64_t errors = diagnostics.errors(), warnings = diagnostics.warnings();
  std::vector<Diagnostic> kept = diagnostics.kept();
  f({"errors", "", "in the policy and its feeds"}, errors);
  f({"warnings", "", "in the policy and its feeds"}, warnings);
  f.array({"diagnostics", "", "the first 100 errors and the first 100 warnings"}, kept, "diagnostic");
  if (f.reading()) diagnostics = Diagnostics(std::move(kept), errors, warnings);
}

std::string first_error_text(const Diagnostics& diagnostics) {
  const Diagnostic* first = diagnostics.first_error();
  if (first == nullptr) return "";
  const Location& where = first->where;
  return (where.line == 0 ? where.file : fmt::format("{}:{}", where.file, where.line)) + ": " + first->message;
}

void members(Fields& f, TargetOutcome& outcome) {
  f({"socket", "", "names the target: the path of a data plane's socket, or xdp:eth0,eth1"}, outcome.socket);
  f({"acknowledged", "", "it enforces what it was told, and has it on disk"}, outcome.acknowledged);
  f({"error", "", "why not; empty: it does"}, outcome.error);
}

void members(Fields& f, RefusedFeed& refused) {
  f({"list", "", "name of the list, which keeps what it had of a feed"}, refused.list);
  f({"file", "", "path of what is not taken"}, refused.file);
  f({"reason", "", "why, with the numbers"}, refused.reason);
  f({"hint", "", "the way out"}, refused.hint);
  f({"since", "Unix seconds", "when it was refused for this reason, the first time in a row"}, refused.since);
}

void members(Fields& f, WarnedFeed& warned) {
  f({"list", "", "name of the list"}, warned.list);
  f({"file", "", "path of the feed"}, warned.file);
  f({"reason", "", "the warning, which begins behind the path"}, warned.reason);
  f({"hint", "", "the way out"}, warned.hint);
}

void directions(Fields& f, const Member& member, uint8_t& mask) {
  std::vector<std::string> names;
  if ((mask & WEIR_AS_SOURCE) != 0) names.emplace_back("src");
  if ((mask & WEIR_AS_DESTINATION) != 0) names.emplace_back("dst");
  f.texts(member, names);
  if (!f.reading()) return;
  mask = 0;
  for (const std::string& name : names) {
    const int side = name == "src" ? WEIR_AS_SOURCE : WEIR_AS_DESTINATION;
    mask = static_cast<uint8_t>(mask | side);
  }
}

}  // namespace weir::control
