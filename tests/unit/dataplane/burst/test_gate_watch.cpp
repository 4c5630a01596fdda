// Going around the gates, and back: when, and that no frame overtakes another.
#include <map>
#include <vector>

#include "dataplane/burst/gate_watch.h"
#include "tests/unit/dataplane/judging.h"

using namespace weir;
using namespace weir::dataplane;
using namespace weir::test;

namespace {

constexpr uint32_t kListed = 0x0a000001, kInnocent = 0x08080808;  // which no gate of policy() lets through

// A worker that is asked about one reception after the other.
struct Received {
  explicit Received(const filter::Kernels& kernels) : loop(ports, kernels, counters) {}

  void receive(uint32_t source, int n) {
    std::vector<std::unique_ptr<Packet>> packets;
    for (int i = 0; i < n; i++) packets.push_back(std::make_unique<Packet>(v4_frame(source)));
    for (const auto& packet : packets) sent.push_back(packet->mbuf());
    loop.receive(snapshot->of_worker(0), packets);
    std::move(packets.begin(), packets.end(), std::back_inserter(kept));
  }
  void receive_many(uint32_t source) {
    for (int i = 0; i < 500; i++) receive(source, 20);
  }
  // An innocent frame leaves before anything else comes.
  bool asks_gates() {
    loop.finish();
    receive(kInnocent, 1);
    const bool left_at_once = loop.empty();
    loop.finish();
    return left_at_once;
  }

  const std::unique_ptr<Snapshot> snapshot = attach(build(policy()));
  WorkerCounters counters;
  Ports ports;
  TestLoop<> loop;
  std::vector<const rte_mbuf*> sent;
  std::vector<std::unique_ptr<Packet>> kept;
};

}  // namespace

TEST_CASE("gates are asked until most packets wait, and again when most are on no list") {
  GateWatch watch;
  for (int i = 0; i < 1000; i++) watch.saw(32, 20);
  CHECK(watch.asks());
  for (int i = 0; i < 1000; i++) watch.saw(32, 28);
  CHECK_FALSE(watch.asks());
  for (int i = 0; i < 1000; i++) watch.judged(32, 24);
  CHECK_FALSE(watch.should_ask_again());
  for (int i = 0; i < 1000; i++) watch.judged(32, 16);
  CHECK(watch.should_ask_again());
  CHECK_FALSE(watch.asks());  // not before those that wait have left
  watch.ask_again();
  CHECK(watch.asks());
  CHECK_FALSE(watch.should_ask_again());
}

TEST_CASE("a worker goes around the gates under attack, and no frame of a flow overtakes another") {
  for (const filter::Kernels* kernels : filter::all_kernels()) {
    if (!kernels->usable()) continue;
    Received worker(*kernels);
    CHECK(worker.asks_gates());
    for (int times = 0; times < 3; times++) {
      worker.receive_many(kListed);
      CHECK_FALSE(worker.asks_gates());
      worker.receive_many(kInnocent);
      CHECK(worker.asks_gates());
    }
    // Frames that pass and frames that drop are two flows.
    std::vector<const rte_mbuf*> left[2], sent[2];
    std::map<const rte_mbuf*, bool> drops;
    for (const auto& [mbuf, dropped] : worker.ports.left) {
      left[dropped].push_back(mbuf);
      drops[mbuf] = dropped;
    }
    for (const rte_mbuf* mbuf : worker.sent) sent[drops.at(mbuf)].push_back(mbuf);
    REQUIRE(left[false] == sent[false]);
    REQUIRE(left[true] == sent[true]);
    CHECK(worker.counters.dropped.get() == 3 * 500 * 20);
  }
}
