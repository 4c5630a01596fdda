#include "bpf/enforce/enforcer.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <deque>
#include <memory>
#include <mutex>

#include "bpf/enforce/attach.h"
#include "bpf/enforce/group.h"
#include "bpf/enforce/program.h"
#include "bpf/program/plane.h"
#include "filter/read/receive.h"
#include "filter/read/view.h"

namespace weir::xdp {

namespace {

using filter::Refusal;
using wire::Step;
using Clock = std::chrono::steady_clock;

// What the machine keeps for everything else when a snapshot comes.
constexpr uint64_t kSpareMemory = uint64_t{64} << 20;

// Drivers put frames of this size into one buffer.
constexpr int kMostSingleBufferMtu = 2000;

// 0: there is no such interface now.
int mtu_of(const std::string& interface) {
  const Fd any_socket(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = {};
  interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
  return ioctl(any_socket.get(), SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 0;
}

uint32_t micros_since(Clock::time_point start) {
  return static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count());
}

int64_t nanoseconds(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

uint64_t packets_of(const weir_totals& totals, std::initializer_list<weir_reason> reasons) {
  uint64_t packets = 0;
  for (const weir_reason reason : reasons) packets += totals.reason[reason].packets;
  return packets;
}

wire::Totals to_wire(const weir_totals& from) {
  wire::Totals totals = {};
  totals.dropped =
      packets_of(from, {WEIR_DEFAULT_DROPPED, WEIR_LIST_DROPPED, WEIR_MALFORMED_DROPPED, WEIR_NO_SNAPSHOT_DROPPED});
  totals.passed = packets_of(from, {WEIR_DEFAULT_PASSED, WEIR_LIST_PASSED, WEIR_NOT_IP, WEIR_MALFORMED_PASSED,
                                    WEIR_BYPASSED, WEIR_NO_SNAPSHOT_PASSED});
  totals.packets = totals.passed + totals.dropped;
  for (const weir_tally& reason : from.reason) totals.bytes += reason.bytes;
  totals.malformed = packets_of(from, {WEIR_MALFORMED_PASSED, WEIR_MALFORMED_DROPPED});
  totals.not_ip = packets_of(from, {WEIR_NOT_IP});
  totals.incomplete = from.incomplete;
  totals.default_passed = packets_of(from, {WEIR_DEFAULT_PASSED});
  totals.default_dropped = packets_of(from, {WEIR_DEFAULT_DROPPED});
  totals.bypassed = packets_of(from, {WEIR_BYPASSED});
  totals.no_snapshot_passed = packets_of(from, {WEIR_NO_SNAPSHOT_PASSED});
  totals.no_snapshot_dropped = packets_of(from, {WEIR_NO_SNAPSHOT_DROPPED});
  return totals;
}

wire::ListStats to_wire(const char (&name)[WEIR_LIST_NAME_BYTES], const weir_list_tally& from) {
  wire::ListStats stats = {};
  static_assert(sizeof stats.name == sizeof name);
  memcpy(stats.name, name, sizeof stats.name);
  stats.matched = from.matched.packets;
  stats.dropped = from.dropped.packets;
  stats.passed = from.passed.packets;
  stats.would_drop = from.would_drop.packets;
  stats.matched_bytes = from.matched.bytes;
  stats.dropped_bytes = from.dropped.bytes;
  stats.passed_bytes = from.passed.bytes;
  stats.would_drop_bytes = from.would_drop.bytes;
  return stats;
}

std::string mib(uint64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

}  // namespace

struct Enforcer::Parts {
  Parts(Options wanted, Program loaded) : options(std::move(wanted)), program(std::move(loaded)) {}

  std::optional<Refusal> try_publish(const wire::Message& message, wire::PublishedBody& answer);
  Result<void> free_idle();
  // A list without a slot, and the slot that it gets.
  struct NewSlot {
    uint32_t slot;
    const weir_list* list;
  };
  Result<std::vector<NewSlot>> deal_slots(const filter::SnapshotView& view, weir_group& group);
  Result<void> take_slots(std::span<const NewSlot> slots, uint64_t number);
  // The group that enforces; null: none.
  const weir_group* active() const {
    const uint32_t group = program.state().active;
    return group < WEIR_GROUPS ? &program.group(group) : nullptr;
  }
  void set_clock() {
    const auto offset = static_cast<uint64_t>(nanoseconds(CLOCK_REALTIME) - nanoseconds(CLOCK_BOOTTIME));
    __atomic_store_n(&program.state().clock_offset_ns, offset, __ATOMIC_RELAXED);
  }

  Options options;
  Program program;
  std::deque<Attachment> attachments;
  std::vector<InterfaceState> interfaces;  // of attachments
  bool former_is_read = false;             // the group that is idle may still be: its grace period failed
  uint64_t left_bytes = 0;                 // of pages that the idle group has, though it needs none: they hold memory
  std::mutex names_mutex;                  // guards the names of the lists, and their slots; held for moments
};

Enforcer::Enforcer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Enforcer::~Enforcer() = default;

Result<std::unique_ptr<Enforcer>> Enforcer::open(Options options) {
  const std::vector<std::string>& names = options.interfaces;
  const auto is_large = [](const std::string& name) { return mtu_of(name) > kMostSingleBufferMtu; };
  const bool by_mtu = names.empty() || std::any_of(names.begin(), names.end(), is_large);
  Result<Program> program = Program::open(options.bpf_dir, options.multi_buffer.value_or(by_mtu));
  if (!program) return Error{program.error()};
  auto parts = std::make_unique<Parts>(std::move(options), std::move(*program));
  for (const std::string& name : parts->options.interfaces) {
    parts->attachments.emplace_back(name, parts->options.attach, parts->options.bpf_dir, parts->program.fd());
  }
  std::unique_ptr<Enforcer> enforcer(new Enforcer(std::move(parts)));
  enforcer->tend();
  return enforcer;
}

void Enforcer::tend() {
  parts_->set_clock();
  parts_->interfaces.clear();
  for (Attachment& attachment : parts_->attachments) {
    attachment.tend();
    parts_->interfaces.push_back(attachment.state());
  }
}

bool Enforcer::is_disturbed() const {
  return std::any_of(parts_->attachments.begin(), parts_->attachments.end(),
                     [](const Attachment& attachment) { return attachment.is_disturbed(); });
}

wire::PublishedBody Enforcer::publish(const wire::Message& message) {
  const Clock::time_point start = Clock::now();
  wire::PublishedBody answer;
  if (const auto refusal = parts_->try_publish(message, answer)) {
    answer.failed_step = refusal->step;
    wire::set_text(answer.reason, refusal->reason);
  } else {
    answer.ok = 1;
  }
  answer.durable = 1;  // the kernel has it, whoever ends
  if (const weir_group* group = parts_->active()) answer.generation = {group->epoch, group->number};
  answer.total_us = micros_since(start);
  return answer;
}

// Everything is written to the group that nobody reads; the store to `active` is the swap. Wherever this stops before
// it, for whatever reason, what enforced goes on; what fails after it is told, and enforced all the same.
std::optional<Refusal> Enforcer::Parts::try_publish(const wire::Message& message, wire::PublishedBody& answer) {
  std::optional<filter::Enforced> enforced;
  if (const weir_group* group = active(); group != nullptr) {
    enforced = {{group->epoch, group->number}, {group->digest[0], group->digest[1]}};
  }
  if (Result<void> freed = free_idle(); !freed) return Refusal{Step::grace, freed.error()};
  const uint64_t left = kernel_memory_left();
  const uint64_t limit = left > kSpareMemory ? left - kSpareMemory : 0;
  const std::string room = "the kernel has " + mib(limit) + " left for maps, beside what enforces now and " +
                           mib(kSpareMemory) + " kept for others";
  const filter::Receipt receipt = filter::receive_snapshot(message, enforced, limit, room);
  if (!receipt.received) return receipt.refusal;
  const filter::Enforced& what = receipt.received->what;
  const std::span<const std::byte> bytes = receipt.received->source.bytes();
  const Result<void> same = filter::check_digest(bytes, what.digest);
  if (!same) return Refusal{Step::validate, same.error()};
  const Result<filter::SnapshotView> view = filter::SnapshotView::open(bytes);
  if (!view) return Refusal{Step::validate, view.error()};
  const Result<void> named = filter::check_generation(view->header(), what.generation);
  if (!named) return Refusal{Step::validate, named.error()};

  const Gates gates(*view);
  weir_group group = make_group(*view, gates, what.digest.data());
  if (group.arena_bytes > limit) {
    return Refusal{Step::check,
                   "the snapshot and its gates for the kernel take " + mib(group.arena_bytes) + ", and " + room};
  }
  Result<Arena> arena = make_arena(group.arena_bytes);
  if (!arena) return Refusal{Step::copy, arena.error()};
  memcpy(arena->pages.bytes().data(), bytes.data(), bytes.size());
  gates.fill(group, arena->pages.bytes());
  arena->pages.reset();

  weir_state& state = program.state();
  const uint32_t former = state.active;
  const uint32_t idle = former == 0 ? 1 : 0;
  Clock::time_point exchanged;
  {
    const std::lock_guard lock(names_mutex);
    const Result<std::vector<NewSlot>> slots = deal_slots(*view, group);
    if (!slots) return Refusal{Step::copy, slots.error()};
    left_bytes = group.arena_bytes;
    Result<void> filled = program.set_arena(idle, *arena);
    if (filled) filled = take_slots(*slots, group.number);
    if (!filled) {
      (void)free_idle();  // or before the next publication
      return Refusal{Step::copy, filled.error()};
    }
    memcpy(&program.group(idle), &group, sizeof group);
    set_clock();
    exchanged = Clock::now();
    __atomic_store_n(&state.active, idle, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < group.n_lists; i++) program.names()[group.slot_of[i]].used = group.number;
    left_bytes = 0;
  }
  if (former >= WEIR_GROUPS) return std::nullopt;
  former_is_read = true;
  left_bytes = program.group(former).arena_bytes;
  const Result<void> freed = free_idle();
  answer.grace_us = micros_since(exchanged);
  if (!freed) wire::set_text(answer.reason, "enforced; but the former snapshot is not freed: " + freed.error());
  return std::nullopt;
}

// Takes the pages that the idle group still has away from it, once no program reads them.
Result<void> Enforcer::Parts::free_idle() {
  if (former_is_read) {
    if (Result<void> waited = program.wait_for_programs(); !waited) return waited;
    former_is_read = false;
  }
  if (left_bytes == 0) return {};
  Result<void> cleared = program.clear_arena(program.state().active == 0 ? 1 : 0, left_bytes);
  if (cleared) left_bytes = 0;
  return cleared;
}

// Lists keep the slot that their name has; a new name takes a free one, or that of the list that went away longest ago.
// Nothing is changed yet.
Result<std::vector<Enforcer::Parts::NewSlot>> Enforcer::Parts::deal_slots(const filter::SnapshotView& view,
                                                                          weir_group& group) {
  const std::span<weir_list_name> names = program.names();
  std::array<bool, WEIR_LIST_SLOTS> taken = {};
  const weir_group* now = active();
  for (uint32_t i = 0; now != nullptr && i < now->n_lists; i++) taken[now->slot_of[i]] = true;
  std::vector<uint32_t> without;  // lists
  for (uint32_t i = 0; i < view.lists().size(); i++) {
    const weir_list& list = view.lists()[i];
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
    dealt.push_back({best, &view.lists()[i]});
  }
  return dealt;
}

// All of them, or none: whose name a slot had keeps it, and its counts.
Result<void> Enforcer::Parts::take_slots(std::span<const NewSlot> slots, uint64_t number) {
  std::vector<weir_list_name> former;
  std::vector<std::vector<weir_list_tally>> tallies;
  for (const NewSlot& one : slots) {
    Result<std::vector<weir_list_tally>> tally = program.tallies(one.slot);
    if (!tally) return Error{tally.error()};
    former.push_back(program.names()[one.slot]);
    tallies.push_back(std::move(*tally));
  }
  for (size_t i = 0; i < slots.size(); i++) {
    weir_list_name& name = program.names()[slots[i].slot];
    name = {};
    if (const Result<void> cleared = program.clear_tally(slots[i].slot); !cleared) {
      for (size_t k = 0; k <= i; k++) {
        if (former[k].name[0] != '\0') program.set_tallies(slots[k].slot, tallies[k]);
        program.names()[slots[k].slot] = former[k];
      }
      return cleared;
    }
    name.used = number;
    memcpy(name.name, slots[i].list->name, sizeof name.name);
  }
  return {};
}

wire::StatusBody Enforcer::status() const {
  wire::StatusBody status;
  wire::set_text(status.version, WEIR_VERSION);
  wire::set_text(status.isa, "bpf");
  const weir_state& state = parts_->program.state();
  if (const weir_group* group = parts_->active()) {
    status.generation = {group->epoch, group->number};
    status.snapshot_bytes = group->snapshot_bytes;
    std::copy(std::begin(group->digest), std::end(group->digest), status.digest);
  }
  status.start_time_unix = state.start_time_unix;
  const uint64_t left = kernel_memory_left();
  status.snapshot_limit_bytes = left > kSpareMemory ? left - kSpareMemory : 0;
  status.ports = static_cast<uint32_t>(std::count_if(parts_->interfaces.begin(), parts_->interfaces.end(),
                                                     [](const InterfaceState& i) { return i.attached; }));
  status.bypass = state.bypass;
  return status;
}

Result<wire::Stats> Enforcer::stats() const {
  wire::Stats stats;
  const Program& program = parts_->program;
  stats.body.start_time_unix = program.state().start_time_unix;
  stats.body.taken_us = static_cast<uint32_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch()).count());
  const Result<weir_totals> totals = program.totals();
  if (!totals) return Error{totals.error()};
  stats.body.totals = to_wire(*totals);
  const std::lock_guard lock(parts_->names_mutex);
  const std::span<const weir_list_name> names = program.names();
  std::array<bool, WEIR_LIST_SLOTS> told = {};
  Result<void> told_all;
  const auto tell = [&](uint32_t slot) {
    told[slot] = true;
    if (!told_all) return;
    if (const Result<weir_list_tally> tally = program.tally(slot)) {
      stats.lists.push_back(to_wire(names[slot].name, *tally));
    } else {
      told_all = Error{tally.error()};
    }
  };
  if (const weir_group* group = parts_->active()) {
    stats.body.generation = {group->epoch, group->number};
    for (uint32_t i = 0; i < group->n_lists; i++) tell(group->slot_of[i]);
  }
  for (uint32_t slot = 0; slot < WEIR_LIST_SLOTS; slot++) {
    if (!told[slot] && names[slot].name[0] != '\0') tell(slot);
  }
  if (!told_all) return Error{told_all.error()};
  stats.body.n_lists = static_cast<uint32_t>(stats.lists.size());
  return stats;
}

wire::Ports Enforcer::ports() const {
  wire::Ports ports;
  ports.taken_us = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch()).count());
  for (const InterfaceState& interface : parts_->interfaces) {
    wire::PortStats port;
    wire::set_text(port.name, interface.name);
    wire::set_text(port.driver, !interface.attached ? "" : interface.native ? "native" : "generic");
    port.port = interface.index;
    port.link_up = interface.attached ? 1 : 0;
    ports.ports.push_back(port);
  }
  return ports;
}

const std::vector<InterfaceState>& Enforcer::interfaces() const {
  return parts_->interfaces;
}

void Enforcer::bypass(bool on) {
  __atomic_store_n(&parts_->program.state().bypass, on ? 1u : 0u, __ATOMIC_RELEASE);
}

void Enforcer::drop_without_snapshot(bool drop) {
  parts_->program.state().drop_without_snapshot = drop ? 1 : 0;
}

void Enforcer::fix_clock(uint64_t now_unix_s) {
  parts_->program.state().fixed_now_s = now_unix_s;
}

int Enforcer::program_fd() const {
  return parts_->program.fd();
}

Result<void> Enforcer::detach(const std::string& interface) {
  const auto found = std::find_if(parts_->attachments.begin(), parts_->attachments.end(),
                                  [&](const Attachment& attachment) { return attachment.state().name == interface; });
  if (found == parts_->attachments.end()) return Error{interface + " is none of the interfaces of this target"};
  const bool was_attached = found->state().attached;
  const Result<std::vector<std::string>> detached = detach_on_demand(parts_->options.bpf_dir, interface, Maps::stay);
  tend();
  if (!detached && was_attached) return Error{detached.error()};
  return {};
}

}  // namespace weir::xdp
