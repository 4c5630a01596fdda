#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "bpf/enforce/group.h"
#include "bpf/enforce/program.h"
#include "bpf/enforce/shadow.h"
#include "bpf/program/plane.h"
#include "common/digest.h"
#include "common/result.h"
#include "common/wire.h"
#include "filter/read/receive.h"
#include "filter/read/view.h"

namespace weir::xdp {

// Bytes of a snapshot that may be taken now.
uint64_t snapshot_limit_bytes();

// Bytes that are what a message says.
Result<filter::SnapshotView> open_checked(std::span<const std::byte> bytes, wire::Generation generation,
                                          const Digest& digest);

// Tells the program what to add to its clock since boot.
void set_clock(weir_state& state);

// Exchanges what a program enforces: a base, an overlay, or both by one store. One thread.
class Publisher {
 public:
  // Borrows them. names_mutex is held while names of lists, or their slots, change. The shadow ends where a publication
  // needs its room: what is enforced comes first.
  Publisher(const Program& program, std::mutex& names_mutex, Shadow& shadow);

  wire::PublishedBody publish(const wire::Message& message);

 private:
  // A snapshot that is about to be enforced: a base, or an overlay.
  struct Next {
    Next(const filter::SnapshotView& checked, std::span<const std::byte> own_bytes, const Digest& digest, uint32_t to);
    Next(const Next&) = delete;
    const filter::SnapshotView view;
    const std::span<const std::byte> bytes;
    weir_group group;
    const uint32_t id;  // of the group, which nobody reads
    Arena arena;        // for its pages; empty: the group's own are written again
  };
  // A list without a slot, and the slot that it gets.
  struct NewSlot {
    uint32_t slot;
    const weir_list* list;
  };

  std::optional<filter::Refusal> try_publish(const wire::Message& message, wire::PublishedBody& answer);
  std::optional<filter::Refusal> exchange(std::optional<Next>& base, std::optional<Next>& overlay, uint64_t number,
                                          wire::PublishedBody& answer);
  Result<void> fill(Next& next);
  Result<void> take(Next& next);
  Result<std::vector<NewSlot>> deal_slots(std::span<const weir_list> lists, weir_group& group) const;
  Result<void> take_slots(std::span<const NewSlot> slots, uint64_t number) const;
  Result<void> free_idle();

  const Program& program_;
  std::mutex& names_mutex_;
  Shadow& shadow_;
  bool former_is_read_ = false;       // a group that is idle may still be: its grace period failed, or is to come
  uint64_t held_bytes_[WEIR_GROUPS];  // of pages that a group has, at most: idle ones hold memory with them
  Arena arenas_[WEIR_GROUPS];         // of overlays: kept mapped, to be written again
};

}  // namespace weir::xdp
