#include "control/ctl/explain_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "common/own_folder.h"
#include "common/printable.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/policy/model/time_text.h"

namespace weir::control::ctl {

std::string bits_text(const AskedKey& key) {
  std::string text = fmt::format("page {}, ", key.place.page);
  const bool ribbon = key.layout == "ribbon";
  const char* separator = "";
  for (const LineBits& line : key.place.lines) {
    text += fmt::format("{}line {}: bits", std::exchange(separator, "; "), line.line);
    for (const uint32_t bit : line.bits) text += " " + std::to_string(bit);
    if (ribbon) text += " of each word";
  }
  return text;
}

const char* filter_said(const AskedKey& key) {
  const bool ribbon = key.layout == "ribbon";
  if (!key.filter_hit) return ribbon ? "they do not add up" : "not set";
  if (key.rule == 0) return ribbon ? "they add up (false positive)" : "all set (false positive)";
  return ribbon ? "they add up" : "all set";
}

Table table_of(const std::vector<Origin>& origins, bool alone, Table table) {
  for (const Origin& origin : origins) {
    if (origin.alone != alone) continue;
    table.row({origin.list, origin.entry, directions_text(origin.directions), place_text(origin)});
  }
  return table;
}
Table origin_table() {
  return Table({{"list"}, {"entry"}, {"match"}, {"written at"}});
}

void show_table(const char* title, const Table& table) {
  if (!table.empty()) print("\n{}\n{}", title, table.text());
}

void show_more(size_t shown, size_t all) {
  if (shown < all) print("... and {} more\n", all - shown);
}

std::string moment_text(const Moment& moment) {
  std::string text = moment.generation == 0 ? "" : fmt::format("generation {}", moment.generation);
  if (moment.at != 0) {
    text += (text.empty() ? "" : ", of ") + time_text(static_cast<uint32_t>(std::clamp<int64_t>(moment.at, 0, kNever)));
  }
  std::string why = moment.cause;
  if (moment.by) why += (why.empty() ? "by " : ", by ") + user_text(*moment.by);
  return why.empty() ? text : fmt::format("{} ({})", text, why);
}

namespace {

void show_provenance_of(const Origin& origin) {
  const Provenance& from = *origin.provenance;
  const auto line = [](const char* title, const std::string& text) {
    if (!text.empty()) print("  {:9}{}\n", title, printable(text));
  };
  print("\n{}: {} ({})\n", origin.list, printable(origin.entry), printable(place_text(origin)));
  line("line", from.text);
  line("comment", origin.comment);
  std::string columns;
  for (const FeedColumn& column : from.columns) {
    columns += fmt::format("{}{}={}", columns.empty() ? "" : ", ", column.name, column.value);
  }
  line("columns", columns);
  if (from.feed) {
    line("feed", fmt::format("{}, of {}, read {}", from.feed->from, moment_text({0, from.feed->changed_at, "", {}}),
                             moment_text({0, from.feed->taken_at, "", {}})));
  }
  if (from.added_by && from.added_at) line("added", moment_text({0, *from.added_at, "", from.added_by}));
  const std::string since = moment_text(from.since);
  line("since", since.empty() ? "what is kept does not say" : since + (from.or_before ? ", or before" : ""));
  if (from.until) line("until", moment_text(*from.until));
}

}  // namespace

void show_own(const OwnClaims& own) {
  for (const Origin& origin : own.own) {
    print("\npolicy.own holds {} ({}): drop lists match it only by entries with named fields\n",
          printable(origin.entry), printable(place_text(origin)));
  }
  show_table("entries that policy.own is cut out of", table_of(own.cut, true, origin_table()));
}

void show_provenance(const std::vector<Origin>& origins) {
  constexpr size_t kMostShown = 10;
  size_t shown = 0;
  for (const Origin& origin : origins) {
    if (origin.provenance && shown++ < kMostShown) show_provenance_of(origin);
  }
  if (shown > kMostShown) print("\n... and {} more, with --json\n", shown - kMostShown);
}

}  // namespace weir::control::ctl
