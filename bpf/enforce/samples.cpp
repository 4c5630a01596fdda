#include "bpf/enforce/samples.h"

#include <bpf/libbpf.h>

#include <algorithm>
#include <cstring>

#include "bpf/program/plane.h"
#include "common/files.h"
#include "filter/format/residual.h"

namespace weir::xdp {

namespace {

static_assert(WEIR_BY_LIST == static_cast<int>(wire::DroppedBy::list) &&
              WEIR_BY_DEFAULT == static_cast<int>(wire::DroppedBy::default_action) &&
              WEIR_BY_UNPARSED == static_cast<int>(wire::DroppedBy::unparsed) &&
              WEIR_BY_NO_SNAPSHOT == static_cast<int>(wire::DroppedBy::no_snapshot));
static_assert(WEIR_SAMPLE_BYTES == wire::kMaxSnapBytes);

constexpr size_t kMostBytes = wire::kMaxMessageBytes - sizeof(wire::Header);

wire::Sample to_wire(const weir_sample& from) {
  wire::Sample sample;
  sample.generation = {from.epoch, from.number};
  sample.time_unix_ns = from.time_unix_ns;
  sample.now_unix_s = from.now_unix_s;
  weir_packet packet = from.packet;
  weir_clear_absent(&packet);
  static_assert(sizeof packet == sizeof sample.packet && sizeof sample.list == sizeof from.list);
  memcpy(sample.packet, &packet, sizeof packet);
  sample.dropped_by = static_cast<wire::DroppedBy>(from.dropped_by);
  sample.layer = from.layer;
  sample.queue = static_cast<uint16_t>(from.queue);
  sample.port = from.interface;
  sample.frame_bytes = from.frame_bytes;
  sample.captured_bytes = std::min(from.captured_bytes, wire::kMaxSnapBytes);
  sample.one_in = from.one_in;
  memcpy(sample.list, from.list, sizeof sample.list);
  return sample;
}

}  // namespace

struct SampleRing::Parts {
  explicit Parts(weir_state& of) : state(of) {}
  ~Parts() { ring_buffer__free(ring); }
  Parts(const Parts&) = delete;

  // Called by libbpf for each sample, oldest first; it is out of the ring when this returns. Not 0: no more of them.
  static int take(void* parts, void* data, size_t bytes) { return static_cast<Parts*>(parts)->take(data, bytes); }
  int take(const void* data, size_t bytes) {
    weir_sample sample;
    memcpy(&sample, data, std::min(bytes, sizeof sample));
    wire::append_sample(body, to_wire(sample), sample.bytes);
    n_samples++;
    // Now: were this process to end before the sample is out of the ring, the next one would find more told than there
    // are, not some that wait for ever.
    __atomic_fetch_add(&state.drops_told, 1, __ATOMIC_RELAXED);
    return body.size() + wire::sample_message_bytes(wire::kMaxSnapBytes) > kMostBytes ? -1 : 0;
  }

  weir_state& state;
  ring_buffer* ring = nullptr;
  // Of the answer that is made.
  std::vector<std::byte> body;
  uint32_t n_samples = 0;
};

SampleRing::SampleRing() = default;
SampleRing::SampleRing(SampleRing&&) noexcept = default;
SampleRing& SampleRing::operator=(SampleRing&&) noexcept = default;
SampleRing::~SampleRing() = default;

Result<SampleRing> SampleRing::open(const Program& program) {
  SampleRing opened;
  opened.parts_ = std::make_unique<Parts>(program.state());
  opened.parts_->ring = ring_buffer__new(program.samples_fd(), Parts::take, opened.parts_.get(), nullptr);
  if (opened.parts_->ring == nullptr) return errno_error("cannot read the ring of samples");
  __atomic_store_n(&program.state().sampling, 0u, __ATOMIC_RELEASE);
  return opened;
}

Result<std::vector<std::byte>> SampleRing::answer(const Program& program, const wire::SamplingBody& wanted) {
  weir_state& state = parts_->state;
  state.drops_one_in = wanted.one_in;
  state.drops_per_second = wanted.per_list_per_second;
  state.snap_bytes = std::min(wanted.snap_bytes, WEIR_SAMPLE_BYTES);
  __atomic_store_n(&state.sampling, wanted.one_in != 0 ? uint32_t{WEIR_SAMPLES_DROPS} : 0u, __ATOMIC_RELEASE);

  wire::SamplesBody head;
  parts_->body.assign(sizeof head, {});
  parts_->n_samples = 0;
  ring_buffer__consume(parts_->ring);
  const Result<weir_totals> totals = program.totals();  // afterwards: what was taken out is counted in them
  if (!totals) return Error{totals.error()};
  head.start_time_unix = state.start_time_unix;
  head.sampled = totals->drops.sampled;
  head.limited = totals->drops.limited;
  head.lost = totals->drops.lost;
  head.told = state.drops_told;
  const uint64_t gone = head.limited + head.lost + head.told;
  head.waiting = static_cast<uint32_t>(head.sampled > gone ? head.sampled - gone : 0);
  head.n_samples = parts_->n_samples;
  memcpy(parts_->body.data(), &head, sizeof head);
  return std::move(parts_->body);
}

}  // namespace weir::xdp
