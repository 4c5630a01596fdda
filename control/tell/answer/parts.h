#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/diagnostic.h"
#include "common/wire.h"
#include "control/base/json/fields.h"

// What several answers have.
namespace weir::control {

void members(Fields& f, wire::Generation& generation);
void members(Fields& f, Diagnostic& diagnostic);
void members(Fields& f, Diagnostics& diagnostics);
// FILE:LINE: MESSAGE of the first error; empty: there is none.
std::string first_error_text(const Diagnostics& diagnostics);

struct TargetOutcome {
  std::string socket;  // or what else names it
  bool acknowledged = false;
  std::string error;  // why not
};
void members(Fields& f, TargetOutcome& outcome);

// A feed that is not taken: its list keeps its last good content.
struct RefusedFeed {
  std::string list, file, reason, hint;
  int64_t since = 0;
};
void members(Fields& f, RefusedFeed& refused);

// A warning about the content of a feed that is enforced.
struct WarnedFeed {
  std::string list, file, reason, hint;
};
void members(Fields& f, WarnedFeed& warned);

// src, dst: a mask of weir_direction.
void directions(Fields& f, const Member& member, uint8_t& mask);

}  // namespace weir::control
