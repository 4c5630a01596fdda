// Any bytes as a steer.yaml: no crash, and what is accepted keeps the promises of bpf/program/steer.h.
#include <cstdlib>
#include <string>

#include "control/policy/read/steer_file.h"

namespace {

void require(bool holds) {
  if (!holds) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weir::Diagnostics diagnostics;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto steering = weir::control::parse_steer_file("fuzz.yaml", text, diagnostics);
  require(steering.has_value() == diagnostics.ok());
  require(diagnostics.ok() || !format(diagnostics).empty());
  if (!steering) return 0;
  require(steering->n_rules <= WEIR_MAX_STEER_RULES);
  for (unsigned i = 0; i < steering->n_rules; i++) {
    const weir_steer_rule& rule = steering->rule[i];
    require(!weir::control::rule_text(rule).empty());
    require(weir::control::covers(rule, rule));
    require(rule.to <= 1 && (rule.family == 0 || rule.family == 4 || rule.family == 6));
    for (int side = 0; side < 2; side++) {
      require(rule.first_port[side] <= rule.last_port[side]);
      for (int half = 0; half < 2; half++) require((rule.address[side][half] & ~rule.mask[side][half]) == 0);
    }
  }
  return 0;
}
