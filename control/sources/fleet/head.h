#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "control/base/json/fields.h"

namespace weir::control::fleet {

struct GroupAt {
  std::string group;
  uint64_t revision = 0;
  uint64_t since = 0;  // the turn that gave it this one
};

// The one pointer of a fleet: which revision each group of nodes enforces. Every change of it has a turn, which only
// rises: whoever has followed one follows no earlier one, whatever etcd says.
struct Head {
  uint64_t turn = 0;
  std::string id;               // random, of this turn: two heads of one turn are told apart by it
  uint64_t revision = 0;        // of every group that is not named below; 0: none yet
  uint64_t since = 0;           // the turn that gave them this one
  std::vector<GroupAt> groups;  // each once
  uint64_t staged = 0;          // pushed, and not rolled out to everybody yet; 0: none
  uint64_t everywhere = 0;      // the last revision that all groups had; 0: none
  uint64_t everywhere_before = 0;
  bool is_paused = false;  // a rollout stops
  std::string by;          // who changed it
  std::string what;        // what he did
  int64_t at = 0;          // Unix seconds, by his clock
};
void members(Fields& f, Head& head);

// What this group enforces. A node that refused it tries again when it is given to the group anew, in a later turn.
GroupAt at_of(const Head& head, std::string_view group);
// All groups enforce the same.
bool is_everywhere(const Head& head, uint64_t revision);
// The group enforces the revision from this turn of the head on; empty: all groups do.
void move(Head& head, std::string_view group, uint64_t revision);
// What `rollback` goes back to. 0: there was nothing before.
uint64_t before(const Head& head);

std::string text_of(const Head& head);
// Error: what is wrong with it. Whatever the text is, what comes back can be followed.
Result<Head> read_head(std::string_view text);
// The same for who makes the next head: of one that cannot be followed as much is kept as can be. A turn that is not
// possible is 0.
Head repaired_head(std::string_view text);

// How a head stands to the turn that a node has followed. turn, id: of that one; 0: none.
enum class Follows {
  yes,
  is_older,         // the node is further
  is_another,       // of the same turn
  is_not_possible,  // the head is too far ahead
  is_beyond,        // the node's own turn is: it follows the head
};
Follows follows(const Head& head, uint64_t turn, std::string_view id);
constexpr const char* kHowToRepair = "`controlctl fleet push` repairs the head";

constexpr size_t kMostGroups = 64;
constexpr size_t kMostHead = 64 << 10;  // bytes of the text

}  // namespace weir::control::fleet
