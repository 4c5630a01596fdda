#include "dataplane/snapshot/ledger.h"

#include <algorithm>
#include <unordered_set>

namespace weir::dataplane {

namespace {

void add(wire::ListStats& sum, const wire::ListStats& more) {
  sum.matched += more.matched;
  sum.dropped += more.dropped;
  sum.passed += more.passed;
  sum.would_drop += more.would_drop;
  sum.matched_bytes += more.matched_bytes;
  sum.dropped_bytes += more.dropped_bytes;
  sum.passed_bytes += more.passed_bytes;
  sum.would_drop_bytes += more.would_drop_bytes;
  sum.dropped_alone += more.dropped_alone;
  sum.would_drop_alone += more.would_drop_alone;
  sum.dropped_alone_bytes += more.dropped_alone_bytes;
  sum.would_drop_alone_bytes += more.would_drop_alone_bytes;
}

}  // namespace

void Ledger::retire(const std::vector<wire::ListStats>& counts) {
  std::unordered_set<std::string> renewed;
  for (const wire::ListStats& list : counts) {
    const std::string name = wire::get_text(list.name);
    const auto [place, is_new] = retired_.try_emplace(name, list);
    if (!is_new) add(place->second, list);
    renewed.insert(name);
  }
  std::erase_if(order_, [&](const std::string& name) { return renewed.contains(name); });
  for (const wire::ListStats& list : counts) order_.push_back(wire::get_text(list.name));
  // The lists of the snapshot that comes next may be among these, so both kinds are remembered.
  while (order_.size() > kMaxFormerLists) {
    retired_.erase(order_.front());
    order_.pop_front();
  }
}

std::vector<wire::ListStats> Ledger::totals(const std::vector<wire::ListStats>& current) const {
  std::vector<wire::ListStats> totals = current;
  std::unordered_set<std::string> present;
  for (wire::ListStats& list : totals) {
    const std::string name = wire::get_text(list.name);
    present.insert(name);
    if (const auto former = retired_.find(name); former != retired_.end()) add(list, former->second);
  }
  for (const std::string& name : order_) {
    if (!present.contains(name)) totals.push_back(retired_.at(name));
  }
  return totals;
}

}  // namespace weir::dataplane
