// Random policies that change, for a few seconds: scripts/figures moves.sequences_wrong goes on for longer.

#include <fmt/format.h>

#include "tests/agreement/sequences.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::agreement;

namespace {

constexpr uint64_t kChanges = 3000, kSteps = 50;  // in all; of each policy

}  // namespace

TEST_CASE("policies that change agree with the reference at every step") {
  const Result<std::unique_ptr<XdpPlane>> xdp = XdpPlane::open();
  if (!xdp) fmt::print(stderr, "agreement-sequences: the data plane alone: {}\n", xdp.error());
  SequenceTotals all;
  for (uint64_t seed = 1; all.changes.all() < kChanges; seed++) {
    const auto problem = run_sequence(seed, kSteps, xdp ? xdp->get() : nullptr, all);
    INFO("seed " << seed << ": " << problem.value_or(""));
    REQUIRE_FALSE(problem);
  }
  CHECK(all.disagreements == 0);
  CHECK(all.overlays > all.bases * 2);
  CHECK(all.bases > all.policies);
  CHECK(all.compactions > 5);
  CHECK(all.missed > 5);
  CHECK(all.restarts > 2);
  CHECK(all.changes.added > kChanges / 10);
  CHECK(all.changes.deleted > kChanges / 20);
  CHECK(all.changes.expired > kChanges / 100);
  CHECK(all.changes.fed > kChanges / 10);
  CHECK(all.refused * 20 < all.steps);
  CHECK(all.compared.hits > all.compared.packets / 5);
  CHECK(all.compared.hits < all.compared.packets / 5 * 4);
  if (xdp) CHECK(all.compared.by_xdp > all.compared.packets / 10 * 9);
}
