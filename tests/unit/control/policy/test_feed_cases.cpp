// feed_cases.yaml: feeds of ten kinds in which readers go wrong, and what a careful operator expects of each. Judged as
// tests/drawn judges random ones, but with the counts that the row says.
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <variant>

#include "control/policy/feeds/entry_text.h"
#include "control/policy/feeds/reading.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::control;

namespace {

constexpr const char* kCases = "tests/unit/control/policy/feed_cases.yaml";
constexpr size_t kLeastOfAKind = 10;

template <class Addr>
std::string text_of(const Entry<Addr>& entry) {
  return to_string(entry.first) + "-" + to_string(entry.last) + ":" + std::to_string(entry.port);
}

// Of `203.0.113.0/24` as an entry of a list says it.
std::string text_of(const std::string& entry) {
  const EntryText parsed = parse_entry(entry);
  if (const auto* v4 = std::get_if<ParsedEntry<Ipv4>>(&parsed)) return text_of(*v4);
  if (const auto* v6 = std::get_if<ParsedEntry<Ipv6>>(&parsed)) return text_of(*v6);
  FAIL("no entry: " << entry);
  return "";
}

struct Outcome {
  bool is_refused = false;
  std::string refusal;
  std::set<std::string> entries;
  uint64_t bad = 0, skipped = 0;

  std::string text() const {
    std::string all = is_refused ? "refused: " + refusal : "read:";
    for (const std::string& entry : entries) all += " " + entry;
    return all + "; " + std::to_string(bad) + " bad, " + std::to_string(skipped) + " skipped";
  }
};

std::string text_at(const YAML::Node& row, const char* key, const char* usual) {
  return row[key] ? row[key].as<std::string>() : usual;
}

Outcome read(const YAML::Node& row, size_t at_once) {
  feeds::Options options;
  options.action = text_at(row, "action", "drop") == "pass" ? WEIR_PASS : WEIR_DROP;
  options.directions = text_at(row, "match", "src") == "dst" ? WEIR_AS_DESTINATION : WEIR_AS_SOURCE;
  std::string name = "auto";
  if (const YAML::Node format = row["format"]; format && format.IsMap()) {
    name = format.begin()->first.as<std::string>();
    const YAML::Node settings = format.begin()->second;
    for (const auto& setting : settings) {
      options.settings += (options.settings.empty() ? "" : ",") + setting.first.as<std::string>() + "=" +
                          setting.second.as<std::string>();
    }
  } else if (format) {
    name = format.as<std::string>();
  }
  feeds::Reading reading(name == "auto" ? nullptr : feeds::find_format(name), options);
  const auto feed = row["feed"].as<std::string>();
  ListDraft list;
  for (size_t at = 0; at < feed.size(); at += at_once) {
    reading.read(std::string_view(feed).substr(at, at_once), false, list);
  }
  reading.read({}, true, list);
  Outcome outcome;
  for (const auto& entry : list.v4) outcome.entries.insert(text_of(entry));
  for (const auto& entry : list.v6) outcome.entries.insert(text_of(entry));
  outcome.bad = list.feed.bad;
  outcome.skipped = list.feed.skipped;
  outcome.is_refused = list.fault || outcome.entries.empty();  // the guard refuses a feed without entries
  outcome.refusal = list.fault ? list.fault->reason : "has no entries";
  return outcome;
}

bool meets(const Outcome& outcome, const YAML::Node& expect) {
  if (const YAML::Node any = expect["any_of"]) {
    return std::any_of(any.begin(), any.end(), [&](const YAML::Node& one) { return meets(outcome, one); });
  }
  if (expect["refused"]) return outcome.is_refused;
  if (outcome.is_refused) return false;
  std::set<std::string> wanted;
  for (const YAML::Node& entry : expect["entries"]) wanted.insert(text_of(entry.as<std::string>()));
  if (outcome.entries != wanted) return false;
  const auto number = [&](const char* key) { return expect[key] ? expect[key].as<uint64_t>() : 0; };
  const uint64_t both = outcome.bad + outcome.skipped;
  if (expect["counted"]) return both == number("counted");
  if (expect["counted_at_least"]) return both >= number("counted_at_least");
  return outcome.bad == number("bad") && outcome.skipped == number("skipped");
}

}  // namespace

TEST_CASE("feeds are read as a careful operator wants") {
  std::map<std::string, size_t> kinds;
  std::set<std::string> names;
  for (const YAML::Node& row : YAML::LoadFile(kCases)) {
    const auto name = row["name"].as<std::string>(), kind = row["kind"].as<std::string>();
    kinds[kind]++;
    CHECK(names.insert(name).second);
    INFO(kind << " " << name << ":\n" << row["feed"].as<std::string>() << "\nexpected: " << YAML::Dump(row["expect"]));
    for (const size_t at_once : {size_t{1} << 20, size_t{1}, size_t{7}}) {
      const Outcome outcome = read(row, at_once);
      INFO("in parts of " << at_once << ": " << outcome.text());
      CHECK(meets(outcome, row["expect"]));
    }
  }
  for (int kind = 1; kind <= 10; kind++) CHECK(kinds["K" + std::to_string(kind)] >= kLeastOfAKind);
}
