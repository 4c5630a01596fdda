#include "control/policy/feeds/named_sets.h"

#include <algorithm>

#include "control/policy/feeds/take.h"
#include "control/policy/model/range_text.h"

namespace weir::control::feeds {

NamedSet* NamedSets::of(std::string_view name) {
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) return found->second;
  if (sets_.size() == kMostSets) return has_too_many_ = true, nullptr;
  NamedSet& set = sets_.emplace_back();
  set.name = shortened(name, NamedSet::kMostName);
  by_name_.emplace(name, &set);
  return &set;
}

void NamedSets::declare(std::string_view name, std::string_view type) {
  NamedSet* set = of(name);
  if (set != nullptr) set->type = shortened(type, NamedSet::kMostName);
}

void NamedSets::took(std::string_view name, const ListDraft& list, size_t n_v4, std::string_view comment) {
  NamedSet* set = of(name);
  if (set == nullptr) return;
  const auto add = [&](const auto& entry) {
    set->entries.push_back(
        {range_text(entry.first, entry.last, entry.port), entry.expires, std::string(comment), entry.port != 0});
  };
  list.v4.size() > n_v4 ? add(list.v4.back()) : add(list.v6.back());
}

void NamedSets::left_out(std::string_view name, std::string_view text, const char* why) {
  NamedSet* set = of(name);
  if (set == nullptr) return;
  auto group =
      std::find_if(set->left_out.begin(), set->left_out.end(), [&](const LeftOut& one) { return one.why == why; });
  if (group == set->left_out.end()) group = set->left_out.insert(group, {why, 0, {}});
  group->n++;
  if (group->first.size() < LeftOut::kMostFirst) group->first.push_back(shortened(text, LeftOut::kMostShown));
}

void NamedSets::exception(std::string_view name, std::string_view text) {
  NamedSet* set = of(name);
  if (set != nullptr) set->exceptions.push_back(shortened(text, LeftOut::kMostShown));
}

}  // namespace weir::control::feeds
