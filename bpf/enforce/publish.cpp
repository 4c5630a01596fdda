#include "bpf/enforce/publish.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <ctime>

#include "common/clock.h"
#include "filter/read/overlay.h"

namespace weir::xdp {

namespace {

using filter::Refusal;
using wire::Step;

// What the machine keeps for everything else when a snapshot comes.
constexpr uint64_t kSpareMemory = uint64_t{64} << 20;

uint32_t micros_since(Clock::time_point start) {
  return static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count());
}

}  // namespace

Result<filter::SnapshotView> open_checked(std::span<const std::byte> bytes, wire::Generation generation,
                                          const Digest& digest) {
  if (Result<void> same = filter::check_digest(bytes, digest); !same) return Error{same.error()};
  Result<filter::SnapshotView> view = filter::SnapshotView::open(bytes);
  if (!view) return view;
  if (Result<void> named = filter::check_generation(view->header(), generation); !named) return Error{named.error()};
  return view;
}

uint64_t snapshot_limit_bytes() {
  const uint64_t left = kernel_memory_left();
  return left > kSpareMemory ? left - kSpareMemory : 0;
}

void set_clock(weir_state& state) {
  const auto offset = static_cast<uint64_t>(unix_now_ns() - boot_now_ns());
  __atomic_store_n(&state.clock_offset_ns, offset, __ATOMIC_RELAXED);
}

Publisher::Next::Next(const filter::SnapshotView& checked, std::span<const std::byte> own_bytes, const Digest& digest,
                      uint32_t to)
    : view(checked), bytes(own_bytes), group(make_group(view, digest.data())), id(to) {}

Publisher::Publisher(const Program& program, std::mutex& names_mutex, Shadow& shadow)
    : program_(program), names_mutex_(names_mutex), shadow_(shadow) {
  for (uint32_t id = 0; id < WEIR_GROUPS; id++) {
    held_bytes_[id] = is_active(program.state().active, id) ? program.group(id).snapshot_bytes : 0;
  }
}

wire::PublishedBody Publisher::publish(const wire::Message& message) {
  const Clock::time_point start = Clock::now();
  wire::PublishedBody answer;
  if (const auto refusal = try_publish(message, answer)) {
    answer.failed_step = refusal->step;
    wire::set_text(answer.reason, refusal->reason);
  } else {
    answer.ok = 1;
    shadow_.enforced();
  }
  answer.durable = 1;  // the kernel has it, whoever ends
  if (const auto enforced = enforced_by(active_groups(program_.state()))) answer.generation = enforced->generation;
  answer.total_us = micros_since(start);
  return answer;
}

std::optional<Refusal> Publisher::try_publish(const wire::Message& message, wire::PublishedBody& answer) {
  if (Result<void> freed = free_idle(); !freed) return Refusal{Step::grace, freed.error()};
  const uint64_t left = snapshot_limit_bytes(), limit = left + shadow_.bytes();
  const std::string room = "the kernel has " + mib(limit) + " left for maps, beside what enforces now and " +
                           mib(kSpareMemory) + " kept for others";
  const uint32_t active = program_.state().active;
  const filter::Receipt receipt =
      filter::receive_snapshot(message, enforced_by(active_groups(program_.state())), limit, room);
  answer.needs_base = receipt.needs_base ? 1 : 0;
  if (!receipt.received) return receipt.refusal;
  const auto& [what, base_bytes, overlay_bytes] = *receipt.received;

  std::optional<Next> base, overlay;
  if (base_bytes) {
    const auto view = open_checked(base_bytes.bytes(), what.base, what.base_digest);
    if (!view) return Refusal{Step::validate, view.error()};
    if (filter::is_overlay(view->header())) return Refusal{Step::validate, "an overlay came as a whole snapshot"};
    base.emplace(*view, base_bytes.bytes(), what.base_digest, weir_active_base(active) == 0 ? 1 : 0);
  }
  if (overlay_bytes) {
    const auto view = open_checked(overlay_bytes.bytes(), what.generation, what.digest);
    if (!view) return Refusal{Step::validate, view.error()};
    const weir_base& kept = program_.base(weir_active_base(active) & (WEIR_BASES - 1));
    const weir_snapshot_header& header = base ? base->view.header() : kept.header;
    const std::span<const weir_list> lists = base ? base->view.lists() : std::span(kept.lists).first(header.n_lists);
    const Result<void> stands = filter::check_overlay(header, lists, what.base_digest, *view);
    if (!stands) return Refusal{Step::validate, stands.error()};
    overlay.emplace(*view, overlay_bytes.bytes(), what.digest,
                    weir_active_overlay(active) == WEIR_BASES ? WEIR_BASES + 1 : WEIR_BASES);
    stand_on(overlay->group, view->header(), header);
  }
  const uint64_t needed = (base ? base->group.snapshot_bytes : 0) + (overlay ? overlay->group.snapshot_bytes : 0);
  if (needed > limit) {
    return Refusal{Step::check, "the snapshot takes " + mib(needed) + ", and " + room};
  }
  if (needed > left) {
    shadow_.end("the kernel has no room for it, what was enforced and what is published now (" + mib(needed) + ")");
  }
  return exchange(base, overlay, what.generation.number, answer);
}

// Everything is written to groups that nobody reads; the store to `active` is the swap. Wherever this stops before it,
// for whatever reason, what enforced goes on; what fails after it is told, and enforced all the same.
std::optional<Refusal> Publisher::exchange(std::optional<Next>& base, std::optional<Next>& overlay, uint64_t number,
                                           wire::PublishedBody& answer) {
  weir_state& state = program_.state();
  const uint32_t former = weir_active_base(state.active);
  for (std::optional<Next>* next : {&base, &overlay}) {
    if (!*next) continue;
    if (const Result<void> filled = fill(**next); !filled) return Refusal{Step::copy, filled.error()};
  }
  Clock::time_point exchanged;
  {
    const std::lock_guard lock(names_mutex_);
    std::vector<NewSlot> slots;
    if (base) {
      Result<std::vector<NewSlot>> dealt = deal_slots(base->view.lists(), base->group);
      if (!dealt) return Refusal{Step::copy, dealt.error()};
      slots = std::move(*dealt);
    }
    Result<void> taken;
    if (base) taken = take(*base);
    if (taken && overlay) taken = take(*overlay);
    if (taken) taken = take_slots(slots, number);
    if (!taken) {
      (void)free_idle();  // or before the next publication
      return Refusal{Step::copy, taken.error()};
    }
    if (base) {
      weir_base& kept = program_.base(base->id);
      kept.header = base->view.header();
      std::copy(base->view.lists().begin(), base->view.lists().end(), kept.lists);
    }
    for (const std::optional<Next>* next : {&base, &overlay}) {
      if (*next) memcpy(&program_.group((*next)->id), &(*next)->group, sizeof(weir_group));
    }
    set_clock(state);
    exchanged = Clock::now();
    const uint32_t base_id = base ? base->id : former;
    __atomic_store_n(&state.active, weir_active(base_id, overlay ? overlay->id : WEIR_NO_OVERLAY), __ATOMIC_RELEASE);
    const weir_group& group = program_.group(base_id);
    for (uint32_t i = 0; i < group.n_lists; i++) program_.names()[group.slot_of[i]].used = number;
  }
  if (former >= WEIR_BASES) return std::nullopt;
  former_is_read_ = true;
  const Result<void> freed = free_idle();
  answer.grace_us = micros_since(exchanged);
  if (!freed) wire::set_text(answer.reason, "enforced; but the former snapshot is not freed: " + freed.error());
  return std::nullopt;
}

// Its bytes, in pages of its own; an overlay's in those of the last one of its group, where these suffice.
Result<void> Publisher::fill(Next& next) {
  Arena& kept = arenas_[next.id];
  if (kept.pages.size() < next.group.snapshot_bytes) {
    Result<Arena> arena = make_arena(next.group.snapshot_bytes);
    if (!arena) return Error{arena.error()};
    next.arena = std::move(*arena);
  }
  const std::span<std::byte> pages = (next.arena.pages ? next.arena : kept).pages.bytes();
  memcpy(pages.data(), next.bytes.data(), next.bytes.size());
  if (next.id < WEIR_BASES) next.arena.pages.reset();
  return {};
}

// Its pages become the group's.
Result<void> Publisher::take(Next& next) {
  if (next.arena.chunks.empty()) return {};
  arenas_[next.id] = {};
  held_bytes_[next.id] = std::max(held_bytes_[next.id], next.group.snapshot_bytes);
  Result<void> set = program_.set_arena(next.id, next.arena);
  if (set && next.id >= WEIR_BASES) arenas_[next.id] = std::move(next.arena);
  return set;
}

// Takes the pages of idle groups away from them, once no program reads them. One map of an overlay's stays, for the
// next one: to make it costs more than all else that a small change needs.
Result<void> Publisher::free_idle() {
  if (former_is_read_) {
    if (Result<void> waited = program_.wait_for_programs(); !waited) return waited;
    former_is_read_ = false;
  }
  for (uint32_t id = 0; id < WEIR_GROUPS; id++) {
    if (held_bytes_[id] == 0 || is_active(program_.state().active, id) || arenas_[id].chunks.size() == 1) continue;
    if (Result<void> cleared = program_.clear_arena(id, held_bytes_[id]); !cleared) return cleared;
    held_bytes_[id] = 0;
    arenas_[id] = {};
  }
  return {};
}

// Lists keep the slot that their name has; a new name takes a free one, or that of the list that went away longest ago.
// Nothing is changed yet.
Result<std::vector<Publisher::NewSlot>> Publisher::deal_slots(std::span<const weir_list> lists,
                                                              weir_group& group) const {
  const std::span<weir_list_name> names = program_.names();
  std::array<bool, WEIR_LIST_SLOTS> taken = {};
  const weir_group* now = active_groups(program_.state()).base;
  for (uint32_t i = 0; now != nullptr && i < now->n_lists; i++) taken[now->slot_of[i]] = true;
  std::vector<uint32_t> without;  // lists
  for (uint32_t i = 0; i < lists.size(); i++) {
    const weir_list& list = lists[i];
    const auto found = std::find_if(names.begin(), names.end(), [&](const weir_list_name& name) {
      return memcmp(name.name, list.name, sizeof name.name) == 0;
    });
    if (found == names.end()) {
      without.push_back(i);
      continue;
    }
    const auto slot = static_cast<uint16_t>(found - names.begin());
    group.slot_of[i] = slot;
    taken[slot] = true;
  }
  std::vector<NewSlot> dealt;
  for (const uint32_t i : without) {
    uint32_t best = WEIR_LIST_SLOTS;
    for (uint32_t slot = 0; slot < WEIR_LIST_SLOTS; slot++) {
      if (taken[slot]) continue;
      if (names[slot].name[0] == '\0') {
        best = slot;
        break;
      }
      if (best == WEIR_LIST_SLOTS || names[slot].used < names[best].used) best = slot;
    }
    if (best == WEIR_LIST_SLOTS) return Error{"no place to count in"};  // 1024 slots for twice 256 lists
    taken[best] = true;
    group.slot_of[i] = static_cast<uint16_t>(best);
    dealt.push_back({best, &lists[i]});
  }
  return dealt;
}

// All of them, or none: whose name a slot had keeps it, and its counts.
Result<void> Publisher::take_slots(std::span<const NewSlot> slots, uint64_t number) const {
  std::vector<weir_list_name> former;
  std::vector<std::vector<weir_list_tally>> tallies;
  for (const NewSlot& one : slots) {
    Result<std::vector<weir_list_tally>> tally = program_.tallies(one.slot);
    if (!tally) return Error{tally.error()};
    former.push_back(program_.names()[one.slot]);
    tallies.push_back(std::move(*tally));
  }
  for (size_t i = 0; i < slots.size(); i++) {
    weir_list_name& name = program_.names()[slots[i].slot];
    name = {};
    if (const Result<void> cleared = program_.clear_tally(slots[i].slot); !cleared) {
      for (size_t k = 0; k <= i; k++) {
        if (former[k].name[0] != '\0') program_.set_tallies(slots[k].slot, tallies[k]);
        program_.names()[slots[k].slot] = former[k];
      }
      return cleared;
    }
    name.used = number;
    memcpy(name.name, slots[i].list->name, sizeof name.name);
  }
  return {};
}

}  // namespace weir::xdp
