#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "control/compile/merge/rule_book.h"
#include "control/compile/prove/lookup.h"
#include "control/lists/book/claims.h"
#include "control/policy/model/list.h"
#include "filter/format/snapshot.h"
#include "filter/read/view.h"

// An answer walks a whole frame as an enforcer does: layers, gates, keys, filters, rules, conditions, verdicts.
namespace weir::control {

// ---------------------------------------------------------------------------------------------------- frame as text

// A frame as people paste it: two hexadecimal digits a byte, in either case; blanks, ends of lines and colons may stand
// between bytes.
//   02 00 00 00 00 01 02 00 00 00 00 02 08 00 45 00
//   02:00:00:00:00:01 02:00:00:00:00:02 0800 4500

constexpr size_t kMostFrameBytes = 65535;

// Error: the place, what is there, then the way out.
Result<std::vector<uint8_t>> parse_frame_text(std::string_view text);

// Digits alone.
std::string frame_text(std::span<const uint8_t> frame);

// --------------------------------------------------------------------------------------------------- place of a key

// The places of a key's bits in its filter, for people. Every layout has them in one page.

struct LineBits {
  uint32_t line;               // in the page, 0..63
  std::vector<uint32_t> bits;  // 0..511, ascending. ribbon: 0..63, the bit in each of the line's eight words
};

struct KeyPlace {
  uint32_t page = 0;
  std::vector<LineBits> lines;  // line8, bitmap: one; page2, ribbon: two; page7: up to seven
};

// hash: of the key; bitmap: its index.
KeyPlace key_place(const filter::ShapeView& shape, uint64_t hash);

// ----------------------------------------------------------------------------------------------------- asking a key

// The walks of `explain` share these: asking one key, following its rule's conditions, the verdict.

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

std::vector<std::string> names_of(const std::vector<std::string>& lists, const weir_set& set);

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

// A judge says what matches, and gives the verdict: by snapshots and their book, or by the lists alone. These hold
// every entry that holds an address, but do not say how filters were asked.
struct Judge {
  const Book& book;
  std::optional<Enforcing> snapshots;  // empty: the lists alone
  weir_snapshot_header header = {};    // its default_action, unparsed_action, tunnels, and masks of lists
  std::vector<std::string> lists;      // their names, in their order

  Judge(const Enforcing& enforcing, const Book& book_of_it);
  Judge(const Book& lists_alone, weir_action default_action, weir_action unparsed_action, uint8_t tunnels);

  // The lists of those of these entries that are wanted.
  template <class Wanted>
  weir_set lists_of(const std::vector<Origin>& origins, Wanted is_wanted) const {
    weir_set found = {};
    for (const Origin& origin : origins) {
      for (unsigned l = 0; l < lists.size(); l++) {
        if (lists[l] == origin.list && is_wanted(origin)) add_list(found, l);
      }
    }
    return found;
  }
  // first_entry(list): the first of its entries that matches.
  Verdict verdict(const weir_set& matched,
                  const std::function<std::optional<Origin>(const std::string& list)>& first_entry) const;
};

constexpr size_t kMaxOrigins = 100;

// Keeps the first kMaxOrigins; returns how many there were.
size_t shorten(std::vector<Origin>& origins);
OwnClaims shortened(OwnClaims own);

// ------------------------------------------------------------------------------------------------------------ frame

struct GateWalk {
  std::string side;          // source | destination
  bool is_asked = true;      // false: an overlay is enforced, too, and its keys are not in the gate that is at hand
  bool lets_through = true;  // false: no key of this side is asked
};

struct ConditionWalk {
  std::string text;  // as ShapeCondition::text
  bool holds = false;
  std::vector<std::string> lists;
};

struct KeyWalk : AskedKey {
  std::string side;                 // source | destination; both: of a flow shape
  std::vector<std::string> always;  // lists of every packet with the key, at this time
  std::vector<ConditionWalk> conditions;
  std::vector<std::string> matched;  // those, and what conditions that hold add
};

struct LayerWalk {
  std::string tunnel;  // of the layer around it, in which this one lies; empty: the outermost
  std::string packet;  // in canonical text
  bool is_incomplete = false;
  std::vector<GateWalk> gates;
  std::vector<KeyWalk> keys;
  Verdict verdict;
  std::vector<Origin> origins;  // every entry that matches: the first kMaxOrigins
  size_t n_origins = 0;         // all
  OwnClaims own;                // of each kind the first kMaxOrigins
};

struct FrameWalk {
  size_t bytes = 0;
  std::string outcome;  // ip | not_ip | malformed
  bool is_incomplete = false;
  std::vector<LayerWalk> layers;  // outer first; none unless it is ip
  // Of the frame. reason: besides, not_ip, and unparsed of a malformed one. matched, monitored: in some layer.
  Verdict verdict;
  size_t layer = 0;  // whose verdict that is, from 1; 0: of none
};

// frame: Ethernet, without FCS. now: Unix seconds. By the lists alone, layers have no gates and no keys.
FrameWalk walk(const Judge& judge, std::span<const uint8_t> frame, uint64_t now);

// The packets of a frame whose tunnels (mask of weir_tunnel) are looked into; none unless it is ip.
std::vector<weir_packet> packets_of(std::span<const uint8_t> frame, uint8_t tunnels);

}  // namespace weir::control
