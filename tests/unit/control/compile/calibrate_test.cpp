#include "filter/probe/calibrate.h"

#include <cmath>

#include "filter/probe/lookup.h"
#include "tests/catch.h"

using namespace weir::filter;

// Not how fast: that is the machine's business. Only that what is measured can be used.
TEST_CASE("a calibration has times for every size, and look-aheads that the pipeline takes") {
  for (const Kernels* kernels : all_kernels()) {
    if (!kernels->usable()) continue;
    INFO(std::string(kernels->name));
    const auto calibration = calibrate(*kernels);
    INFO((calibration ? "" : calibration.error()));
    REQUIRE(calibration);
    REQUIRE(calibration->points.size() >= 3);
    size_t last_bytes = 0;
    for (const CalibrationPoint& point : calibration->points) {
      CHECK(point.filter_bytes > last_bytes);
      last_bytes = point.filter_bytes;
      CHECK(std::isfinite(point.sync_ns));
      CHECK(point.pipelined_ns > 0);
      CHECK(point.pipelined_ns <= point.sync_ns * 1.03);  // look-ahead 0 was there to be chosen
      CHECK(point.look_ahead <= LookupPipeline::kMaxLookAhead);
    }
    CHECK(calibration->look_ahead == calibration->points.back().look_ahead);
  }
}

TEST_CASE("times between two sizes are interpolated over the logarithm of the size") {
  Calibration calibration;
  CHECK(calibration.ns_for(1 << 20) == 0);
  calibration.points = {{1 << 20, 2, 1, 0}, {16 << 20, 6, 2, 3}};
  CHECK(calibration.ns_for(0) == 1);
  CHECK(calibration.ns_for(1 << 20) == 1);
  CHECK(calibration.ns_for(4 << 20) == Approx(1.5));
  CHECK(calibration.sync_ns_for(4 << 20) == Approx(4));
  CHECK(calibration.ns_for(16 << 20) == 2);
  CHECK(calibration.sync_ns_for(size_t{1} << 40) == 6);
}
