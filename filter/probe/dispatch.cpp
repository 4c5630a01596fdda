#include "filter/probe/dispatch.h"

#include <cstdlib>
#include <string>

namespace weir::filter {
namespace {

constexpr const char* kForceVariable = "WEIR_FORCE_ISA";

constexpr const Kernels* kAll[] = {
#ifdef WEIR_KERNELS_AVX512
    &kAvx512Kernels,
#endif
#ifdef WEIR_KERNELS_AVX2
    &kAvx2Kernels,
#endif
    &kScalarKernels,
};

Error force_error(const std::string& name, const std::string& why) {
  std::string known;
  for (const Kernels* kernels : kAll) known.append(known.empty() ? "" : ", ").append(kernels->name);
  return {std::string(kForceVariable) + "=" + name + ": " + why + " (this build has: " + known + ")"};
}

}  // namespace

std::span<const Kernels* const> all_kernels() {
  return kAll;
}

Result<const Kernels*> choose_kernels() {
  const char* forced = std::getenv(kForceVariable);
  for (const Kernels* kernels : kAll) {
    if (forced == nullptr) {
      if (kernels->usable()) return kernels;
    } else if (kernels->name == forced) {
      if (kernels->usable()) return kernels;
      return force_error(forced, "this processor lacks the instructions");
    }
  }
  return force_error(forced, "no such kernels");  // without the variable, scalar was usable
}

}  // namespace weir::filter
