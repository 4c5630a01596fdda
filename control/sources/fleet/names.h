#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.h"
#include "control/base/json/fields.h"

// This file knows where a fleet keeps what in etcd, and what an entry has there.
namespace weir::control::fleet {

// What stands behind the key of an entry of the whole fleet.
struct Added {
  std::string by;    // who added it
  std::string node;  // shared by this node; empty: by somebody
  std::string comment;
  uint64_t ttl_s = 0;  // of its lease, when it was added; 0: it has none
  int64_t at = 0;      // Unix seconds, by the clock of whoever added it
};
void members(Fields& f, Added& added);

constexpr size_t kMostEntry = 512;    // bytes of its text
constexpr size_t kMostComment = 200;  // bytes

std::string text_of(const Added& added);
Result<Added> read_added(std::string_view text);

// Where a fleet keeps what in etcd. All of it begins with /weir/FLEET/.
//
//   live/head                 which revision each group of nodes enforces (head.h); what every node watches,
//   live/ask                  what is asked of every node (report.h); leased
//   live/entries/LIST/ENTRY   and what was added everywhere: leased when it ends by itself (Added)
//   revisions/NUMBER          what a revision consists of (revision.h)
//   blobs/DIGEST              which pieces each of its files consists of (pieces.h)
//   pieces/DIGEST             the bytes of a piece (pieces.h)
//   swept                     changes when something of these is removed
//   nodes/NODE                how each node stands (report.h); stays when the node is gone
//   told/ID/NODE              what each says to that; leased
//   alive/NODE                leased: there while the node is
//   log/TURN                  what was changed, by whom

// Of fleets, nodes and groups: 1 to 63 of A-Z a-z 0-9 . _ -
bool is_name(std::string_view text);

class Names {
 public:
  explicit Names(std::string_view fleet) : root_("/weir/" + std::string(fleet) + "/") {}
  std::string live() const { return root_ + "live/"; }
  std::string head() const { return root_ + "live/head"; }
  std::string ask() const { return root_ + "live/ask"; }
  std::string told(std::string_view id) const { return root_ + "told/" + std::string(id) + "/"; }
  std::string entries() const { return root_ + "live/entries/"; }
  std::string entries_of(std::string_view list) const { return entries() + std::string(list) + "/"; }
  std::string entry(std::string_view list, std::string_view text) const { return entries_of(list) + std::string(text); }
  std::string revisions() const { return root_ + "revisions/"; }
  std::string revision(uint64_t number) const { return revisions() + in_order(number); }
  std::string blobs() const { return root_ + "blobs/"; }
  std::string blob(std::string_view digest) const { return blobs() + std::string(digest); }
  std::string pieces() const { return root_ + "pieces/"; }
  std::string piece(std::string_view digest) const { return pieces() + std::string(digest); }
  std::string swept() const { return root_ + "swept"; }
  std::string nodes() const { return root_ + "nodes/"; }
  std::string node(std::string_view name) const { return nodes() + std::string(name); }
  std::string all_alive() const { return root_ + "alive/"; }
  std::string alive(std::string_view name) const { return all_alive() + std::string(name); }
  std::string log() const { return root_ + "log/"; }
  std::string log(uint64_t turn) const { return log() + in_order(turn); }

  // Of a key of live/entries/. Empty: it is none.
  struct Place {
    std::string list, text;
  };
  std::optional<Place> entry_of(std::string_view key) const;

 private:
  static std::string in_order(uint64_t number);  // of a length, so that keys stand in the order of numbers

  const std::string root_;
};

}  // namespace weir::control::fleet
