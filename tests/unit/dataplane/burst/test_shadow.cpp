#include <map>

#include "dataplane/burst/shadow.h"
#include "filter/probe/dispatch.h"
#include "tests/catch.h"
#include "tests/unit/dataplane/judging.h"
#include "tests/unit/filter/frame/random_frames.h"

// What a shadow counts is what the candidate decides otherwise, frame by frame; and nothing else changes.
using namespace weir;
using namespace weir::dataplane;
using namespace weir::test;

namespace {

constexpr uint64_t kNow = 7;

// Judges as a worker does, with a shadow beside.
struct Shadowed : Ports {
  Shadowed(ShadowRun& of, const filter::Kernels& kernels) : run(of), shadow(kernels, 0) {}
  void judged(Burst& burst, uint64_t slots, const Route& route) { shadow.judge(run, burst, slots, route); }
  ShadowRun& run;
  ShadowJudge shadow;
};

struct Sum {
  uint64_t packets = 0, bytes = 0;
  bool operator==(const Sum&) const = default;
};
using Sums = std::map<std::string, Sum>;  // by list, or reason

// What a snapshot alone says of one frame, by its counters.
struct Alone {
  bool drops = false;
  std::string by;
};

Alone alone(const Snapshot& snapshot, const Bytes& frame) {
  const std::vector<wire::ListStats> before = snapshot.list_stats();
  Judged judged;
  judge(snapshot, std::span(&frame, 1), judged, kNow);
  Alone verdict = {judged.drop == 1, judged.counters.malformed.get() != 0 ? "unparsed" : "default"};
  for (size_t l = 0; l < before.size(); l++) {
    const bool is_its = judged.lists[l].dropped != before[l].dropped || judged.lists[l].passed != before[l].passed;
    if (is_its) verdict.by = wire::get_text(before[l].name);
  }
  return verdict;
}

std::string text_of(uint32_t by, const std::string& list) {
  constexpr const char* kReasonNames[] = {"", "default", "unparsed", "no snapshot"};
  return by == 0 ? list : kReasonNames[by];
}

std::string text_of(const wire::ShadowCredit& credit) {
  return text_of(static_cast<uint32_t>(credit.by), wire::get_text(credit.list));
}

void sum_up(const wire::Shadow& told, Sums& dropped, Sums& passed) {
  for (const wire::ShadowList& list : told.lists) {
    const std::string by = text_of(list.by, wire::get_text(list.name));
    if (list.newly_dropped != 0) dropped[by] = {list.newly_dropped, list.newly_dropped_bytes};
    if (list.newly_passed != 0) passed[by] = {list.newly_passed, list.newly_passed_bytes};
  }
}

// Another policy over the same addresses: other lists, other rules.
filter::SnapshotInput other_policy() {
  filter::SnapshotInput input = policy();
  input.number = 2;
  input.lists = {{"partners", WEIR_PASS, WEIR_ENFORCE, 0},
                 {"fresh", WEIR_DROP, WEIR_ENFORCE, 0},
                 {"trial", WEIR_DROP, WEIR_MONITOR, 0},
                 {"late", WEIR_DROP, WEIR_ENFORCE, 0}};
  input.sets = {weir_set{}, set_of({1}), set_of({2}), set_of({0, 1}), set_of({3}), set_of({3, 2})};
  filter::KeyTable& hosts = input.tables[0];
  hosts.rules = {2, 1, 5, 3, 4};  // .1 is watched, .2 and .5 drop, .3 drops as destination, .4 is allowed
  return input;
}

std::vector<Bytes> some_frames(Random& random, size_t n) {
  std::vector<Bytes> frames;
  for (size_t i = 0; i < n; i++) {
    frames.push_back(random.one_in(3) ? random_frame(random)
                                      : v4_frame(0x0a000000 + random.below(8), 0x0a000000 + random.below(8)));
  }
  return frames;
}

// The frames in receptions of every size.
uint64_t judge_in_parts(const Snapshot& running, std::span<const std::unique_ptr<Packet>> packets, Random& random,
                        Shadowed& out, WorkerCounters& counters, const filter::Kernels& kernels) {
  TestLoop loop(out, kernels, counters);
  for (size_t at = 0; at < packets.size();) {
    const size_t n = std::min<size_t>(1 + random.below(40), packets.size() - at);
    loop.receive(running.of_worker(0), packets.subspan(at, n), kNow);
    at += n;
  }
  loop.finish();
  uint64_t dropped = 0;
  for (const auto& [mbuf, drop] : out.left) dropped += drop;
  return dropped;
}

}  // namespace

TEST_CASE("a shadow counts what its candidate decides otherwise, by list, and changes nothing") {
  Random random(18);
  for (const filter::Kernels* kernels : filter::all_kernels()) {
    if (!kernels->usable()) continue;
    for (int round = 0; round < 14; round++) {
      INFO(kernels->name << ", round " << round);
      filter::SnapshotInput now = policy(), next = other_policy();
      if (round % 3 == 1) now.tunnels = WEIR_TUNNELS;
      if (round % 4 >= 2) next.tunnels = WEIR_TUNNELS;
      if (round % 5 == 3) next.default_action = WEIR_DROP;
      if (round % 7 == 5) now.default_action = WEIR_DROP;
      if (round % 5 == 2) now.unparsed_action = WEIR_DROP;
      const std::unique_ptr<Snapshot> running = attach(build(now)), plain = attach(build(now));
      const std::shared_ptr<const Snapshot> candidate = attach(build(next));
      ShadowRun run(candidate, 1, *running);
      Shadowed out(run, *kernels);

      const std::vector<Bytes> frames = some_frames(random, 200);
      std::vector<std::unique_ptr<Packet>> packets;
      for (const Bytes& frame : frames) packets.push_back(std::make_unique<Packet>(frame));
      WorkerCounters counters;
      const uint64_t dropped = judge_in_parts(*running, packets, random, out, counters, *kernels);

      Sums newly_dropped, newly_passed;
      uint64_t bytes = 0, would_drop = 0, differ = 0;
      const std::unique_ptr<Snapshot> of_now = attach(build(now)), of_next = attach(build(next));
      std::map<const rte_mbuf*, bool> verdicts(out.left.begin(), out.left.end());
      for (size_t i = 0; i < frames.size(); i++) {
        const Alone before = alone(*of_now, frames[i]), after = alone(*of_next, frames[i]);
        CHECK(verdicts.at(packets[i]->mbuf()) == before.drops);
        would_drop += before.drops;
        bytes += frames[i].size();
        if (before.drops == after.drops) continue;
        differ++;
        Sum& sum = before.drops ? newly_passed[before.by] : newly_dropped[after.by];
        sum.packets++;
        sum.bytes += frames[i].size();
      }
      CHECK(dropped == would_drop);
      CHECK(differ > 20);

      wire::Shadow told;
      run.add_to(told);
      Sums told_dropped, told_passed;
      sum_up(told, told_dropped, told_passed);
      CHECK(told_dropped == newly_dropped);
      CHECK(told_passed == newly_passed);
      CHECK(told.body.packets == frames.size());
      CHECK(told.body.bytes == bytes);
      CHECK(told.body.newly_dropped + told.body.newly_passed == differ);
      CHECK(told.body.cycles > 0);
      run.drain(SIZE_MAX, told.samples);
      CHECK(told.samples.size() == std::min<uint64_t>(differ, 64));
      CHECK(told.body.lost == differ - told.samples.size());
      for (const wire::ShadowSample& sample : told.samples) {
        CHECK(sample.by_running.dropped != sample.by_candidate.dropped);
        Sums& sums = sample.by_running.dropped != 0 ? newly_passed : newly_dropped;
        CHECK(sums.contains(text_of(sample.by_running.dropped != 0 ? sample.by_running : sample.by_candidate)));
      }
      // The counters of what runs are what they are without a shadow.
      Judged without;
      judge(*plain, packets, without, kNow);
      const std::vector<wire::ListStats> with = running->list_stats();
      for (size_t l = 0; l < with.size(); l++) {
        CHECK(memcmp(&with[l], &without.lists[l], sizeof with[l]) == 0);
      }
      CHECK(counters.packets.get() == without.counters.packets.get());
      CHECK(counters.dropped.get() == without.counters.dropped.get());
      CHECK(counters.default_passed.get() == without.counters.default_passed.get());
      CHECK(counters.malformed.get() == without.counters.malformed.get());
    }
  }
}

TEST_CASE("a sample of a shadow says what both decide, and of which packet") {
  const std::unique_ptr<Snapshot> running = attach(build(policy()));
  const std::shared_ptr<const Snapshot> candidate = attach(build(other_policy()));
  ShadowRun run(candidate, 1, *running);
  const filter::Kernels& kernels = **filter::choose_kernels();
  Shadowed out(run, kernels);
  Random random(1);
  std::vector<std::unique_ptr<Packet>> packets;
  packets.push_back(std::make_unique<Packet>(v4_frame(0x0a000001)));  // block -> trial only
  packets.push_back(std::make_unique<Packet>(v4_frame(0x0a000002)));  // watch -> fresh
  packets.push_back(std::make_unique<Packet>(v4_frame(0x0a000004)));  // block -> partners
  packets.push_back(std::make_unique<Packet>(v4_frame(0x0b000004)));  // nothing
  WorkerCounters counters;
  CHECK(judge_in_parts(*running, packets, random, out, counters, kernels) == 2);
  std::vector<wire::ShadowSample> samples;
  run.drain(SIZE_MAX, samples);
  REQUIRE(samples.size() == 3);
  struct Row {
    uint32_t source;
    const char *running, *candidate;
    bool was_dropped;
  };
  const Row rows[] = {{0x0a000001, "block", "default", true},
                      {0x0a000002, "default", "fresh", false},
                      {0x0a000004, "block", "partners", true}};
  for (const Row& row : rows) {
    const auto sample = std::find_if(samples.begin(), samples.end(), [&](const wire::ShadowSample& one) {
      Headers packet;
      memcpy(&packet, one.packet, sizeof packet);
      uint32_t source_be;
      memcpy(&source_be, &packet.address[0], sizeof source_be);
      return __builtin_bswap32(source_be) == row.source;
    });
    REQUIRE(sample != samples.end());
    CHECK(text_of(sample->by_running) == row.running);
    CHECK(text_of(sample->by_candidate) == row.candidate);
    CHECK(sample->by_running.dropped == row.was_dropped);
    CHECK(sample->by_candidate.dropped == !row.was_dropped);
    CHECK(sample->running == wire::Generation{7, 1});
    CHECK(sample->now_unix_s == kNow);
    CHECK(sample->port == 3);
    CHECK(sample->queue == 1);
  }
}

TEST_CASE("of every N batches in a row a shadow judges exactly one, and none beside another policy") {
  const std::unique_ptr<Snapshot> running = attach(build(policy())), other = attach(build(policy()));
  const std::shared_ptr<const Snapshot> candidate = attach(build(other_policy()));
  const filter::Kernels& kernels = **filter::choose_kernels();
  const Packet packet(v4_frame(0x0a000001));
  for (const uint32_t one_in : {1u, 2u, 7u, 100u}) {
    INFO("one in " << one_in);
    ShadowRun run(candidate, one_in, *running);
    ShadowJudge shadow(kernels, 0);
    auto burst = std::make_unique<Burst>();
    const Route route = {};
    clear(*burst);
    burst->n = 1;
    burst->pkt[0] = packet.mbuf();
    burst->drop = 0;
    burst->snapshot = &running->of_worker(0);
    for (uint64_t batch = 1; batch <= 1000; batch++) {
      shadow.judge(run, *burst, 1, route);
      const uint64_t judged = run.of_worker(0).batches.get();
      REQUIRE(judged >= batch / one_in);
      REQUIRE(judged <= (batch + one_in - 1) / one_in);
    }
    wire::Shadow told;
    run.add_to(told);
    burst->snapshot = &other->of_worker(0);
    shadow.judge(run, *burst, 1, route);
    wire::Shadow after;
    run.add_to(after);
    CHECK(after.body.packets == told.body.packets);
  }
}
