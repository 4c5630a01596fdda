// What scripts/reproduce gate measures: nobody who is listed is missed, by the gate nor by its rivals; strangers pass
// as often as the formula says; and neighbours tell the two apart.

#include "filter/probe/exact.h"
#include "tests/catch.h"
#include "tests/reproduce/gate.h"

using namespace weir;
using namespace weir::reproduce;

namespace {

constexpr uint64_t kHosts = 50'000;

std::vector<uint32_t> on_the_wire(std::span<const uint32_t> hosts) {
  std::vector<uint32_t> sources;
  for (const uint32_t host : hosts) sources.push_back(__builtin_bswap32(host));
  while (sources.size() % LookupLoop::kReceived != 0) sources.push_back(sources.back());
  return sources;
}

// ask(addresses, n) of all sources in turn: how many pass.
template <class Ask>
uint64_t count_passing(std::span<const uint32_t> sources, Ask ask) {
  uint64_t passing = 0;
  for (size_t at = 0; at < sources.size(); at += filter::kMaxBatch) {
    alignas(64) uint64_t addresses[filter::kMaxBatch + 8] = {};
    const auto n = static_cast<unsigned>(std::min<size_t>(filter::kMaxBatch, sources.size() - at));
    for (unsigned i = 0; i < n; i++) addresses[i] = sources[at + i];
    passing += static_cast<uint64_t>(std::popcount(ask(addresses, n)));
  }
  return passing;
}

std::vector<const filter::Kernels*> usable_kernels() {
  std::vector<const filter::Kernels*> usable;
  for (const filter::Kernels* kernels : filter::all_kernels()) {
    if (kernels->usable()) usable.push_back(kernels);
  }
  return usable;
}

std::vector<HashedV4> hashed_kernels() {
  std::vector<HashedV4> kernels = {hashed_v4_scalar};
  if (best_hashed_v4() != hashed_v4_scalar) kernels.push_back(best_hashed_v4());
  return kernels;
}

// Five standard errors, and what n hosts' own luck with the bits may add.
void check_share(double measured, double expected, size_t strangers) {
  INFO("measured " << measured << ", expected " << expected);
  CHECK(std::abs(measured - expected) <
        5 * std::sqrt(expected * (1 - expected) / static_cast<double>(strangers)) + 0.02 * expected + 1e-9);
}

}  // namespace

TEST_CASE("no listed host is kept out, by gates of any width nor by hashes of as many bits") {
  const std::vector<uint32_t> hosts = random_hosts(kHosts, 1);
  REQUIRE(hosts.size() == kHosts);
  const std::vector<uint32_t> members = on_the_wire(hosts);
  const filter::SnapshotInput input = hosts_input(hosts);
  for (unsigned width = kMinWidth; width <= kMaxWidth; width += 3) {
    INFO("width " << width);
    const DirectBits gate(input, width);
    for (const filter::Kernels* kernels : usable_kernels()) {
      CHECK(count_passing(members, [&](const uint64_t* addresses, unsigned n) {
              return gate.ask(*kernels, addresses, n);
            }) == members.size());
    }
    HashedBits hashed(width);
    hashed.mark(hosts);
    for (const HashedV4 kernel : hashed_kernels()) {
      CHECK(count_passing(members, [&](const uint64_t* addresses, unsigned n) {
              return hashed.ask(kernel, addresses, n);
            }) == members.size());
    }
  }
}

TEST_CASE("strangers of a random list pass as often as 1 - (1 - 2^-w)^n says, gate and hashes alike") {
  CHECK(random_share(1, 16) == Approx(0x1p-16));
  CHECK(random_share(1e12, 16) == Approx(1));
  const std::vector<uint32_t> hosts = random_hosts(kHosts, 2);
  const std::vector<uint32_t> strangers = strangers_near(hosts, 0, 1 << 18, 3);
  const filter::SnapshotInput input = hosts_input(hosts);
  for (const unsigned width : {16u, 20u, 24u}) {
    INFO("width " << width);
    const double expected = random_share(double{kHosts}, width);
    const DirectBits gate(input, width);
    CHECK(gate.set_share() == Approx(expected).epsilon(0.02));
    const auto passing = count_passing(
        strangers, [&](const uint64_t* addresses, unsigned n) { return gate.ask(best_kernels(), addresses, n); });
    check_share(static_cast<double>(passing) / static_cast<double>(strangers.size()), expected, strangers.size());
    HashedBits hashed(width);
    hashed.mark(hosts);
    const auto hashed_passing = count_passing(
        strangers, [&](const uint64_t* addresses, unsigned n) { return hashed.ask(best_hashed_v4(), addresses, n); });
    check_share(static_cast<double>(hashed_passing) / static_cast<double>(strangers.size()), expected,
                strangers.size());
  }
}

TEST_CASE("all kernels of hashes say what the scalar one says") {
  const std::vector<uint32_t> hosts = random_hosts(kHosts, 4);
  HashedBits hashed(18);
  hashed.mark(hosts);
  const std::vector<uint32_t> strangers = strangers_near(hosts, 0, 1 << 12, 5);
  for (unsigned n = 1; n <= filter::kMaxBatch; n++) {
    alignas(64) uint64_t addresses[filter::kMaxBatch + 8];
    for (unsigned i = 0; i < std::size(addresses); i++) addresses[i] = scatter(i) << 32 | strangers[n * 8 + i];
    const uint64_t expected = hashed.ask(hashed_v4_scalar, addresses, n);
    for (const HashedV4 kernel : hashed_kernels()) CHECK(hashed.ask(kernel, addresses, n) == expected);
  }
}

TEST_CASE("who lives next door passes the gate, and hashes do not know him") {
  const std::vector<uint32_t> hosts = random_hosts(kHosts, 6);
  const filter::SnapshotInput input = hosts_input(hosts);
  const std::vector<uint32_t> neighbours = strangers_near(hosts, 24, 1 << 16, 7);
  for (const uint32_t neighbour : neighbours) {
    const uint32_t host = __builtin_bswap32(neighbour);
    REQUIRE_FALSE(std::binary_search(hosts.begin(), hosts.end(), host));
    const auto at = std::lower_bound(hosts.begin(), hosts.end(), host & ~uint32_t{255});
    REQUIRE(at != hosts.end());
    REQUIRE(*at >> 8 == host >> 8);
  }
  const DirectBits gate(input, 24), wider(input, 28);
  const auto passing = [&](const DirectBits& bits) {
    const uint64_t n = count_passing(
        neighbours, [&](const uint64_t* addresses, unsigned k) { return bits.ask(best_kernels(), addresses, k); });
    return static_cast<double>(n) / static_cast<double>(neighbours.size());
  };
  CHECK(passing(gate) == 1);
  CHECK(passing(wider) == Approx(1.0 / 16).epsilon(0.1));
  HashedBits hashed(24);
  hashed.mark(hosts);
  const uint64_t through = count_passing(
      neighbours, [&](const uint64_t* addresses, unsigned n) { return hashed.ask(best_hashed_v4(), addresses, n); });
  CHECK(static_cast<double>(through) / static_cast<double>(neighbours.size()) < 0.01);
}

TEST_CASE("the gates of an input are those of its whole snapshot") {
  filter::SnapshotInput input = with_gate_v4(hosts_input(random_hosts(2000, 8)), 20);
  input.networks = {{5, 700, 1}};
  const std::optional<Gates> gates = Gates::of(input);
  REQUIRE(gates);
  const filter::GateView view = gates->view(4, WEIR_SIDE_SOURCE);
  REQUIRE(view.kind == WEIR_GATE_TABLES);
  for (const uint64_t word : input.tables[0].words[0]) {
    CHECK(filter::passes_gate(view, weir_gate_address_v4(static_cast<uint32_t>(word))));
  }
  CHECK(filter::passes_gate(view, uint64_t{700} << 40));
  CHECK(gates->view(4, WEIR_SIDE_DESTINATION).kind == WEIR_GATE_CLOSED);
  input.tables.push_back({});
  input.tables.back().shape = {6, 16, false};
  input.tables.back().words[0] = {0x20}, input.tables.back().words[1] = {0};
  input.tables.back().rules = {1};
  input.gates[weir_gate_number(6, WEIR_SIDE_SOURCE)].tables = {{64, 262144}};
  CHECK_FALSE(Gates::of(input));  // one key of /16 would fill 2^48 bits
}

TEST_CASE("the loop finds each member once and no stranger, whatever stands before the lookups") {
  for (const uint64_t n : {uint64_t{1}, uint64_t{31}, kHosts}) {
    const std::vector<uint32_t> hosts = random_hosts(n, 9);
    const std::vector<uint32_t> members = on_the_wire(hosts), strangers = strangers_near(hosts, 20, 1 << 14, 10);
    std::vector<uint32_t> both = members;
    for (size_t i = 0; i < strangers.size(); i += 2) both.insert(both.end(), {strangers[i], strangers[i + 1]});
    std::sort(both.begin(), both.end(), [](uint32_t a, uint32_t b) { return scatter(a) < scatter(b); });
    const filter::SnapshotInput input = hosts_input(hosts);
    const Built built(input);
    const DirectBits gate(input, 22);
    LookupLoop loop(built.shape());
    const auto all = [](const uint64_t*, unsigned k) { return (uint64_t{1} << k) - 1; };
    const auto ask = [&](const uint64_t* addresses, unsigned k) { return gate.ask(best_kernels(), addresses, k); };
    const LookupLoop::Count without = loop.run(both, all), with = loop.run(both, ask);
    CHECK(without.found == members.size());
    CHECK(without.went_on == both.size());
    CHECK(with.found == members.size());
    CHECK(with.went_on < both.size());
    dataplane::GateWatch watch;
    CHECK(loop.run(both, ask, &watch).found == members.size());
    CHECK(loop.run(members, ask, &watch).found == members.size());  // it goes around the gate here
    CHECK(loop.run(strangers, ask, &watch).found == 0);             // and comes back to it
  }
}

TEST_CASE("a filter of more bytes finds the same and lets less through") {
  const std::vector<uint32_t> hosts = random_hosts(kHosts, 11);
  const std::vector<uint32_t> members = on_the_wire(hosts), strangers = strangers_near(hosts, 0, 1 << 17, 12);
  const filter::SnapshotInput input = hosts_input(hosts);
  const Built usual(input);
  const auto let_through = [&](const filter::ShapeView& shape) {
    uint64_t through = 0;
    for (size_t at = 0; at < strangers.size(); at += filter::kMaxBatch) {
      uint64_t word[filter::kMaxBatch], place[filter::kMaxBatch];
      for (unsigned i = 0; i < filter::kMaxBatch; i++) word[i] = strangers[at + i];
      const uint64_t* words[] = {word};
      const uint64_t passing = filter::filter_check(best_kernels(), shape, words, filter::kMaxBatch, place);
      through += static_cast<uint64_t>(std::popcount(passing));
    }
    return through;
  };
  const uint64_t through_usual = let_through(usual.shape());
  CHECK(through_usual > 0);
  const auto all = [](const uint64_t*, unsigned n) { return (uint64_t{1} << n) - 1; };
  for (const uint64_t more : {uint64_t{1} << 13, uint64_t{1} << 17, uint64_t{1} << 21}) {
    const LargerFilter larger(usual, input, more);
    CHECK(larger.bytes() == usual.header().filter.size_bytes + more);
    LookupLoop loop(larger.shape());
    CHECK(loop.run(members, all).found == members.size());
    const uint64_t through = let_through(larger.shape());
    CHECK(through < through_usual);
    check_share(static_cast<double>(through) / static_cast<double>(strangers.size()), larger.rate(), strangers.size());
  }
}
