#include "control/read/list_settings.h"

#include <string>

#include "control/model/time_text.h"
#include "control/read/policy_file.h"

namespace weir::control {
namespace {

using yaml::MapReader;
using yaml::Node;

// Seconds; empty: the key is not there, or no time.
std::optional<uint32_t> read_duration(MapReader& reader, const char* key, const char* examples) {
  const auto text = reader.text(key);
  if (!text) return std::nullopt;
  const auto seconds = parse_duration(*text);
  if (!seconds) {
    reader.error(*reader.find(key), quoted(key) + " is " + quoted(*text) + ": it must be a time like " + examples,
                 "s, m, h, d and w are seconds, minutes, hours, days and weeks; at least 1s");
  }
  return seconds;
}

}  // namespace

Guard read_guard(const yaml::Document& document, const Node* section, Diagnostics& diagnostics) {
  constexpr uint64_t kMostEntries = 0xffff'ffff;  // a feed has no more lines
  constexpr double kMostGrowth = 10'000;
  MapReader reader(document, section, "`guard`", diagnostics);
  Guard guard;
  guard.min_entries = reader.integer("min_entries", 0, kMostEntries).value_or(guard.min_entries);
  if (const auto percent = reader.number_of("max_shrink", "%", 0, 100)) guard.max_shrink = *percent / 100;
  guard.max_growth = reader.number_of("max_growth", "x", 1, kMostGrowth).value_or(guard.max_growth);
  if (const auto chosen = reader.choice("reserved", {"keep", "warn", "cut", "refuse"})) {
    guard.reserved = static_cast<Reserved>(*chosen);
  }
  guard.widest_v4 = static_cast<uint8_t>(reader.integer("widest_v4", 0, 32).value_or(guard.widest_v4));
  guard.widest_v6 = static_cast<uint8_t>(reader.integer("widest_v6", 0, 128).value_or(guard.widest_v6));
  reader.finish();
  return guard;
}

std::optional<Dynamic> read_dynamic(MapReader& list, bool allow_any) {
  constexpr uint64_t kMostEntries = 10'000'000;
  Dynamic dynamic;
  dynamic.allow_any = allow_any;
  dynamic.max_entries = list.integer("max_entries", 1, kMostEntries).value_or(dynamic.max_entries);
  dynamic.max_ttl_s = read_duration(list, "max_ttl", "10m, 24h or 7d").value_or(0);
  if (list.boolean("dynamic").value_or(false)) return dynamic;
  for (const char* key : {"max_entries", "max_ttl"}) {
    const Node* bound = list.find(key);
    if (bound == nullptr) continue;
    list.error(*bound, quoted(key) + " bounds what `controlctl add` may do, and this list is not dynamic",
               "write `dynamic: true` in the list, or take it out");
  }
  return std::nullopt;
}

uint8_t read_ipv6_aggregate(MapReader& list, bool allow_any) {
  const auto bits = static_cast<uint8_t>(list.integer("ipv6_aggregate", 0, 128).value_or(128));
  if (bits == 0 && !allow_any) {
    list.error(*list.find("ipv6_aggregate"), "`ipv6_aggregate: 0` makes every IPv6 host all addresses",
               "write `allow_any: true` in the list if that is what you want");
  }
  return bits;
}

HistorySettings read_history(const yaml::Document& document, const Node* section, Diagnostics& diagnostics) {
  constexpr uint64_t kLeastKept = uint64_t{1} << 20, kMostKept = uint64_t{1} << 40;
  MapReader reader(document, section, "`history`", diagnostics);
  HistorySettings history;
  history.size_bytes = reader.size_bytes("size", kLeastKept, kMostKept).value_or(history.size_bytes);
  history.keep_s = read_duration(reader, "keep", "12h, 7d or 4w").value_or(history.keep_s);
  reader.finish();
  return history;
}

}  // namespace weir::control
