#include <random>

#include "control/enforce/rates/rate_watch.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::control;

namespace {

ShapeReport report(const char* name, double rate) {
  ShapeReport shape = {};
  shape.name = name;
  shape.band = {rate, rate, rate, true};
  return shape;
}

const std::vector<ShapeReport> kBase = {report("v4 addr/32", 0.0042), report("v6 addr/48", 0.001)};
const std::vector<ShapeReport> kOverlay = {report("v4 addr/32", 0.003)};

RateWatch::Watched watched(uint64_t base = 1, uint64_t overlay = 0) {
  RateWatch::Watched watched;
  watched.base_digest[0] = base;
  watched.overlay_digest[0] = overlay != 0 ? overlay : base;
  watched.base = kBase;
  if (overlay != 0) watched.overlay = kOverlay;
  return watched;
}

wire::Probes told(std::vector<wire::ShapeProbes> shapes, uint64_t base = 1, uint64_t overlay = 0) {
  wire::Probes probes;
  probes.body.base_digest[0] = base;
  probes.body.digest[0] = overlay != 0 ? overlay : base;
  probes.shapes = std::move(shapes);
  return probes;
}

wire::ShapeProbes keys(uint64_t absent, uint64_t let_through, uint32_t shape = 0, uint32_t of_overlay = 0) {
  return {shape, of_overlay, absent, let_through, 0, absent, let_through};
}

}  // namespace

TEST_CASE("what chance makes is no alarm, and what it does not is one") {
  constexpr RateVerdict kInside = RateVerdict::inside, kAbove = RateVerdict::above, kBelow = RateVerdict::below;
  const RateBand band = kBase[0].band;
  CHECK(judge(keys(0, 0), band, kInside) == kInside);
  CHECK(judge(keys(32768, 138), band, kInside) == kInside);
  CHECK(judge(keys(32768, 170), band, kInside) == kInside);  // 2.7 standard deviations
  CHECK(judge(keys(32768, 240), band, kInside) == kAbove);
  CHECK(judge(keys(32768, 55), band, kInside) == kBelow);
  CHECK(judge(keys(4, 4), band, kInside) == kInside);  // 3 in 10^10
  CHECK(judge(keys(6, 6), band, kInside) == kAbove);   // 5 in 10^15
  CHECK(judge(keys(100, 0), band, kInside) == kInside);
  // Who is outside comes back later than who is inside goes out.
  CHECK(judge(keys(32768, 190), band, kInside) == kInside);
  CHECK(judge(keys(32768, 190), band, kAbove) == kAbove);
  CHECK(judge(keys(32768, 150), band, kAbove) == kInside);
  CHECK(judge(keys(32768, 90), band, kBelow) == kBelow);
  CHECK(judge(keys(32768, 130), band, kBelow) == kInside);
  // A band of a formula: outside is what no rate in it explains.
  CHECK(judge(keys(32768, 240), {0.004, 0.0045, 0.006, false}, kInside) == kInside);
}

TEST_CASE("a sound filter raises no alarm in a hundred thousand looks") {
  std::mt19937_64 random(7);
  for (const uint64_t n : {50u, 1000u, 32768u}) {
    std::binomial_distribution<uint64_t> let_through(n, kBase[0].band.rate);
    for (int look = 0; look < 100'000; look++) {
      if (judge(keys(n, let_through(random)), kBase[0].band, RateVerdict::inside) != RateVerdict::inside) FAIL(look);
    }
  }
}

TEST_CASE("an alarm begins once, stays, and ends once") {
  RateWatch watch;
  CHECK(watch.take("a", told({keys(1000, 4), keys(1000, 1, 1)}), watched(), 100).empty());
  auto changes = watch.take("a", told({keys(1000, 900), keys(1000, 1, 1)}), watched(), 110);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].target == "a");
  CHECK(changes[0].rate.shape == "v4 addr/32");
  CHECK(changes[0].rate.verdict == RateVerdict::above);
  CHECK(changes[0].rate.since == 110);
  CHECK(watch.take("a", told({keys(1000, 950), keys(1000, 1, 1)}), watched(), 120).empty());
  CHECK(watch.targets().at("a").rates[0].since == 110);
  CHECK(watch.targets().at("a").rates[1].verdict == RateVerdict::inside);
  // Another target has rates of its own.
  CHECK(watch.take("b", told({keys(1000, 4)}), watched(), 125).empty());
  changes = watch.take("a", told({keys(1000, 4), keys(1000, 1, 1)}), watched(), 130);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].before == RateVerdict::above);
  CHECK(changes[0].rate.verdict == RateVerdict::inside);
  CHECK(watch.targets().at("a").rates[0].since == 130);
}

TEST_CASE("another snapshot begins anew, and rates of another one than what runs are not taken") {
  RateWatch watch;
  REQUIRE(watch.take("a", told({keys(1000, 900)}), watched(), 100).size() == 1);
  // Published, and not enforced yet: the alarm is over with what it was about.
  const auto gone = watch.take("a", told({keys(1000, 900)}), watched(2), 101);
  REQUIRE(gone.size() == 1);
  CHECK(gone[0].rate.verdict == RateVerdict::inside);
  CHECK(watch.targets().at("a").rates.empty());
  // Enforced: what the former one's hysteresis would hold outside is inside.
  CHECK(watch.take("a", told({keys(32768, 190)}, 2), watched(2), 102).empty());
  REQUIRE(watch.targets().at("a").rates.size() == 1);
  CHECK(watch.targets().at("a").rates[0].verdict == RateVerdict::inside);
}

TEST_CASE("base and overlay are two, and an overlay that comes keeps the base's verdict") {
  RateWatch watch;
  REQUIRE(watch.take("a", told({keys(1000, 900)}), watched(), 100).size() == 1);
  CHECK(watch.take("a", told({keys(1000, 900), keys(500, 1, 0, 1)}, 1, 5), watched(1, 5), 101).empty());
  const auto& rates = watch.targets().at("a").rates;
  REQUIRE(rates.size() == 2);
  CHECK(rates[0].since == 100);
  CHECK(rates[1].counts.of_overlay == 1);
  CHECK(rates[1].predicted.rate == 0.003);
  // The target is an overlay behind: only its base is known.
  CHECK(watch.take("a", told({keys(1000, 900), keys(500, 400, 0, 1)}, 1, 5), watched(1, 6), 102).empty());
  CHECK(watch.targets().at("a").rates.size() == 1);
  // What a peer sends is not believed to be a shape of ours.
  CHECK(watch.take("a", told({keys(1000, 900, 17)}), watched(), 103).size() == 1);
  CHECK(watch.targets().at("a").rates.empty());
}
