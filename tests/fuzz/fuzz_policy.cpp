// Any bytes as a policy file: no crash, and what is accepted keeps the promises of control/policy/model/policy.h.
#include "tests/fuzz/policy_promises.h"

namespace {

constexpr uint64_t kNow = 1'780'000'000;  // 2026-05-28: some of the times in the dictionary are over

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weir::Diagnostics diagnostics;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto policy = weir::control::parse_policy("fuzz.yaml", text, diagnostics, kNow);
  fuzz::require(policy.has_value() == diagnostics.ok());
  fuzz::require(diagnostics.ok() || !format(diagnostics).empty());
  if (!policy) return 0;
  fuzz::require_policy(*policy);
  return 0;
}
