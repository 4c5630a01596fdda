#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "control/compile/merge/rule_book.h"
#include "control/compile/prove/lookup.h"
#include "control/lists/book/claims.h"
#include "control/tell/answer/key_place.h"
#include "filter/read/view.h"

// What the walks of `explain` share: asking one key, following what its rule asks besides, the verdict.
namespace weir::control {

// One key of one shape.
struct AskedKey {
  std::string shape;   // as ShapeReport::name
  std::string key;     // canonical text, e.g. 203.0.113.7/32
  std::string layout;  // of its filter
  uint64_t hash = 0;   // 0 for a bitmap
  KeyPlace place;      // of the key's bits in the filter
  bool filter_hit = false;
  uint32_t rule = 0;  // 0 = none
};

// All but the key's text, and its rule. is_of_overlay: the name of the shape says so.
void ask_filter(const filter::ShapeView& shape, const filter::Key& key, bool is_of_overlay, AskedKey& asked);

std::vector<std::string> lists_of(const filter::SnapshotView& snapshot);  // their names
std::vector<std::string> names_of(const std::vector<std::string>& lists, const weir_set& set);
std::vector<std::string> names_of(const filter::SnapshotView& snapshot, const weir_set& set);

// What a residual asks, as `tcp dport 8000-8010`; one that has ended says so.
std::string condition_text(const weir_residual& residual, uint8_t family, uint64_t now);

// A rule's chain. Returns the lists that every packet with the key has now; visit(residual, text) for the others.
template <class Visit>
weir_set follow_chain(const filter::SnapshotView& snapshot, uint32_t chain, uint8_t family, uint64_t now, Visit visit) {
  weir_set lists = {};
  snapshot.visit_chain(chain, [&](const weir_residual& residual) {
    if (residual.asks == WEIR_ASKS_EXPIRES && now < residual.expires_unix_s) {
      lists = lists | snapshot.set(residual.set);
    } else {
      visit(residual, condition_text(residual, family, now));
    }
  });
  return lists;
}

struct Verdict {
  std::string action;                  // pass | drop
  std::string reason;                  // the list credited, or "default"
  std::optional<Origin> because;       // the first entry of that list that matches; empty: none decides
  std::vector<std::string> matched;    // every list that matches
  std::vector<std::string> monitored;  // of those, lists that only monitor
};

// lists: their names, in their order. first_entry(list): the first of its entries that matches.
Verdict verdict_of(const weir_snapshot_header& header, const std::vector<std::string>& lists, const weir_set& matched,
                   const std::function<std::optional<Origin>(const std::string& list)>& first_entry);
Verdict verdict_of(const filter::SnapshotView& snapshot, const weir_set& matched,
                   const std::function<std::optional<Origin>(const std::string& list)>& first_entry);

// Lists without a snapshot that they were compiled to: they say what matches, but not how filters were asked.
struct ListsAlone {
  const Book& book;
  weir_snapshot_header header = {};  // its default_action, unparsed_action, tunnels, and masks of lists
  std::vector<std::string> names;    // of the lists

  ListsAlone(const Book& lists, weir_action default_action, weir_action unparsed_action, uint8_t tunnels);
  // Those of these entries.
  template <class Wanted>
  weir_set lists_of(const std::vector<Origin>& origins, Wanted is_wanted) const {
    weir_set lists = {};
    for (const Origin& origin : origins) {
      for (unsigned l = 0; l < names.size(); l++) {
        if (names[l] == origin.list && is_wanted(origin)) add_list(lists, l);
      }
    }
    return lists;
  }
};

constexpr size_t kMaxOrigins = 100;

// Keeps the first kMaxOrigins; returns how many there were.
size_t shorten(std::vector<Origin>& origins);

}  // namespace weir::control
