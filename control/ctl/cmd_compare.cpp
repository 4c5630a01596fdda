#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/tell/answer/economics.h"

namespace weir::control::ctl {

namespace cmd_compare {

constexpr auto kRight = Table::Align::right;

std::string share_of(uint64_t part, uint64_t whole) {
  return whole == 0 ? "" : percent(static_cast<double>(part) / static_cast<double>(whole));
}

void show_verdicts(const ListsAnswer& answer) {
  for (const ListVerdict& verdict : answer.verdicts) print("{}\n", verdict.text);
  if (answer.verdicts.empty()) print("every list holds something that no other list does\n");
}

// What each holds, and who else does.
std::string contents_text(const ListsAnswer& answer) {
  Table table({{"list"},
               {"action"},
               {"mode"},
               {"entries", kRight},
               {"IPv4 addresses", kRight},
               {"unique entries", kRight},
               {"share", kRight},
               {"held most by"},
               {"share", kRight}});
  for (const ListEconomics& list : answer.lists) {
    const bool is_held = !list.held_by.empty();
    table.row({list.name, list.action, list.mode, count(list.entries), count(list.addresses),
               count(list.unique_entries), share_of(list.unique_entries, list.entries),
               is_held ? list.held_by[0].list : "-", is_held ? share_of(list.held_by[0].entries, list.entries) : ""});
  }
  return table.text();
}

std::string effects_text(const ListsAnswer& answer) {
  Table table({{"list"},
               {"matched", kRight},
               {"dropped", kRight},
               {"it alone", kRight},
               {"would drop", kRight},
               {"it alone", kRight},
               {"never hit", kRight},
               {"bytes", kRight},
               {"share", kRight},
               {"for it alone", kRight},
               {"probes", kRight},
               {"changed"},
               {"changes a day", kRight}});
  for (const ListEconomics& list : answer.lists) {
    table.row({list.name, count(list.counted.matched), count(list.counted.dropped), count(list.counted.dropped_alone),
               count(list.counted.would_drop), count(list.counted.would_drop_alone),
               list.hits ? count(list.hits->never) : "-", bytes(list.cost.bytes),
               share_of(list.cost.bytes, answer.snapshot_bytes), bytes(list.cost.bytes_alone), count(list.cost.probes),
               list.churn.changed_at == 0 ? "-" : age(list.churn.changed_at),
               list.churn.per_day ? fmt::format("{:.1f}", *list.churn.per_day) : "-"});
  }
  return table.text();
}

struct Pair {
  const ListEconomics* list;
  const HeldBy* held;
  double share() const { return static_cast<double>(held->entries) / static_cast<double>(list->entries); }
};

std::string pairs_text(const ListsAnswer& answer) {
  constexpr size_t kMost = 12;
  constexpr double kLeastShare = 0.05;
  std::vector<Pair> pairs;
  for (const ListEconomics& list : answer.lists) {
    for (const HeldBy& held : list.held_by) {
      if (list.entries != 0 && Pair{&list, &held}.share() >= kLeastShare) pairs.push_back({&list, &held});
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) { return a.share() > b.share(); });
  if (pairs.empty()) return "";
  Table table({{"of list"}, {"is in"}, {"entries", kRight}, {"share", kRight}, {"of IPv4 addresses", kRight}});
  for (size_t i = 0; i < std::min(kMost, pairs.size()); i++) {
    const auto& [list, held] = pairs[i];
    table.row({list->name, held->list, count(held->entries), share_of(held->entries, list->entries),
               share_of(held->addresses, list->addresses)});
  }
  const size_t left = pairs.size() - std::min(kMost, pairs.size());
  return table.text() + (left == 0 ? "" : fmt::format("and {} weaker ones: --matrix\n", plural(left, "pair")));
}

// Of the row's list the share of entries that the column's list holds, in hundredths. Lists are numbered: names are
// long.
void show_matrix(const ListsAnswer& answer) {
  std::vector<std::string> numbers;
  for (size_t l = 0; l < answer.lists.size(); l++) numbers.push_back(std::to_string(l + 1));
  std::vector<Table::Column> columns = {{"% of entries"}, {"", kRight}};
  for (const std::string& number : numbers) columns.push_back({number.c_str(), kRight});
  Table table(columns);
  for (size_t l = 0; l < answer.lists.size(); l++) {
    const ListEconomics& list = answer.lists[l];
    std::vector<std::string> cells = {list.name, numbers[l]};
    for (const ListEconomics& by : answer.lists) {
      const auto held = std::find_if(list.held_by.begin(), list.held_by.end(),
                                     [&](const HeldBy& one) { return one.list == by.name; });
      const bool is_itself = &by == &list;
      const uint64_t entries = held == list.held_by.end() ? 0 : held->entries;
      cells.push_back(is_itself      ? "-"
                      : entries == 0 ? "."
                                     : fmt::format("{:.0f}", 100 * static_cast<double>(entries) /
                                                                 static_cast<double>(list.entries)));
    }
    table.row(std::move(cells));
  }
  print("\n{}", table.text());
}

void show(const ListsAnswer& answer) {
  uint64_t entries = 0;
  for (const ListEconomics& list : answer.lists) entries += list.entries;
  show_verdicts(answer);
  print("\ngeneration {}: {}, {}, compared {} in {}\n\n{}", generation_text(answer.generation),
        plural(answer.lists.size(), "list"), plural(entries, "entry", "entries"), age(answer.at),
        milliseconds(answer.took_ms), contents_text(answer));
  if (const std::string pairs = pairs_text(answer); !pairs.empty()) print("\n{}", pairs);
  print("\n{} judged", plural(answer.packets, "frame"));
  if (answer.counted_since != 0) print(", counted since {}", age(answer.counted_since));
  print("; {} looked for hits in; {} of gates are shared by all lists\n\n{}", plural(answer.samples, "sampled packet"),
        bytes(answer.gate_bytes), effects_text(answer));
}

void show_all(const ListsAnswer& answer) {
  show(answer);
  show_matrix(answer);
}

Run configure(Options& options) {
  auto matrix = std::make_shared<bool>(false);
  options.flag("--matrix", *matrix, "of every list, the share of its entries that each other list holds");
  return [matrix](const Context& context) { return request(context, {"lists"}, *matrix ? show_all : show); };
}

}  // namespace cmd_compare

const Command kCompare = {
    "compare",
    Group::look,
    "what each list is worth and costs: what it alone holds and drops, its overlap with others, its bytes",
    "It begins with the lists that can go, the pairs that are one, and the list that costs most for the fewest drops. "
    "`list` shows what is in the lists. The comparison is made once a generation, and takes a second or two with "
    "millions of entries.",
    cmd_compare::configure,
    [](MemberTable& table) { table.add<ListsAnswer>("lists"); },
    false,
    "lists"};

}  // namespace weir::control::ctl
