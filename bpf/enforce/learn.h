#pragma once

#include "common/result.h"

namespace weir::xdp {

// libbpf asks the kernel what it can do when a process loads something for the first time, and never again: a moment
// without memory is taken for a kernel that lacks what the XDP program needs, and the verifier then refuses it. This
// has it ask, and looks at what it took from the answers. Error: something that is not so; nothing this process loads
// is any good. No error where nothing can be loaded at all: whoever loads something is told why.
Result<void> learn_features();

}  // namespace weir::xdp
