// What a snapshot depends on, and a copy of it under another number.
#include "control/compile/reuse.h"

#include <algorithm>
#include <cstring>

#include "common/files.h"
#include "control/compile/seal.h"
#include "tests/unit/control/compile/make_policy.h"

namespace weir::control {
namespace {

Policy sample() {
  return make_policy({make_list("a", WEIR_DROP, kSource, {"192.0.2.0/24", "203.0.113.7:443", "2001:db8::/32"}),
                      make_list("b", WEIR_PASS, kEither, {"192.0.2.1"})});
}

}  // namespace

TEST_CASE("the inputs of a snapshot: everything that it answers depends on, and no more") {
  const auto digest = inputs_digest(sample());
  REQUIRE(digest);
  const auto changed = [&](auto change) {
    Policy policy = sample();
    change(policy);
    return inputs_digest(policy) != digest;
  };
  CHECK_FALSE(changed([](Policy&) {}));
  CHECK_FALSE(changed([](Policy& p) { edit(p.lists[0])->v4[0].line = 77; }));
  CHECK_FALSE(changed([](Policy& p) { p.path = "other.yaml"; }));
  CHECK(changed([](Policy& p) { edit(p.lists[0])->v4[0].last++; }));
  CHECK(changed([](Policy& p) { edit(p.lists[0])->v4[0].expires = 1; }));
  CHECK(changed([](Policy& p) { p.lists[1].action = WEIR_DROP; }));
  CHECK(changed([](Policy& p) { p.lists[0].mode = WEIR_MONITOR; }));
  CHECK(changed([](Policy& p) { p.lists[0].name = "c"; }));
  CHECK(changed([](Policy& p) { std::swap(p.lists[0], p.lists[1]); }));
  CHECK(changed([](Policy& p) { p.lists.pop_back(); }));
  CHECK(changed([](Policy& p) { p.default_action = WEIR_DROP; }));
  CHECK(changed([](Policy& p) { p.unparsed_action = WEIR_DROP; }));
  CHECK(changed([](Policy& p) { p.tunnels = 1; }));
  CHECK(changed([](Policy& p) { p.false_positive_rate = 0.1; }));
  CHECK(changed([](Policy& p) { p.memory_bytes++; }));
  CHECK(changed([](Policy& p) { p.layout = WEIR_LAYOUT_LINE8; }));
  CHECK(changed([](Policy& p) { p.canaries.push_back({false, 8, 0, "0.0.0.8"}); }));

  // Canaries are proven for every moment to come: with entries that expire the next reload proves them anew.
  Policy expiring = sample();
  edit(expiring.lists[1])->v4[0].expires = 2'000'000'000;
  CHECK(inputs_digest(expiring));
  expiring.canaries.push_back({false, 8, 0, "0.0.0.8"});
  CHECK_FALSE(inputs_digest(expiring));
}

TEST_CASE("a copy under another number differs in number and time only") {
  const Result<Compiled> compiled = compile(sample(), {7, 1});
  REQUIRE(compiled);
  const Result<Mapping> bytes = map_read_only(compiled->snapshot.get(), compiled->size_bytes);
  REQUIRE(bytes);
  const Result<Compiled> copy = renumber(bytes->bytes(), compiled->digest, compiled->report, {7, 2});
  if (!copy) FAIL(copy.error());
  CHECK(copy->generation == wire::Generation{7, 2});
  CHECK(copy->report.entries == compiled->report.entries);
  const Result<Mapping> copied = map_read_only(copy->snapshot.get(), copy->size_bytes);
  REQUIRE(copied);
  CHECK(weir::digest_of(copied->bytes()) == copy->digest);
  REQUIRE(copied->size() == bytes->size());
  weir_snapshot_header before, after;
  memcpy(&before, bytes->bytes().data(), sizeof before);
  memcpy(&after, copied->bytes().data(), sizeof after);
  CHECK(after.number == 2);
  CHECK(after.built_unix_s >= before.built_unix_s);
  after.number = before.number;
  after.built_unix_s = before.built_unix_s;
  CHECK(memcmp(&before, &after, sizeof before) == 0);
  CHECK(memcmp(bytes->bytes().data() + sizeof before, copied->bytes().data() + sizeof before,
               bytes->size() - sizeof before) == 0);
  std::vector<std::string> phases;
  for (const PhaseTime& phase : copy->report.phases) phases.emplace_back(phase.name);
  CHECK(phases == std::vector<std::string>{"merge", "index", "plan", "build", "prove", "seal"});

  auto wrong = compiled->digest;
  wrong[0]++;
  CHECK_FALSE(renumber(bytes->bytes(), wrong, compiled->report, {7, 3}));
}

}  // namespace weir::control
