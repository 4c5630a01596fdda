// Not a test: `compile-tests "[benchmark]"` prints what compiling a real policy costs. POLICY names it.

#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>

#include "control/compile/compile.h"
#include "control/policy/read/policy.h"
#include "tests/catch.h"

namespace weir::control {

TEST_CASE("phases of the policy in $POLICY", "[.][benchmark]") {
  const char* path = getenv("POLICY");
  REQUIRE(path != nullptr);
  const auto begin = std::chrono::steady_clock::now();
  Diagnostics diagnostics;
  const auto policy = read_policy(path, diagnostics);
  INFO(format(diagnostics));
  REQUIRE(policy.has_value());
  const std::chrono::duration<double, std::milli> read = std::chrono::steady_clock::now() - begin;
  fmt::print("{:8} {:8.1f} ms\n", "read", read.count());

  const auto compiled = compile(*policy, {1, 1});
  if (!compiled) FAIL(compiled.error());
  const CompileReport& report = compiled->report;
  for (const PhaseTime& phase : report.phases) fmt::print("{:8} {:8.1f} ms\n", phase.name, phase.milliseconds);
  for (const ShapeReport& shape : report.shapes) {
    fmt::print("{}: {}; {} filter bytes, {} exact bytes, expected rate {:.4g}\n", shape.name, shape.why,
               shape.shape.filter.size_bytes, shape.shape.exact.size_bytes, shape.expected_fpr);
  }
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto milliseconds = [](const timeval& t) { return static_cast<double>(t.tv_sec * 1000 + t.tv_usec / 1000); };
  fmt::print("processor time of all: {:.0f} ms user, {:.0f} ms system\n", milliseconds(usage.ru_utime),
             milliseconds(usage.ru_stime));
  fmt::print("{} entries, {} sets, {} rules, snapshot {:.1f} MiB, {} + {} probes, peak RSS {:.1f} MiB\n",
             report.entries, report.sets, report.rules, static_cast<double>(report.snapshot_bytes) / (1 << 20),
             report.probes_v4, report.probes_v6, static_cast<double>(usage.ru_maxrss) / 1024);
}

}  // namespace weir::control
