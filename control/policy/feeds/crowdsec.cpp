#include "control/policy/feeds/json_records.h"
#include "control/policy/model/time_text.h"

// CrowdSec's decisions: what `cscli decisions list -o json` and the local API print (an array of decisions, alerts that
// hold them, or {"new": [...], "deleted": [...]}). Bans of addresses and ranges count; until when, they say.
namespace weir::control::feeds {
namespace crowdsec {

std::string_view other(const JsonRecord& record, const char* key) {
  const auto found = record.others.find(key);
  return found == record.others.end() ? std::string_view() : std::string_view(found->second);
}

Outcome take_record(const JsonRecord& record, const Options& options, ListDraft& list) {
  const std::string_view duration = other(record, "duration"), until = other(record, "until");
  if (record.parts[0].empty() && duration.empty()) return {};  // an alert
  if (record.path == "deleted") return Outcome::skip("a decision that is deleted");
  const std::string scope = lower(other(record, "scope")), type = lower(other(record, "type"));
  if (scope != "ip" && scope != "range") return Outcome::skip("a decision of another scope");
  if (!type.empty() && type != "ban") return Outcome::skip("a decision that is no ban");
  if (other(record, "simulated") == "true") return Outcome::skip("a decision that is simulated");
  At at = {record.line};
  if (const auto time = parse_time(std::string(until))) {
    at.expires = *time;
  } else if (duration.starts_with('-')) {
    return Outcome::skip("a decision that is over");
  } else if (!duration.empty()) {
    const auto seconds = duration_seconds(duration);
    if (!seconds) return "the duration is no time";
    at.expires = expires_after(*seconds, options);
  }
  return take_parts(record, at, options, list);
}

std::string recognise(std::string_view beginning) {
  const auto has = [&](const char* key) { return beginning.find(key) != std::string_view::npos; };
  return begins_json(trim(beginning)) && has("\"duration\"") && has("\"scope\"") && has("\"value\"")
             ? "it begins with the keys of CrowdSec's decisions"
             : "";
}

Read start(const Options& options, std::string_view /*beginning*/) {
  JsonShape shape;
  shape.paths = {"", "new", "deleted", "decisions"};
  shape.names[0] = {"value"};
  shape.others = {"duration", "until", "scope", "type", "simulated"};
  shape.take = take_record;
  return read_json(std::move(shape), options);
}

}  // namespace crowdsec

extern const Format kCrowdSecFormat;
const Format kCrowdSecFormat = {
    "crowdsec",          "CrowdSec's decisions: bans of addresses and ranges, until they are over",
    crowdsec::recognise, crowdsec::start,
    Parts::bytes,        true};

}  // namespace weir::control::feeds
