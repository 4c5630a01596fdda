#include "control/policy/feeds/json_records.h"

// MISP's warninglists: {"list": [ENTRY, ...], "matching_attributes": [...], "name": ..., ...}.
namespace weir::control::feeds {
namespace misp {

std::string recognise(std::string_view beginning) {
  const auto has = [&](const char* key) { return beginning.find(key) != std::string_view::npos; };
  return trim(beginning).starts_with('{') && has("\"list\"") && has("\"description\"")
             ? "it begins with the keys of a MISP warninglist"
             : "";
}

Read start(const Options& options, std::string_view /*beginning*/) {
  JsonShape shape;
  shape.paths = {"list"};
  return read_json(std::move(shape), options);
}

}  // namespace misp

extern const Format kMispFormat;
const Format kMispFormat = {"misp", "a MISP warninglist", misp::recognise, misp::start, Parts::bytes, true};

}  // namespace weir::control::feeds
