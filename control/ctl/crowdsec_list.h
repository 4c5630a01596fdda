#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "common/result.h"
#include "control/sources/crowdsec/ledger.h"
#include "control/tell/answer/request.h"

// A dynamic list of controld, kept like what CrowdSec decides.
namespace weir::control::ctl {

// What became of the list at once.
struct ListRound {
  uint64_t added = 0, renewed = 0, deleted = 0, no_room = 0;
  bool has_all_acknowledged = true;  // every target has the changes
};

class CrowdsecList {
 public:
  // list: empty: the only one that is dynamic.
  CrowdsecList(std::string socket, std::string list) : socket_(std::move(socket)), list_(std::move(list)) {}

  // Makes the list like the ledger. The ledger is told what the list has the first time, and after forget(). Error: one
  // line; what was done until then is in `round`, and the ledger.
  Result<void> follow(crowdsec::Ledger& ledger, ListRound& round);
  void forget() { is_known_ = false; }
  const std::string& name() const { return list_; }  // empty: nobody knows yet

 private:
  Result<Document> call(const Request& request) const;
  Result<crowdsec::Limits> find_list();
  Result<void> read_list(crowdsec::Ledger& ledger);
  Result<void> change(const Request& request, ListRound& round) const;

  const std::string socket_;
  std::string list_;
  bool is_known_ = false;  // what the list has
};

}  // namespace weir::control::ctl
