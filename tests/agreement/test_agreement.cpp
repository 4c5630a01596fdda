// Random policies and frames through the data plane and the reference. rapidcheck shortens a tape that shows a
// difference to the policy and the frame that matter.

#include <rapidcheck.h>

#include "control/policy/read/policy.h"
#include "tests/agreement/agreement.h"
#include "tests/agreement/random_policy.h"
#include "tests/catch.h"
#include "tests/rounds.h"

using namespace weir;
using namespace weir::agreement;

namespace {

constexpr int kPolicies = rounds(300);
constexpr size_t kFrames = 256;

// What differs for the policy and frames of these choices.
std::optional<std::string> difference(Choices& choices, size_t n_frames, Compared& compared) {
  const std::string text = random_policy(choices);
  Diagnostics diagnostics;
  const auto policy = control::parse_policy("random.yaml", text, diagnostics);
  if (!policy) return "the policy is refused: " + format(diagnostics) + text;
  auto agreement = Agreement::open(*policy, 7);
  if (!agreement) return agreement.error() + "\n" + text;
  const FrameMaker maker(*policy);
  std::vector<Frame> frames(n_frames);
  for (Frame& frame : frames) maker.make(choices, frame);
  auto problem = (*agreement)->judge(frames, kNow + choices.below(3) - 1, choices);
  if (!problem) problem = (*agreement)->check_counters();
  compared = (*agreement)->compared();
  return problem ? std::optional(*problem + "\npolicy:\n" + text) : std::nullopt;
}

}  // namespace

TEST_CASE("the data plane agrees with the reference on random policies and frames") {
  Compared all;
  for (uint64_t seed = 1; seed <= kPolicies; seed++) {
    Choices choices(seed);
    Compared compared;
    const auto problem = difference(choices, kFrames, compared);
    INFO("seed " << seed << ": " << problem.value_or(""));
    REQUIRE_FALSE(problem);
    all += compared;
  }
  CHECK(all.packets == kPolicies * kFrames);
  CHECK(all.hits > all.packets / 5);
  CHECK(all.hits < all.packets / 5 * 4);
  CHECK(all.layered > all.packets / 50);
  CHECK(all.dropped > all.packets / 10);
}

TEST_CASE("and on those that rapidcheck makes and shortens") {
  const bool agree = rc::check("no tape of choices shows a difference", [](const std::vector<uint32_t>& tape) {
    Choices choices{std::span<const uint32_t>(tape)};
    Compared compared;
    if (const auto problem = difference(choices, 4, compared)) RC_FAIL(*problem);
  });
  CHECK(agree);
}
