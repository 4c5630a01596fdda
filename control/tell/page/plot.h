#pragma once

#include <string>
#include <vector>

#include "control/tell/page/facts.h"
#include "control/tell/page/html.h"

// Drawings of the last minutes.
namespace weir::control::page {

// Values at the times of Looks::rates().
struct Series {
  std::string name;
  std::vector<double> values;
  double sum = 0;
};

struct History {
  double from = 0, to = 0;                       // Unix seconds
  std::vector<double> at;                        // rising
  std::vector<double> packets, passed, dropped;  // a second
  std::vector<Series> lists;  // what each did: dropped, would have dropped, let pass; those of `shown` alone
};

constexpr size_t kDrawnLists = 8;   // of the drawing of drops
constexpr size_t kShownLists = 20;  // whose rows are shown at once, each with a drawing of its own

// The lists that matched most so far, kShownLists at most, in the order of the policy.
std::vector<const ListDetails*> shown_lists(const Facts& facts);
// shown: names of lists.
History history_of(const Facts& facts, const std::vector<const ListDetails*>& shown);
// Of these, those that dropped most in these minutes, kDrawnLists at most, the first one most.
std::vector<const Series*> most_dropping(const Facts& facts, const History& history);
bool is_enforced_drop(const ListDetails& list);

// 1, 2 or 5 times a power of ten: at least the value, and 1 at least.
double nice_above(double value);

void draw_traffic(Html& html, const History& history);
void draw_drops(Html& html, const History& history, const std::vector<const Series*>& series);
void draw_spark(Html& html, const History& history, const Series& series);

// What the drawings say, for whoever cannot see them.
std::string traffic_text(const History& history);
std::string drops_text(const std::vector<const Series*>& series, const History& history);

}  // namespace weir::control::page
