#include "bpf/enforce/enforcer.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>

#include "bpf/enforce/attach.h"
#include "bpf/enforce/group.h"
#include "bpf/enforce/probes.h"
#include "bpf/enforce/program.h"
#include "bpf/enforce/publish.h"
#include "bpf/enforce/samples.h"
#include "bpf/enforce/shadow.h"
#include "bpf/program/plane.h"
#include "common/clock.h"

namespace weir::xdp {

namespace {

// Drivers put frames of this size into one buffer.
constexpr int kMostSingleBufferMtu = 2000;

// 0: there is no such interface now.
int mtu_of(const std::string& interface) {
  const Fd any_socket(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = {};
  interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
  return ioctl(any_socket.get(), SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 0;
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
  stats.dropped_alone = from.dropped_alone.packets;
  stats.would_drop_alone = from.would_drop_alone.packets;
  stats.dropped_alone_bytes = from.dropped_alone.bytes;
  stats.would_drop_alone_bytes = from.would_drop_alone.bytes;
  return stats;
}

}  // namespace

struct Enforcer::Parts {
  Parts(Options wanted, Program loaded)
      : options(std::move(wanted)),
        program(std::move(loaded)),
        shadow(program, names_mutex, [this](int program_fd) { return attach(program_fd); }),
        publisher(program, names_mutex, shadow) {}

  Result<void> attach(int program_fd) {
    const std::lock_guard lock(attach_mutex);
    Result<void> done;
    for (Attachment& attachment : attachments) {
      const Result<void> used = attachment.use(program_fd);
      if (done && !used) done = used;
    }
    return done;
  }

  Options options;
  Program program;
  std::mutex names_mutex;  // guards the names of the lists, and their slots; held for moments
  Shadow shadow;
  Publisher publisher;
  Probes probes;
  Samples samples;
  mutable std::mutex attach_mutex;  // guards attachments, which both threads change
  std::deque<Attachment> attachments;
  std::vector<InterfaceState> interfaces;  // of attachments
};

Enforcer::Enforcer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Enforcer::~Enforcer() {
  parts_->shadow.end("its enforcer ended");
}

Result<std::unique_ptr<Enforcer>> Enforcer::open(Options options) {
  const std::vector<std::string>& names = options.interfaces;
  const auto is_large = [](const std::string& name) { return mtu_of(name) > kMostSingleBufferMtu; };
  const bool by_mtu = names.empty() || std::any_of(names.begin(), names.end(), is_large);
  Result<Program> program = Program::open(options.bpf_dir, options.multi_buffer.value_or(by_mtu));
  if (!program) return Error{program.error()};
  auto parts = std::make_unique<Parts>(std::move(options), std::move(*program));
  Result<Samples> samples = Samples::open(parts->program);
  if (!samples) return Error{samples.error()};
  parts->samples = std::move(*samples);
  for (const std::string& name : parts->options.interfaces) {
    parts->attachments.emplace_back(name, parts->options.attach, parts->options.bpf_dir, parts->program.fd());
  }
  std::unique_ptr<Enforcer> enforcer(new Enforcer(std::move(parts)));
  enforcer->tend();
  return enforcer;
}

void Enforcer::tend() {
  set_clock(parts_->program.state());
  const std::lock_guard lock(parts_->attach_mutex);
  parts_->interfaces.clear();
  for (Attachment& attachment : parts_->attachments) {
    attachment.tend();
    parts_->interfaces.push_back(attachment.state());
  }
}

bool Enforcer::is_disturbed() const {
  const std::lock_guard lock(parts_->attach_mutex);
  return std::any_of(parts_->attachments.begin(), parts_->attachments.end(),
                     [](const Attachment& attachment) { return attachment.is_disturbed(); });
}

wire::PublishedBody Enforcer::publish(const wire::Message& message) {
  return parts_->publisher.publish(message);
}

wire::StatusBody Enforcer::status() const {
  wire::StatusBody status;
  wire::set_text(status.version, WEIR_VERSION);
  wire::set_text(status.isa, "bpf");
  const weir_state& state = parts_->program.state();
  tell_enforced(active_groups(state), status);
  status.start_time_unix = state.start_time_unix;
  status.snapshot_limit_bytes = snapshot_limit_bytes();
  status.ports = static_cast<uint32_t>(std::count_if(parts_->interfaces.begin(), parts_->interfaces.end(),
                                                     [](const InterfaceState& i) { return i.attached; }));
  status.bypass = state.bypass;
  status.shadow = parts_->shadow.candidate();
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
  const ActiveGroups groups = active_groups(program.state());
  if (groups.base != nullptr) {
    stats.body.generation = enforced_by(groups)->generation;
    for (uint32_t i = 0; i < groups.base->n_lists; i++) tell(groups.base->slot_of[i]);
  }
  for (uint32_t slot = 0; slot < WEIR_LIST_SLOTS; slot++) {
    if (!told[slot] && names[slot].name[0] != '\0') tell(slot);
  }
  if (!told_all) return Error{told_all.error()};
  stats.body.n_lists = static_cast<uint32_t>(stats.lists.size());
  return stats;
}

Result<wire::Probes> Enforcer::probes() {
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(Clock::now().time_since_epoch());
  return parts_->probes.tell(parts_->program, parts_->names_mutex, static_cast<uint64_t>(now.count()));
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

Result<std::vector<std::byte>> Enforcer::samples(const wire::SamplingBody& wanted) {
  return parts_->samples.drops(parts_->program, wanted);
}

Result<std::vector<std::byte>> Enforcer::traffic(const wire::TrafficRequest& wanted) {
  return parts_->samples.traffic(parts_->program, wanted);
}

Result<wire::Shadow> Enforcer::shadow(const wire::Message& message) {
  return parts_->shadow.answer(message);
}

Result<wire::Shadow> Enforcer::shadow() {
  return parts_->shadow.tell();
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
  return parts_->shadow.program_fd();
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
