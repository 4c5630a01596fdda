#include <memory>
#include <random>
#include <vector>

#include "dataplane/burst/stages.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::dataplane;

namespace {

// What a group says of one slot.
struct Slot {
  uint32_t bytes;
  uint64_t v4_addresses, v4_fields, hdr;
  uint8_t inner, n_inner;
  bool v4, v6, unread, ports, incomplete, layered, in_line, source, destination, not_ip, malformed;
  bool operator==(const Slot&) const = default;
};

Slot slot_of(const Burst& burst, uint32_t i) {
  const auto is_set = [i](uint64_t mask) { return (mask >> i & 1) != 0; };
  const bool read = !is_set(burst.unread) || is_set(burst.v6);
  return {burst.bytes[i],
          burst.v4_addresses[i],
          burst.v4_fields[i],
          read ? burst.hdr[i].address[0][0] : 0,
          burst.inner[i],
          burst.n_inner[i],
          is_set(burst.v4),
          is_set(burst.v6),
          is_set(burst.unread),
          is_set(burst.v4_ports),
          is_set(burst.incomplete),
          is_set(burst.layered),
          is_set(burst.in_line),
          is_set(burst.asked[kSource]),
          is_set(burst.asked[kDestination]),
          is_set(burst.not_ip),
          is_set(burst.malformed)};
}

}  // namespace

TEST_CASE("frames that wait keep all that is known of them, and the others leave in their order") {
  std::mt19937_64 random(1);
  const std::unique_ptr<rte_mbuf[]> frames(new rte_mbuf[kMaxBurst]);
  for (int round = 0; round < 2000; round++) {
    auto burst = std::make_unique<Burst>();
    clear(*burst);
    const auto first = static_cast<uint32_t>(random() % kMaxReceived);
    const auto received = static_cast<uint32_t>(1 + random() % kMaxReceived);
    burst->n = first + received;
    for (uint32_t i = 0; i < kMaxBurst; i++) {
      burst->pkt[i] = &frames[i];
      burst->bytes[i] = static_cast<uint32_t>(random());
      burst->v4_addresses[i] = random();
      burst->v4_fields[i] = random();
      burst->hdr[i].address[0][0] = random();
      burst->inner[i] = static_cast<uint8_t>(random());
      burst->n_inner[i] = static_cast<uint8_t>(random());
    }
    for (uint64_t* mask : {&burst->v4, &burst->unread, &burst->v4_ports, &burst->incomplete, &burst->layered,
                           &burst->in_line, &burst->asked[kSource], &burst->asked[kDestination]}) {
      *mask = random();
    }
    burst->v6 = ~burst->v4 & random();
    const uint64_t fresh = low_bits(burst->n) & ~low_bits(first);
    const uint64_t waiting = fresh & (round % 3 == 0 ? random() & random() & random() : random());
    burst->not_ip = ~waiting & random();
    burst->malformed = ~waiting & random();

    std::vector<Slot> expected;
    std::vector<rte_mbuf*> waiting_frames, leaving_frames;
    for (uint32_t i = 0; i < burst->n; i++) {
      const bool stays = i < first || (waiting >> i & 1) != 0;
      if (stays) expected.push_back(slot_of(*burst, i));
      (stays ? waiting_frames : leaving_frames).push_back(burst->pkt[i]);
    }
    const Slot inner = slot_of(*burst, kMaxBurst - 1);  // layers lie there, if the frames do not reach so far
    const bool reaches = burst->n == kMaxBurst;

    rte_mbuf* room[kLeavingRoom];
    const Leaving leaving = take_out(first, waiting, *burst, room);
    INFO("round " << round << ", " << first << " waited, " << received << " came");
    REQUIRE(std::vector<rte_mbuf*>(leaving.frames, leaving.frames + leaving.n) == leaving_frames);
    REQUIRE(std::vector<rte_mbuf*>(burst->pkt, burst->pkt + burst->n) == waiting_frames);
    for (uint32_t i = 0; i < burst->n; i++) REQUIRE(slot_of(*burst, i) == expected[i]);
    for (uint32_t i = burst->n; i < first + received; i++) {
      REQUIRE(((burst->v4 | burst->v6 | burst->asked[kSource] | burst->asked[kDestination]) >> i & 1) == 0);
    }
    if (!reaches) REQUIRE(slot_of(*burst, kMaxBurst - 1) == inner);
  }
}
