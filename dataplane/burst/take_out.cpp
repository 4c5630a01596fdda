#include <emmintrin.h>

#include <bit>

#include "dataplane/burst/stages.h"

namespace weir::dataplane {

namespace {

// Bit i of a mask becomes bit `to` of another.
uint64_t moved(uint64_t mask, uint32_t from, uint32_t to) noexcept {
  return (mask >> from & 1) << to;
}

// Moves what frames that wait have in columns and masks, from one slot to a lower one. Their inner layers stay where
// they are.
class Closing {
 public:
  Closing(uint32_t first, Burst& burst) noexcept : burst_(burst), to_(first), kept_{} {}

  void move(uint32_t from) noexcept {
    const uint32_t to = to_++;
    kept_.v4 |= moved(burst_.v4, from, to);
    kept_.v6 |= moved(burst_.v6, from, to);
    kept_.unread |= moved(burst_.unread, from, to);
    kept_.v4_ports |= moved(burst_.v4_ports, from, to);
    kept_.incomplete |= moved(burst_.incomplete, from, to);
    kept_.layered |= moved(burst_.layered, from, to);
    kept_.in_line |= moved(burst_.in_line, from, to);
    for (const Side side : {kSource, kDestination}) kept_.asked[side] |= moved(burst_.asked[side], from, to);
    if (from == to) return;
    burst_.pkt[to] = burst_.pkt[from];
    burst_.bytes[to] = burst_.bytes[from];
    burst_.v4_addresses[to] = burst_.v4_addresses[from];
    burst_.v4_fields[to] = burst_.v4_fields[from];
    if ((burst_.unread & burst_.v4 & bit(from)) == 0) burst_.hdr[to] = burst_.hdr[from];
    burst_.inner[to] = burst_.inner[from];
    burst_.n_inner[to] = burst_.n_inner[from];
  }

  // received: the slots of the reception's frames.
  void finish(uint64_t received) noexcept {
    const auto put = [received](uint64_t& mask, uint64_t kept) { mask = (mask & ~received) | kept; };
    put(burst_.v4, kept_.v4);
    put(burst_.v6, kept_.v6);
    put(burst_.unread, kept_.unread);
    put(burst_.v4_ports, kept_.v4_ports);
    put(burst_.incomplete, kept_.incomplete);
    put(burst_.layered, kept_.layered);
    put(burst_.in_line, kept_.in_line);
    for (const Side side : {kSource, kDestination}) put(burst_.asked[side], kept_.asked[side]);
    burst_.not_ip &= ~received;
    burst_.malformed &= ~received;
    burst_.n = to_;
  }

 private:
  struct Masks {
    uint64_t v4, v6, unread, v4_ports, incomplete, layered, in_line, asked[2];
  };
  Burst& burst_;
  uint32_t to_;
  Masks kept_;
};

// Copies pointers, four at a time: up to three behind them are read and written, too.
void copy_run(rte_mbuf* const* from, uint32_t n, rte_mbuf** to) noexcept {
  for (uint32_t i = 0; i < n; i += 4) {
    const auto* source = reinterpret_cast<const __m128i*>(from + i);
    auto* target = reinterpret_cast<__m128i*>(to + i);
    const __m128i low = _mm_loadu_si128(source), high = _mm_loadu_si128(source + 1);
    _mm_storeu_si128(target, low);
    _mm_storeu_si128(target + 1, high);
  }
}

// The frames that do not wait, in their order: run by run between those that do.
uint32_t copy_leaving(const Burst& burst, uint32_t first, uint64_t waiting, rte_mbuf** leaving) noexcept {
  uint32_t n = 0, from = first;
  for (uint64_t left = waiting; left != 0; left &= left - 1) {
    const auto slot = static_cast<uint32_t>(std::countr_zero(left));
    copy_run(burst.pkt + from, slot - from, leaving + n);
    n += slot - from;
    from = slot + 1;
  }
  copy_run(burst.pkt + from, burst.n - from, leaving + n);
  return n + burst.n - from;
}

}  // namespace

Leaving take_out(uint32_t first, uint64_t waiting, Burst& burst, rte_mbuf* room[kLeavingRoom]) noexcept {
  const uint64_t received = low_bits(burst.n) & ~low_bits(first);
  const uint32_t n = waiting == 0 ? burst.n - first : copy_leaving(burst, first, waiting, room);
  Closing closing(first, burst);
  for (uint64_t left = waiting; left != 0; left &= left - 1) {
    closing.move(static_cast<uint32_t>(std::countr_zero(left)));
  }
  closing.finish(received);
  return {waiting == 0 ? burst.pkt + first : room, n};
}

}  // namespace weir::dataplane
