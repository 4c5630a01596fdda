#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "control/sources/crowdsec/decisions.h"

// What CrowdSec decided beside what a list of weir has of it, and what makes the second like the first.
namespace weir::control::crowdsec {

// Of the list.
struct Limits {
  uint64_t max_entries = UINT64_MAX;
  uint64_t max_ttl_s = 0;  // 0: for ever
};

struct Addition {
  std::string entry;
  uint64_t expires = 0;  // Unix seconds
  std::string comment;
};

struct Changes {
  std::vector<std::string> del;  // to be done first: they make room
  std::vector<Addition> add;     // new ones, and those that end otherwise than the list says
  uint64_t no_room = 0;          // additions that are left out, because the list takes no more
};

class Ledger {
 public:
  // types: what decisions must be of to be taken.
  explicit Ledger(std::vector<std::string> types) : types_(std::move(types)) {}

  // All that is decided, or what is new and what ended since the answer before. now_ms: Unix.
  void take_all(const Decisions& decisions, int64_t now_ms);
  void take_news(const Decisions& decisions, int64_t now_ms);

  // What the list has of what was added to it, one after the other from the begin.
  void begin_list();
  void has(const std::string& entry, uint64_t expires, const std::string& comment);

  // An address that two decisions are about stays until the last one ends. What was added by somebody else is left as
  // it is. Entries that the list may not keep for so long are renewed in time.
  Changes changes(uint64_t now, const Limits& limits);
  // They were made.
  void added(const Addition& addition) { held_[addition.entry] = addition.expires; }
  void deleted(const std::string& entry) { held_.erase(entry); }

  size_t entries() const { return decided_.size(); }  // that decisions are about
  size_t elsewhere() const { return n_elsewhere_; }   // of those, as of changes(): somebody else added them
  // Decisions that were not taken: "type captcha" -> 3.
  const std::map<std::string, uint64_t>& skipped() const { return skipped_; }

 private:
  struct One {
    uint64_t id, until;
    bool is_local;  // decided here, not by a list of others
    std::string comment;
  };

  void skip(const std::string& what);
  void take_added(const Decision& decision, int64_t now_ms);
  bool takes_type(const std::string& type) const;

  const std::vector<std::string> types_;
  std::unordered_map<std::string, std::vector<One>> decided_;
  std::unordered_map<std::string, uint64_t> held_, others_;  // entry -> until when
  std::map<std::string, uint64_t> skipped_;
  size_t n_elsewhere_ = 0;
};

}  // namespace weir::control::crowdsec
