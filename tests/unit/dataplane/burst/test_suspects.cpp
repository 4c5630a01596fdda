// Suspects take all that is known of them into their group.
#include <bit>
#include <memory>
#include <random>
#include <vector>

#include "dataplane/burst/stages.h"
#include "dataplane/burst/suspects.h"
#include "filter/probe/dispatch.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::dataplane;

namespace {

bool is_set(uint64_t mask, uint32_t i) {
  return (mask >> i & 1) != 0;
}

// What a burst says of the packet in a slot.
struct Slot {
  uint64_t v4_addresses, v4_fields, address;
  bool v4, v6, ports, source, destination;
  bool operator==(const Slot&) const = default;
};

Slot slot_of(const Burst& burst, uint32_t i) {
  const bool has_headers = !is_set(burst.unread, i) || is_set(burst.v6, i);
  return {burst.v4_addresses[i],
          burst.v4_fields[i],
          has_headers ? burst.hdr[i].address[0][0] : 0,
          is_set(burst.v4, i),
          is_set(burst.v6, i),
          is_set(burst.v4_ports, i),
          is_set(burst.asked[kSource], i),
          is_set(burst.asked[kDestination], i)};
}

struct Waits {
  rte_mbuf* mbuf;
  uint64_t rx_cycles;
  bool unread, incomplete;
  std::vector<Slot> layers;  // the outer one first
};

Waits frame_of(const Burst& burst, uint32_t i, uint64_t rx_cycles) {
  Waits frame = {burst.pkt[i], rx_cycles, is_set(burst.unread, i), is_set(burst.incomplete, i), {slot_of(burst, i)}};
  const uint32_t n_inner = is_set(burst.layered, i) ? burst.n_inner[i] : 0;
  for (uint32_t layer = 0; layer < n_inner; layer++) frame.layers.push_back(slot_of(burst, burst.inner[i] - layer));
  return frame;
}

class Receptions {
 public:
  explicit Receptions(uint64_t seed) : random_(seed) {
    for (rte_mbuf& mbuf : mbufs_) mbuf.pkt_len = 60 + static_cast<uint32_t>(random_() % 1500);
  }

  // Returns which frames are suspects: all with inner layers, and some others.
  uint64_t draw(const WorkerSnapshot& snapshot, bool with_tunnels, Burst& burst) {
    clear(burst);
    burst.n = static_cast<uint32_t>(1 + random_() % (with_tunnels ? kMaxBurst / WEIR_MAX_LAYERS : kMaxReceived));
    burst.snapshot = &snapshot;
    burst.now_unix_s = random_();
    for (uint32_t i = 0; i < burst.n; i++) {
      burst.pkt[i] = &mbufs_[random_() % std::size(mbufs_)];
      if (!with_tunnels || random_() % 2 == 0) continue;
      burst.layered |= bit(i);
      burst.inner[i] = static_cast<uint8_t>(burst.first_inner - 1);
      burst.n_inner[i] = static_cast<uint8_t>(1 + random_() % (WEIR_MAX_LAYERS - 1));
      burst.first_inner -= burst.n_inner[i];
    }
    const uint64_t slots = low_bits(burst.n) | ~low_bits(burst.first_inner);
    for (uint32_t i = 0; i < kMaxBurst; i++) {
      burst.v4_addresses[i] = random_();
      burst.v4_fields[i] = random_();
      burst.hdr[i].address[0][0] = random_();
    }
    burst.v6 = slots & random_();
    burst.v4 = slots & ~burst.v6;
    burst.unread = with_tunnels ? 0 : slots & random_();
    burst.incomplete = low_bits(burst.n) & ~burst.unread & random_();
    burst.v4_ports = burst.v4 & random_();
    for (uint64_t& asked : burst.asked) asked = slots & random_();
    const uint64_t some = random_() % 3 == 0 ? ~uint64_t{0} : random_() & random_();
    return (some | burst.layered | 1) & low_bits(burst.n);
  }

 private:
  std::mt19937_64 random_;
  rte_mbuf mbufs_[256] = {};
};

void check_group(const SuspectGroup& group, const std::vector<Waits>& expected) {
  REQUIRE(group.n == expected.size());
  uint64_t bytes = 0;
  uint32_t reception = 0;
  for (uint32_t i = 0; i < group.n; i++) {
    while (i == group.waiting[reception].end) reception++;
    const Waits found = frame_of(group, i, group.waiting[reception].rx_cycles);
    REQUIRE(found.mbuf == expected[i].mbuf);
    REQUIRE(found.rx_cycles == expected[i].rx_cycles);
    REQUIRE(found.unread == expected[i].unread);
    REQUIRE(found.incomplete == expected[i].incomplete);
    REQUIRE(found.layers == expected[i].layers);
    REQUIRE(group.bytes[i] == found.mbuf->pkt_len);
    bytes += group.bytes[i];
  }
  REQUIRE(reception + 1 == group.receptions);
  REQUIRE(group.total_bytes == bytes);
  REQUIRE((group.not_ip | group.malformed | group.hit) == 0);
  const uint64_t slots = low_bits(group.n) | ~low_bits(group.first_inner);
  REQUIRE(((group.v4 | group.v6 | group.unread | group.asked[kSource] | group.asked[kDestination]) & ~slots) == 0);
}

}  // namespace

TEST_CASE("suspects keep all that is known of them, their inner layers and the order in which they came") {
  const filter::Kernels& kernels = **filter::choose_kernels();
  const WorkerSnapshot snapshot = {};  // without lookups: a group is finished at once
  const Route route = {};
  for (const bool with_tunnels : {false, true}) {
    Receptions receptions(with_tunnels ? 1 : 2);
    Suspects suspects(kernels);
    auto burst = std::make_unique<Burst>();
    std::vector<Waits> expected;
    uint32_t groups = 0, in_several = 0;
    const auto look_up = [&] {
      suspects.look_up(snapshot);
      SuspectGroup* group = suspects.finished();
      REQUIRE(group != nullptr);
      check_group(*group, expected);
      suspects.release(*group);
      expected.clear();
      groups++;
    };
    for (uint64_t number = 1; number <= 20'000; number++) {
      const uint64_t frames = receptions.draw(snapshot, with_tunnels, *burst);
      if (!suspects.has_room_for(*burst, static_cast<uint32_t>(std::popcount(frames)))) look_up();
      in_several += !expected.empty();
      uint64_t bytes = 0;
      for (uint64_t left = frames; left != 0; left &= left - 1) {
        expected.push_back(frame_of(*burst, static_cast<uint32_t>(std::countr_zero(left)), number));
        bytes += expected.back().mbuf->pkt_len;
      }
      REQUIRE(suspects.append(*burst, frames, route, number) == bytes);
      if (suspects.are_due()) look_up();
    }
    CHECK(suspects.full() == false);
    CHECK(groups > 1000);
    CHECK(in_several > 1000);
  }
}
