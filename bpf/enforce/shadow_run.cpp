#include "bpf/enforce/shadow_run.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "bpf/enforce/maps.h"
#include "bpf/program/shadow.h"
#include "bpf/program/weir-candidate.skel.h"
#include "bpf/program/weir-shadowed.skel.h"
#include "common/files.h"
#include "filter/format/residual.h"

namespace weir::xdp {

namespace {

// Maps of the filter that a candidate has no use for: it samples nothing for others, and counts for no list.
constexpr const char* kWithout[] = {"weir_lists",   "weir_names", "weir_bases",         "weir_samples",
                                    "weir_traffic", "weir_draft", "weir_traffic_draft", "weir_seconds"};

Error not_loaded(const char* what) {
  return Error{std::string("cannot load ") + what + ": " + strerror(errno) + "\n" + words_of_libbpf()};
}

// As enum weir_dropped_by, behind the lists.
wire::DroppedBy reason_at(uint32_t place, uint32_t n_lists) {
  return place < n_lists ? wire::DroppedBy::list : static_cast<wire::DroppedBy>(place - n_lists + 1);
}

using Name = char[WEIR_LIST_NAME_BYTES];

void add_tallies(std::span<const weir_tally> tallies, uint32_t n_lists, const auto& name_of,
                 uint64_t wire::ShadowList::*packets, uint64_t wire::ShadowList::*bytes,
                 std::vector<wire::ShadowList>& rows) {
  static constexpr Name kNoName = {};
  for (uint32_t place = 0; place < tallies.size(); place++) {
    if (tallies[place].packets == 0) continue;
    const wire::DroppedBy by = reason_at(place, n_lists);
    const Name& name = by == wire::DroppedBy::list ? name_of(place) : kNoName;
    wire::ShadowList* row = wire::row_of(name, by, rows);
    if (row == nullptr) continue;
    row->*packets += tallies[place].packets;
    row->*bytes += tallies[place].bytes;
  }
}

}  // namespace

struct ShadowRun::Parts {
  ~Parts() { ring_buffer__free(ring); }

  // Called by libbpf for each sample, oldest first; not 0: no more of them.
  static int take(void* parts, void* data, size_t bytes) {
    auto& self = *static_cast<Parts*>(parts);
    weir_shadow_sample sample = {};
    memcpy(&sample, data, std::min(bytes, sizeof sample));
    self.taken.push_back(sample);
    return self.taken.size() >= self.most ? -1 : 0;
  }

  std::unique_ptr<weir_candidate_bpf, void (*)(weir_candidate_bpf*)> candidate{nullptr, weir_candidate_bpf__destroy};
  std::unique_ptr<weir_shadowed_bpf, void (*)(weir_shadowed_bpf*)> shadowed{nullptr, weir_shadowed_bpf__destroy};
  ring_buffer* ring = nullptr;
  // While it drains.
  std::vector<weir_shadow_sample> taken;
  size_t most = 0;
};

ShadowRun::ShadowRun() : parts_(std::make_unique<Parts>()) {}
ShadowRun::~ShadowRun() = default;

Result<std::unique_ptr<ShadowRun>> ShadowRun::open(const Program& running, const filter::SnapshotView& candidate,
                                                   std::span<const std::byte> bytes, const weir_group& group,
                                                   uint32_t one_in) {
  std::unique_ptr<ShadowRun> run(new ShadowRun());
  Parts& parts = *run->parts_;
  run->lists_.assign(candidate.lists().begin(), candidate.lists().end());
  Result<Arena> arena = make_arena(group.snapshot_bytes);
  if (!arena) return Error{arena.error()};
  run->bytes_ = arena->pages.size();
  memcpy(arena->pages.bytes().data(), bytes.data(), bytes.size());
  arena->pages.reset();

  listen_to_libbpf();
  const bool multi_buffer = running.state().multi_buffer != 0;
  parts.candidate.reset(weir_candidate_bpf__open());
  if (!parts.candidate) return errno_error("cannot open the program of a candidate");
  weir_candidate_bpf& judge = *parts.candidate;
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, judge.obj)(void) bpf_map__set_pin_path(map, nullptr);
  for (const char* name : kWithout) {
    (void)bpf_map__set_autocreate(bpf_object__find_map_by_name(judge.obj, name), false);
  }
  (void)bpf_map__set_max_entries(judge.maps.weir_arenas, WEIR_CHUNKS);  // of one group
  judge.rodata->multi_buffer = multi_buffer ? 1 : 0;
  if (multi_buffer) bpf_program__set_flags(judge.progs.weir_candidate, BPF_F_XDP_HAS_FRAGS);
  if (weir_candidate_bpf__load(&judge) != 0) return not_loaded("the program of a candidate");

  Result<Mapping> values = map_values<weir_state>(judge.maps.weir_state, 1);
  if (!values) return Error{values.error()};
  auto& state = *reinterpret_cast<weir_state*>(values->bytes().data());
  memcpy(&state.group[0], &group, sizeof group);
  state.active = weir_active(0, WEIR_NO_OVERLAY);
  state.version = WEIR_XDP_VERSION;
  if (Result<void> set = set_chunks(bpf_map__fd(judge.maps.weir_arenas), 0, descriptors_of(*arena)); !set)
    return Error{set.error()};
  parts.ring = ring_buffer__new(bpf_map__fd(judge.maps.weir_differing), Parts::take, &parts, nullptr);
  if (parts.ring == nullptr) return errno_error("cannot read the ring of a shadow's samples");

  LIBBPF_OPTS(bpf_object_open_opts, options, .pin_root_path = running.bpf_dir().c_str());
  parts.shadowed.reset(weir_shadowed_bpf__open_opts(&options));
  if (!parts.shadowed) return errno_error("cannot open the program that hands frames to a candidate");
  weir_shadowed_bpf& first = *parts.shadowed;
  first.rodata->multi_buffer = multi_buffer ? 1 : 0;
  first.rodata->shadow_one_in = one_in;
  if (multi_buffer) bpf_program__set_flags(first.progs.weir_shadowed, BPF_F_XDP_HAS_FRAGS);
  const bool is_shared = bpf_map__reuse_fd(first.maps.weir_handed, bpf_map__fd(judge.maps.weir_handed)) == 0;
  if (!is_shared || weir_shadowed_bpf__load(&first) != 0) {
    return not_loaded("the program that hands frames to a candidate");
  }
  const uint32_t zero = 0;
  const int next = bpf_program__fd(judge.progs.weir_candidate);
  if (bpf_map_update_elem(bpf_map__fd(first.maps.weir_next), &zero, &next, BPF_ANY) != 0) {
    return errno_error("cannot hand frames to a candidate's program");
  }
  return run;
}

int ShadowRun::program_fd() const {
  return bpf_program__fd(parts_->shadowed->progs.weir_shadowed);
}

Result<void> ShadowRun::add_to(wire::Shadow& counts, std::span<const weir_list_name> names) const {
  const auto each = values_of_processors<weir_shadow_counts>(bpf_map__fd(parts_->candidate->maps.weir_shadow), 0);
  if (!each) return Error{each.error()};
  auto sum = std::make_unique<weir_shadow_counts>();
  wire::ShadowBody& body = counts.body;
  for (const weir_shadow_counts& one : *each) {
    add(sum->judged, one.judged);
    body.cycles += one.nanoseconds;  // tsc_hz is 0
    body.lost += one.lost;
    for (uint32_t i = 0; i < WEIR_CANDIDATE_PLACES; i++) add(sum->newly_dropped[i], one.newly_dropped[i]);
    for (uint32_t i = 0; i < WEIR_RUNNING_PLACES; i++) add(sum->newly_passed[i], one.newly_passed[i]);
  }
  body.batches += sum->judged.packets;
  body.packets += sum->judged.packets;
  body.bytes += sum->judged.bytes;
  for (const weir_tally& tally : sum->newly_dropped) {
    body.newly_dropped += tally.packets;
    body.newly_dropped_bytes += tally.bytes;
  }
  for (const weir_tally& tally : sum->newly_passed) {
    body.newly_passed += tally.packets;
    body.newly_passed_bytes += tally.bytes;
  }
  using wire::ShadowList;
  const auto own_name = [this](uint32_t list) -> const Name& {
    static constexpr Name kNoName = {};
    return list < lists_.size() ? lists_[list].name : kNoName;
  };
  const auto slot_name = [&](uint32_t slot) -> const Name& { return names[slot].name; };
  add_tallies(sum->newly_dropped, WEIR_MAX_LISTS, own_name, &ShadowList::newly_dropped,
              &ShadowList::newly_dropped_bytes, counts.lists);
  add_tallies(sum->newly_passed, WEIR_LIST_SLOTS, slot_name, &ShadowList::newly_passed, &ShadowList::newly_passed_bytes,
              counts.lists);
  return {};
}

void ShadowRun::drain(size_t most, std::span<const weir_list_name> names, std::vector<wire::ShadowSample>& samples) {
  if (samples.size() >= most) return;
  parts_->most = most - samples.size();
  ring_buffer__consume(parts_->ring);
  for (weir_shadow_sample& from : parts_->taken) {
    wire::ShadowSample& told = samples.emplace_back();
    told.time_unix_ns = from.time_unix_ns;
    told.now_unix_s = from.now_unix_s;
    told.running = {from.epoch, from.number};
    weir_clear_absent(&from.packet);
    static_assert(sizeof from.packet == sizeof told.packet);
    memcpy(told.packet, &from.packet, sizeof from.packet);
    told.frame_bytes = from.frame_bytes;
    told.port = static_cast<uint16_t>(from.interface);
    told.queue = static_cast<uint16_t>(from.queue);
    const uint32_t running = std::min(from.running_place, WEIR_RUNNING_PLACES - 1);
    const uint32_t candidate = std::min(from.candidate_place, WEIR_CANDIDATE_PLACES - 1);
    told.by_running.by = reason_at(running, WEIR_LIST_SLOTS);
    told.by_running.dropped = from.running_drops != 0 ? 1 : 0;
    told.by_running.layer = from.running_layer;
    if (running < WEIR_LIST_SLOTS) memcpy(told.by_running.list, names[running].name, sizeof told.by_running.list);
    told.by_candidate.by = reason_at(candidate, WEIR_MAX_LISTS);
    told.by_candidate.dropped = from.running_drops != 0 ? 0 : 1;
    told.by_candidate.layer = from.candidate_layer;
    if (candidate < lists_.size())
      memcpy(told.by_candidate.list, lists_[candidate].name, sizeof told.by_candidate.list);
  }
  parts_->taken.clear();
}

}  // namespace weir::xdp
