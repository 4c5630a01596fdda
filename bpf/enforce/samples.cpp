#include "bpf/enforce/samples.h"

#include <bpf/libbpf.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "bpf/program/plane.h"
#include "common/files.h"
#include "filter/format/residual.h"

namespace weir::xdp {

namespace {

static_assert(WEIR_BY_LIST == static_cast<int>(wire::DroppedBy::list) &&
              WEIR_BY_DEFAULT == static_cast<int>(wire::DroppedBy::default_action) &&
              WEIR_BY_UNPARSED == static_cast<int>(wire::DroppedBy::unparsed) &&
              WEIR_BY_NO_SNAPSHOT == static_cast<int>(wire::DroppedBy::no_snapshot));
static_assert(WEIR_KIND_PACKETS == static_cast<int>(wire::FrameKind::packets) &&
              WEIR_KIND_NOT_IP == static_cast<int>(wire::FrameKind::not_ip) &&
              WEIR_KIND_MALFORMED == static_cast<int>(wire::FrameKind::malformed));
static_assert(WEIR_SAMPLE_BYTES == wire::kMaxSnapBytes && WEIR_MAX_LAYERS == wire::kMaxLayers);

constexpr size_t kMostBytes = wire::kMaxMessageBytes - sizeof(wire::Header);

// A record of a ring, which may end before the struct does.
template <class Record>
Record record_of(std::span<const std::byte> bytes) {
  Record record = {};
  memcpy(static_cast<void*>(&record), bytes.data(), std::min(bytes.size(), sizeof record));
  return record;
}

void copy_packet(weir_packet packet, std::byte* to) {
  static_assert(sizeof packet == wire::kPacketBytes);
  weir_clear_absent(&packet);
  memcpy(to, &packet, sizeof packet);
}

void append_drop(std::span<const std::byte> bytes, std::vector<std::byte>& body) {
  const auto from = record_of<weir_sample>(bytes);
  wire::Sample sample;
  sample.generation = {from.epoch, from.number};
  sample.time_unix_ns = from.time_unix_ns;
  sample.now_unix_s = from.now_unix_s;
  copy_packet(from.packet, sample.packet);
  sample.dropped_by = static_cast<wire::DroppedBy>(from.dropped_by);
  sample.layer = from.layer;
  sample.queue = static_cast<uint16_t>(from.queue);
  sample.port = from.interface;
  sample.frame_bytes = from.frame_bytes;
  sample.captured_bytes = std::min(from.captured_bytes, wire::kMaxSnapBytes);
  sample.one_in = from.one_in;
  static_assert(sizeof sample.list == sizeof from.list);
  memcpy(sample.list, from.list, sizeof sample.list);
  wire::append_sample(body, sample, from.bytes);
}

void append_traffic(std::span<const std::byte> bytes, std::vector<std::byte>& body) {
  const auto from = record_of<weir_traffic>(bytes);
  wire::SampledTraffic sampled;
  sampled.sample.time_unix_ns = from.time_unix_ns;
  sampled.sample.weight = from.weight;
  sampled.sample.frame_bytes = from.frame_bytes;
  sampled.sample.kind = static_cast<wire::FrameKind>(from.kind);
  sampled.sample.dropped = from.dropped;
  sampled.sample.layers = std::min<uint8_t>(from.layers, wire::kMaxLayers);
  for (uint32_t layer = 0; layer < sampled.sample.layers; layer++) {
    copy_packet(from.packet[layer], sampled.packets[layer].data());
  }
  wire::append_traffic(body, sampled);
}

void set_sampling(weir_state& state, uint32_t which, bool on) {
  const uint32_t others = state.sampling & ~which;
  __atomic_store_n(&state.sampling, on ? others | which : others, __ATOMIC_RELEASE);
}

// Counters were read after what is told was taken out, so all of that is in them.
uint32_t waiting_of(const weir_stratum& counts, uint64_t told) {
  const uint64_t gone = counts.limited + counts.lost + told;
  return static_cast<uint32_t>(counts.sampled > gone ? counts.sampled - gone : 0);
}

template <class Head>
std::vector<std::byte> with_head(const Head& head, std::vector<std::byte> body) {
  memcpy(body.data(), &head, sizeof head);
  return body;
}

}  // namespace

struct SampleRing::Parts {
  ~Parts() { ring_buffer__free(ring); }

  // Called by libbpf for each sample, oldest first; it is out of the ring when this returns. Not 0: no more of them.
  static int take(void* parts, void* data, size_t bytes) {
    return static_cast<Parts*>(parts)->take({static_cast<const std::byte*>(data), bytes});
  }
  int take(std::span<const std::byte> record) {
    append(record, *body);
    n++;
    // Now: were this process to end before the sample is out of the ring, the next one would find more told than there
    // are, not some that wait for ever.
    __atomic_fetch_add(told, 1, __ATOMIC_RELAXED);
    return body->size() + longest > kMostBytes ? -1 : 0;
  }

  Append append = nullptr;
  size_t longest = 0;
  uint64_t* told = nullptr;
  ring_buffer* ring = nullptr;
  // While it drains.
  std::vector<std::byte>* body = nullptr;
  uint32_t n = 0;
};

SampleRing::SampleRing() = default;
SampleRing::SampleRing(SampleRing&&) noexcept = default;
SampleRing& SampleRing::operator=(SampleRing&&) noexcept = default;
SampleRing::~SampleRing() = default;

Result<SampleRing> SampleRing::open(int map, Append append, size_t longest, uint64_t& told) {
  SampleRing opened;
  opened.parts_ = std::make_unique<Parts>();
  Parts& parts = *opened.parts_;
  parts.append = append;
  parts.longest = longest;
  parts.told = &told;
  parts.ring = ring_buffer__new(map, Parts::take, &parts, nullptr);
  if (parts.ring == nullptr) return errno_error("cannot read a ring of samples");
  return opened;
}

uint32_t SampleRing::drain(std::vector<std::byte>& body) {
  parts_->body = &body;
  parts_->n = 0;
  ring_buffer__consume(parts_->ring);
  return parts_->n;
}

Result<Samples> Samples::open(const Program& program) {
  weir_state& state = program.state();
  Samples samples;
  Result<SampleRing> drops = SampleRing::open(program.samples_fd(), append_drop,
                                              wire::sample_message_bytes(wire::kMaxSnapBytes), state.drops_told);
  if (!drops) return Error{drops.error()};
  Result<SampleRing> traffic = SampleRing::open(program.traffic_fd(), append_traffic,
                                                wire::traffic_message_bytes(wire::kMaxLayers), state.traffic_told);
  if (!traffic) return Error{traffic.error()};
  samples.drops_ = std::move(*drops);
  samples.traffic_ = std::move(*traffic);
  set_sampling(state, WEIR_SAMPLES_DROPS | WEIR_SAMPLES_TRAFFIC, false);
  return samples;
}

Result<std::vector<std::byte>> Samples::drops(const Program& program, const wire::SamplingBody& wanted) {
  weir_state& state = program.state();
  state.drops_one_in = wanted.one_in;
  state.drops_per_second = wanted.per_list_per_second;
  state.snap_bytes = std::min(wanted.snap_bytes, WEIR_SAMPLE_BYTES);
  set_sampling(state, WEIR_SAMPLES_DROPS, wanted.one_in != 0);

  wire::SamplesBody head;
  std::vector<std::byte> body(sizeof head);
  head.n_samples = drops_.drain(body);
  const Result<weir_totals> totals = program.totals();
  if (!totals) return Error{totals.error()};
  const weir_stratum& counts = totals->drops;
  head.start_time_unix = state.start_time_unix;
  head.sampled = counts.sampled;
  head.limited = counts.limited;
  head.lost = counts.lost;
  head.told = state.drops_told;
  head.waiting = waiting_of(counts, head.told);
  return with_head(head, std::move(body));
}

// About so many samples a second, by the frames of the tenth of a second, or longer, before it is asked. The program
// itself takes fewer while its ring fills up.
uint32_t Samples::one_in(uint32_t per_second, uint64_t frames) {
  constexpr std::chrono::milliseconds kLeast{100};
  constexpr double kMost = 1e6;
  const Clock::time_point now = Clock::now();
  if (frames_at_ == Clock::time_point() || now - frames_at_ >= kLeast) {
    const double seconds = std::chrono::duration<double>(now - frames_at_).count();
    const bool is_first = std::exchange(frames_at_, now) == Clock::time_point();
    frames_per_second_ = is_first ? 0 : static_cast<double>(frames - frames_) / seconds;
    frames_ = frames;
  }
  return static_cast<uint32_t>(std::clamp(frames_per_second_ / per_second, 1.0, kMost));
}

Result<std::vector<std::byte>> Samples::traffic(const Program& program, const wire::TrafficRequest& wanted) {
  weir_state& state = program.state();
  wire::TrafficBody head;
  std::vector<std::byte> body(sizeof head);
  head.n_samples = traffic_.drain(body);
  const Result<weir_totals> totals = program.totals();
  if (!totals) return Error{totals.error()};
  uint64_t frames = 0;
  for (const weir_tally& reason : totals->reason) frames += reason.packets;
  if (wanted.per_second != 0) state.traffic_one_in = one_in(wanted.per_second, frames);
  set_sampling(state, WEIR_SAMPLES_TRAFFIC, wanted.per_second != 0);
  const weir_stratum& counts = totals->traffic;
  head.start_time_unix = state.start_time_unix;
  head.sampled = counts.sampled;
  head.lost = counts.lost;
  head.told = state.traffic_told;
  head.waiting = waiting_of(counts, head.told);
  return with_head(head, std::move(body));
}

}  // namespace weir::xdp
