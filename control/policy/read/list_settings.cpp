#include "control/policy/read/list_settings.h"

#include <string>

#include "control/policy/model/time_text.h"
#include "control/policy/read/policy_file.h"

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

Guard read_guard(MapReader reader) {
  Guard guard;
  reader.take("min_entries", guard.min_entries);
  if (const auto percent = reader.number("max_shrink")) guard.max_shrink = *percent / 100;
  reader.take("max_growth", guard.max_growth);
  reader.take("reserved", guard.reserved);
  reader.take("widest_v4", guard.widest_v4);
  reader.take("widest_v6", guard.widest_v6);
  reader.take("supplies", guard.supplies);
  reader.finish();
  return guard;
}

std::optional<Dynamic> read_dynamic(MapReader& list, bool allow_any) {
  Dynamic dynamic;
  dynamic.allow_any = allow_any;
  list.take("max_entries", dynamic.max_entries);
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
  const auto bits = static_cast<uint8_t>(list.integer("ipv6_aggregate").value_or(128));
  if (bits == 0 && !allow_any) {
    list.error(*list.find("ipv6_aggregate"), "`ipv6_aggregate: 0` makes every IPv6 host all addresses",
               "write `allow_any: true` in the list if that is what you want");
  }
  return bits;
}

HistorySettings read_history(MapReader reader) {
  HistorySettings history;
  reader.take("size", history.size_bytes);
  history.keep_s = read_duration(reader, "keep", "12h, 7d or 4w").value_or(history.keep_s);
  reader.finish();
  return history;
}

PlanSettings read_plan(MapReader reader) {
  PlanSettings plan;
  if (const auto percent = reader.number("max_newly_dropped")) plan.max_newly_dropped = *percent / 100;
  if (const auto percent = reader.number("max_newly_passed")) plan.max_newly_passed = *percent / 100;
  reader.take("samples", plan.samples);
  reader.take("recent", plan.recent_s);
  const bool has_limit = plan.max_newly_dropped || plan.max_newly_passed;
  if (has_limit && plan.samples == 0) {
    reader.warning(*reader.find("samples"), "`plan.samples` is 0: no traffic is known that a limit could be held to",
                   "take `samples` out, or the limits");
  }
  reader.finish();
  return plan;
}

MetricsSettings read_metrics(MapReader reader) {
  MetricsSettings metrics;
  if (const auto listen = reader.text("listen")) {
    const Result<MetricsSettings> read = parse_metrics_settings(*listen);
    if (read) {
      metrics = *read;
    } else {
      reader.error(*reader.find("listen"), "`listen` is no address to serve metrics at: `" + *listen + "`",
                   read.error());
    }
  }
  reader.finish();
  return metrics;
}

}  // namespace weir::control
