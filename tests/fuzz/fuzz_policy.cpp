// Any bytes as a policy file: no crash, and what is accepted keeps the promises of control/policy.h.
#include <cstdlib>
#include <set>
#include <string>

#include "control/policy.h"

namespace {

void require(bool holds) {
  if (!holds) abort();
}

template <class Addr>
void require_entries(const std::vector<weir::control::Entry<Addr>>& entries) {
  for (const auto& entry : entries) {
    require(entry.first <= entry.last);
    require(entry.port == 0 || entry.first == entry.last);
    require(entry.directions >= 1 && entry.directions <= 3);
    require(entry.line >= 1 && entry.source == 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weir::Diagnostics diagnostics;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto policy = weir::control::parse_policy("fuzz.yaml", text, diagnostics);
  require(policy.has_value() == diagnostics.ok());
  require(diagnostics.ok() || !format(diagnostics).empty());
  if (!policy) return 0;
  require(policy->lists.size() <= WEIR_MAX_LISTS);
  std::set<std::string> names;
  for (const weir::control::List& list : policy->lists) {
    require(!list.name.empty() && list.name.size() < WEIR_LIST_NAME_BYTES && names.insert(list.name).second);
    require_entries(list.v4);
    require_entries(list.v6);
  }
  return 0;
}
