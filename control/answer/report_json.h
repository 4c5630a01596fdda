#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "common/diagnostic.h"
#include "common/wire.h"
#include "control/answer/explain.h"
#include "control/answer/summary.h"
#include "control/compile/compile.h"

// JSON of what both controld's API and `controlctl check` report. docs/use/control.md lists every member.
namespace weir::control {

using Json = nlohmann::ordered_json;  // members in the order in which they are written here

// One line. Bytes that are no UTF-8 (names of files) become U+FFFD instead of an exception.
std::string to_line(const Json& json);

Json to_json(wire::Generation generation);  // {"epoch": 16 hex digits, "number": N}
Json to_json(const Diagnostics& diagnostics);
Json to_json(const ListSummary& list);
Json to_json(const ShapeReport& shape);
Json to_json(const Explanation& explanation);

}  // namespace weir::control
