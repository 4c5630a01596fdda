#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "control/sources/crowdsec/decisions.h"
#include "control/sources/followed/followed_list.h"

// CrowdSec's decisions claim entries of a list.
namespace weir::control::crowdsec {

class Ledger {
 public:
  // types: decisions of other types are skipped.
  explicit Ledger(std::vector<std::string> types) : types_(std::move(types)) {}

  // All that is decided, or what is new and what ended since the answer before. now_ms: Unix.
  void take_all(const Decisions& decisions, int64_t now_ms);
  void take_news(const Decisions& decisions, int64_t now_ms);

  // The list that follows the decisions. Decisions of this CrowdSec come before those of others' lists.
  FollowedList& list() { return list_; }
  const FollowedList& list() const { return list_; }
  // Decisions that were not taken: "type captcha" -> 3.
  const std::map<std::string, uint64_t>& skipped() const { return skipped_; }

 private:
  void skip(const std::string& what);
  void take_added(const Decision& decision, int64_t now_ms);
  bool takes_type(const std::string& type) const;

  const std::vector<std::string> types_;
  FollowedList list_;
  std::map<std::string, uint64_t> skipped_;
};

}  // namespace weir::control::crowdsec
