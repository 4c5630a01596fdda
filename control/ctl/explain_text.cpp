#include "control/ctl/explain_text.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "control/ctl/print.h"

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
  if (!table.empty()) fmt::print("\n{}\n{}", title, table.text());
}

void show_more(size_t shown, size_t all) {
  if (shown < all) fmt::print("... and {} more\n", all - shown);
}

}  // namespace weir::control::ctl
