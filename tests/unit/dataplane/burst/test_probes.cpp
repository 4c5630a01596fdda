#include <algorithm>

#include "filter/probe/exact.h"
#include "tests/catch.h"
#include "tests/unit/dataplane/judging.h"

// What is counted of filters: keys that were asked, let through and found, and the different ones among them.
using namespace weir;
using namespace weir::dataplane;
using namespace weir::test;

namespace {

constexpr uint32_t kFirst = 0x0a000000;  // 10.0.0.0/8
constexpr uint32_t kHosts = 200;

// Hosts 10.0.1.0 and on; gates let all of IPv4 through. number: of the generation, and of the secret.
filter::SnapshotInput hosts(uint64_t number) {
  filter::SnapshotInput input = empty_input(number);
  input.secret = {number, number};
  input.sets = {weir_set{}, set_of({0})};
  input.rules = {weir_rule{}, weir_rule{1, 0, 0, 0}};
  filter::KeyTable table;
  table.shape = {4, 32, false};
  for (uint32_t i = 0; i < kHosts; i++) {
    table.words[0].push_back(filter::make_key(table.shape, Ipv4{kFirst + 256 + i}).word[0]);
    table.rules.push_back(1);
  }
  input.tables = {table};
  return input;
}

bool passes(const Snapshot& snapshot, uint32_t address) {
  const filter::ShapeView& shape = snapshot.base()->view().shapes()[0];
  const filter::Key key = filter::make_key(shape.shape, Ipv4{address});
  const uint64_t* words[WEIR_MAX_KEY_WORDS] = {&key.word[0], &key.word[1], &key.word[2], &key.word[3], &key.word[4]};
  uint64_t place = 0;
  return filter::filter_check(scalar_kernels(), shape, words, 1, &place) != 0;
}

// So many addresses that no list holds, which the filter lets through, or does not.
std::vector<uint32_t> strangers(const Snapshot& snapshot, size_t n, bool let_through) {
  std::vector<uint32_t> found;
  for (uint32_t address = kFirst + (1 << 16); found.size() < n && address < kFirst + (1 << 24); address++) {
    if (passes(snapshot, address) == let_through) found.push_back(address);
  }
  REQUIRE(found.size() == n);
  return found;
}

void judge_all(const Snapshot& snapshot, const std::vector<uint32_t>& addresses) {
  for (size_t at = 0; at < addresses.size(); at += 64) {
    std::vector<Bytes> frames;
    for (size_t i = at; i < std::min(addresses.size(), at + 64); i++) frames.push_back(v4_frame(addresses[i]));
    Judged judged;
    judge(snapshot, frames, judged);
  }
}

wire::ShapeProbes of_base(const Snapshot& snapshot) {
  const std::vector<wire::ShapeProbes> told = snapshot.probes(1000);
  REQUIRE_FALSE(told.empty());
  CHECK(told[0].of_overlay == 0);
  return told[0];
}

}  // namespace

TEST_CASE("keys are counted as they come, and different ones once") {
  const auto snapshot = attach(build(hosts(1)));
  const std::vector<uint32_t> innocent = strangers(*snapshot, 200, false), unlucky = strangers(*snapshot, 7, true);
  std::vector<uint32_t> all = innocent;
  all.insert(all.end(), unlucky.begin(), unlucky.end());
  for (uint32_t i = 0; i < 10; i++) all.push_back(kFirst + 256 + i);  // listed
  constexpr uint64_t kTimes = 200;
  for (uint64_t i = 0; i < kTimes; i++) {
    judge_all(*snapshot, all);
    snapshot->probes(1000);  // the sample is taken out, or there were no room for more
  }
  const wire::ShapeProbes told = of_base(*snapshot);
  CHECK(told.asked == kTimes * (200 + 7 + 10));
  CHECK(told.let_through == kTimes * (7 + 10));
  CHECK(told.found == kTimes * 10);
  // All strangers have been sampled by now, listed ones never.
  CHECK(told.absent == 200 + 7);
  CHECK(told.absent_let_through == 7);
}

TEST_CASE("a sample that nobody takes out is full, and counts go on") {
  const auto snapshot = attach(build(hosts(1)));
  const std::vector<uint32_t> innocent = strangers(*snapshot, 4000, false);
  judge_all(*snapshot, innocent);
  judge_all(*snapshot, innocent);
  const wire::ShapeProbes told = of_base(*snapshot);
  CHECK(told.asked == 8000);
  CHECK(told.let_through == 0);
  CHECK(told.absent > 0);
  CHECK(told.absent <= 512);
}

TEST_CASE("where most keys are listed the filter is not asked, and nothing is counted") {
  const auto snapshot = attach(build(hosts(1)));
  std::vector<uint32_t> listed;
  for (uint32_t i = 0; i < 64 * 100; i++) listed.push_back(kFirst + 256 + i % kHosts);
  Judged judged;
  Ports ports;
  TestLoop<> loop(ports, **filter::choose_kernels(), judged.counters);
  std::vector<std::unique_ptr<Packet>> packets;
  for (const uint32_t address : listed) packets.push_back(std::make_unique<Packet>(v4_frame(address)));
  loop.receive(snapshot->of_worker(0), packets);
  loop.finish();
  const wire::ShapeProbes told = of_base(*snapshot);
  CHECK(told.asked < listed.size() / 4);
  CHECK(told.found == told.asked);
  CHECK(told.absent == 0);
}

TEST_CASE("a base is counted on under another overlay, which is counted anew; another base begins at nothing") {
  const std::vector<WorkerPlace> workers = {{-1}, {-1}};
  const SnapshotBytes base_bytes = build(hosts(1));
  const auto base = copy(base_bytes, workers);
  auto first = Snapshot::open(base, nullptr, workers);
  REQUIRE(first);
  const std::vector<uint32_t> innocent = strangers(**first, 30, false), unlucky = strangers(**first, 3, true);
  judge_all(**first, innocent);
  REQUIRE(of_base(**first).asked == 30);

  filter::SnapshotInput changes = hosts(2);
  changes.secret = {1, 1};  // the base's
  changes.tables[0].words[0] = {filter::make_key({4, 32, false}, Ipv4{kFirst}).word[0]};
  changes.tables[0].rules = {1};
  for (uint64_t number = 2; number < 4; number++) {
    changes.number = number;
    auto next = Snapshot::open(base, copy(build(changes, &base_bytes), workers), workers, first->get());
    INFO((next ? "" : next.error()));
    REQUIRE(next);
    judge_all(**next, unlucky);
    const std::vector<wire::ShapeProbes> told = (*next)->probes(1000);
    REQUIRE(told.size() == 2);
    CHECK(told[0].asked == 30 + 3 * (number - 1));
    CHECK(told[0].let_through == 3 * (number - 1));
    CHECK(told[0].absent == 8 + 3);  // of a batch, eight keys that stand together
    CHECK(told[0].absent_let_through == 3);
    CHECK(told[1].of_overlay == 1);
    CHECK(told[1].asked == 3);
    first = std::move(next);
  }

  auto other = Snapshot::open(copy(build(hosts(7)), workers), nullptr, workers, first->get());
  REQUIRE(other);
  const wire::ShapeProbes told = of_base(**other);
  CHECK(told.asked == 0);
  CHECK(told.absent == 0);
}
