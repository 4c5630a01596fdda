#pragma once

#include "filter/probe/dispatch.h"

// The compiled-in sets; dispatch.cpp lists them. A new instruction set is its file here, one line below, one row in
// dispatch.cpp and its flags in meson.build.
//
// Kernel files are compiled with more instructions than the rest. They hold intrinsics, arrays and static or
// anonymous-namespace functions only: an inline function from a shared header would be emitted with those instructions
// too, and the linker may keep that copy for the whole program (scripts/check-kernels looks for it).
namespace weir::filter {

extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;

}  // namespace weir::filter
