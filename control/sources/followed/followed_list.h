#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "control/policy/model/time_text.h"

// A dynamic list of controld follows a source: CrowdSec's decisions, a peer's rules of FlowSpec, the entries of a
// fleet.
namespace weir::control {

// It knows the entries that the source claims and those that the list has, and tells the next change of the list. It
// has no thread, socket or clock: the caller tells the time (Unix seconds), carries a change out, and tells its
// outcome. A change whose outcome is not known is told again.
class FollowedList {
 public:
  FollowedList() = default;
  FollowedList(const FollowedList&) = delete;

  struct Limits {
    uint64_t max_entries = UINT64_MAX;
    uint64_t max_ttl_s = 0;         // 0: for ever
    size_t most_of_batch = 50'000;  // entries of one change
    unsigned gives_up = 20;         // after so many refused parts in a row, all for one reason
  };

  // --- between the source and the list

  // Its entries are added together, or none of them is. An entry of several claims stays until the last one ends.
  struct Claim {
    std::vector<std::string> entries;
    uint64_t expires = kNever;
    std::string comment;
    bool is_first = false;  // where the list has no room for all
  };
  // It replaces the earlier claim of this id.
  void claim(const std::string& id, Claim claim);
  void release(const std::string& id);
  void release_all();
  bool contains(const std::string& id) const { return claims_.count(id) != 0; }
  size_t size() const { return claims_.size(); }  // claims
  // A copy of all, by id.
  std::vector<std::pair<std::string, Claim>> claims() const;

  enum class Phase : uint8_t {
    whole,    // the source has told all its claims: an entry of none is deleted
    filling,  // the source tells them: an entry that nobody has claimed yet stays, and no entry is renewed
    ending,   // the source is away: nothing is added or deleted, and entries end at `end`
  };
  void set_phase(Phase phase, uint64_t end = 0);

  struct Refusal {
    std::string id;  // of the claim; empty: an entry could not be deleted or renewed
    std::string reason;
  };
  // Each is told once. Until retry(), which forgets what was not told, a refused claim has no entries, and an entry
  // that could not be deleted or renewed stays as it is.
  std::vector<Refusal> take_refusals() { return std::exchange(refusals_, {}); }
  void retry();

  // --- between the list and its entries

  // The caller reads the list: begin_list(), has() for each entry that was added to it, look(). An entry that is not
  // ours is left as it is.
  void begin_list();
  void has(const std::string& entry, uint64_t expires, bool is_ours);
  // Compares all again. Entries that the list may not keep for long are renewed in time, if this is called in time.
  void look(uint64_t now, const Limits& limits);

  struct Row {
    std::string entry;
    uint64_t expires = kNever;  // of a deletion nothing but the entry counts
    std::string comment;        // empty: no claim has the entry, which only gets another end
  };
  struct Batch {
    bool is_add = false;  // or a deletion
    std::vector<Row> rows;
    std::vector<std::string> claims;  // of the rows that the list does not have yet
    size_t units = 0;                 // parts that can be tried alone: claims, and entries that are deleted or renewed
  };
  // Deletions come first, since they make room. Empty: nothing is left to do, or there is no room.
  std::optional<Batch> next(uint64_t now);
  void done(const Batch& batch);
  // The list did not take it. Smaller batches follow, until each part is taken or refused. False: the list takes
  // nothing, so nothing is refused; try again later.
  bool refused(const Batch& batch, const std::string& reason);

  struct Counts {
    uint64_t claimed = 0;    // entries that have a claim, refused or not
    uint64_t elsewhere = 0;  // of these, that somebody else added
    uint64_t ours = 0;       // entries that the list has of the source
    uint64_t pending = 0;    // claims that the list lacks, and released entries that it has
    uint64_t refused = 0;    // claims, and entries that could not be deleted or renewed
    uint64_t no_room = 0;    // entries that max_entries leaves out
  };
  Counts counts() const;  // looks at all
  uint64_t ours() const { return ours_; }
  uint64_t refused() const { return refused_ + stuck_.size(); }

 private:
  enum class Action : uint8_t { none, del, renew, add_first, add };  // in the order of the batches
  struct Known;
  struct Entry {
    std::vector<const Known*> claims;
    uint64_t ends = 0;  // in the list; 0: it is not there
    bool is_ours = false;
    bool is_released = false;  // a claim had it
    bool is_counted = false;   // in ours_
    bool is_stuck = false;     // it could not be deleted or renewed
    Action due = Action::none;
  };
  using Node = std::pair<const std::string, Entry>;
  struct Known {
    const std::string* id = nullptr;
    std::vector<Node*> entries = {};
    uint64_t expires = kNever;
    std::string comment = {};
    bool is_first = false, is_refused = false;
  };
  struct Due {
    Action action;
    Node* node;
    // The journal is sorted by text. A list of 250,000 took 50,000 more entries in 1.4 s, and in no order in 46 s.
    bool operator<(const Due& other) const {
      return action != other.action ? action < other.action : node->first < other.node->first;
    }
  };

  bool is_there(const Entry& entry) const { return entry.ends > now_; }
  const Known* best_of(const Entry& entry) const;
  uint64_t latest() const;
  bool ends_well(uint64_t ends, uint64_t claimed) const;
  Action action_of(const Entry& entry) const;
  void settle(Node& node);
  void settle_all();

  std::unordered_map<std::string, Known> claims_;
  std::unordered_map<std::string, Entry> entries_;
  std::set<Due> due_;
  std::vector<Refusal> refusals_;
  std::vector<std::string> stuck_;  // entries
  Limits limits_;
  Phase phase_ = Phase::whole;
  uint64_t end_ = 0;  // of Phase::ending
  uint64_t now_ = 0;
  uint64_t room_ = UINT64_MAX;  // entries that may still be added
  uint64_t ours_ = 0, refused_ = 0;
  size_t most_units_ = SIZE_MAX;  // of a batch: fewer after one that was refused
  std::string last_reason_;
  unsigned in_a_row_ = 0;  // parts that were refused for the same reason
};

// Writes the rows of a batch into what `add` or `del` is told: entries, ttls and comments. max_ttl_s: of the list; 0:
// for ever.
template <class Order>
void add_rows(const FollowedList::Batch& batch, uint64_t now, uint64_t max_ttl_s, Order& order) {
  for (const FollowedList::Row& row : batch.rows) {
    order.entries.push_back(row.entry);
    if (!batch.is_add) continue;
    const uint64_t left_s = row.expires == kNever ? 0 : row.expires > now ? row.expires - now : 1;
    order.ttls.push_back(max_ttl_s == 0 ? left_s : std::min(left_s, max_ttl_s));
    order.comments.push_back(row.comment);
  }
}

}  // namespace weir::control
