#pragma once

// Debian 12 has Catch2 2.13 (one header), newer systems 3.x (a library). Tests include this file only.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
// As 3.x calls it; there `Contains` looks for one element.
namespace Catch::Matchers {
inline auto ContainsSubstring(const std::string& part) {
  return Contains(part);
}
}  // namespace Catch::Matchers
#endif

#include <cstdio>
#include <cstdlib>
#include <string>

// A test case, or a part of it, cannot run here. reason: begins with a kind of docs/develop/testing.md, as in "root:
// ...". scripts/test counts it.
inline void say_skipped(const std::string& reason) {
  std::printf("skipped: %s\n", reason.c_str());
}

// For a thread of a test's own, where Catch2 cannot assert: the program ends, with the place, when it does not hold.
inline void must(bool holds, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (holds) return;
  std::fprintf(stderr, "%s:%d: it does not hold\n", file, line);
  std::abort();
}

// Called before any test, where a program defines it. Not 0: the program ends with this code (77: skipped), and no test
// runs.
int before_tests();
