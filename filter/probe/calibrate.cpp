#include "filter/probe/calibrate.h"

#include <linux/mman.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "common/clock.h"
#include "common/fd.h"
#include "common/files.h"
#include "common/memory.h"
#include "filter/probe/lookup.h"
#include "filter/read/view.h"

namespace weir::filter {
namespace {

using std::chrono::milliseconds;

constexpr size_t kSizes[] = {256 << 10, 4 << 20, 16 << 20, 64 << 20};
constexpr size_t kLargest = kSizes[std::size(kSizes) - 1];
constexpr unsigned kLookAheads = 7;  // 0..6: more never was better

// A look-ahead is worth its latency when it is more than 3 % faster: runs differ by 2 to 3 % on a quiet machine.
constexpr double kWithin = 1.03;

constexpr unsigned kRunBatches = 256;  // 16384 keys: 25 to 100 us, much longer than a pipeline takes to fill
constexpr unsigned kMinRounds = 3, kMaxRounds = 64;
constexpr milliseconds kBudgetPerSize{55};  // 220 ms in all, and 20 to 40 for getting the memory

constexpr KeyShape kShape = {.family = 6, .addr_bits = 128, .with_port = false};
constexpr uint64_t kSecret[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};

// The filter, and one page of an empty exact stage.
struct Scratch {
  Mapping filter;
  bool huge_pages = false;
  alignas(WEIR_PAGE_BYTES) std::array<uint8_t, WEIR_PAGE_BYTES> exact = {};

  ShapeView shape(size_t filter_bytes) const {
    return {.shape = kShape,
            .directions = WEIR_AS_SOURCE,
            .prefetch = outgrows_l2(filter_bytes),
            .secret = kSecret,
            .filter = {reinterpret_cast<const uint8_t*>(filter.bytes().data()),
                       static_cast<uint32_t>(filter_bytes / WEIR_LINE_BYTES), 0},
            .exact_lines = {exact.data(), WEIR_LINES_PER_PAGE, 0},
            .exact_buckets = WEIR_LINES_PER_PAGE,
            .exact = exact.data()};
  }
};

uint64_t next_random(uint64_t& state) {  // splitmix64 (Steele, Lea, Flood 2014)
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

// Half of the bits are set, so that 2^-8 of the keys go on to the exact stage, as they do in a filter in use.
void fill_with_random_bits(std::span<std::byte> bytes) {
  std::array<uint64_t, WEIR_PAGE_BYTES / 8> page;
  uint64_t state = 1;
  for (uint64_t& word : page) word = next_random(state);
  for (size_t at = 0; at < bytes.size(); at += sizeof page) memcpy(bytes.data() + at, page.data(), sizeof page);
}

Result<Scratch> make_scratch(size_t filter_bytes) {
  Scratch scratch;
  scratch.filter = map_anonymous(filter_bytes, MAP_HUGETLB | MAP_HUGE_2MB);
  scratch.huge_pages = populate(scratch.filter);
  if (!scratch.huge_pages) {
    scratch.filter = map_anonymous(filter_bytes, 0);
    if (scratch.filter) madvise(scratch.filter.bytes().data(), filter_bytes, MADV_HUGEPAGE);
    if (!populate(scratch.filter)) {
      return errno_error("cannot get " + std::to_string(filter_bytes) + " bytes to measure lookups with");
    }
  }
  fill_with_random_bits(scratch.filter.bytes());
  return scratch;
}

// Batches that go round through a pipeline. As few as are ever inside it: more would only fill the caches.
class Circuit {
 public:
  Circuit(const Kernels& kernels, unsigned look_ahead)
      : pipeline_(kernels, look_ahead), n_(look_ahead + LookupPipeline::kMaxAge + 3) {
    static_assert(LookupPipeline::kMaxLookAhead + LookupPipeline::kMaxAge + 3 <= LookupPipeline::kMaxInFlight);
    uint64_t state = 2;
    for (Batch& batch : batches_) {
      batch.lane = &lane_;
      batch.n = kMaxBatch;
      for (unsigned i = 0; i < kMaxBatch; i++) batch.word[0][i] = next_random(state);
    }
  }

  // ns a key. Every batch has keys that never were there before: the other half of them is its number.
  double run(const ShapeView& shape, uint64_t& number) {
    lane_ = {.shape = &shape};
    const Clock::time_point begin = Clock::now();
    for (unsigned i = 0; i < kRunBatches; i++) {
      if (in_flight_ == n_) finish();
      Batch& batch = batches_[next_++ % n_];
      std::fill_n(batch.word[1], kMaxBatch, number++);
      pipeline_.push(&batch);
      in_flight_++;
      take_out();
    }
    finish();
    const std::chrono::duration<double, std::nano> taken = Clock::now() - begin;
    return taken.count() / (kRunBatches * kMaxBatch);
  }

 private:
  void take_out() {
    while (pipeline_.pop() != nullptr) in_flight_--;
  }
  void finish() {
    pipeline_.drain();
    take_out();
  }

  LookupPipeline pipeline_;
  const unsigned n_;
  unsigned in_flight_ = 0;
  uint64_t next_ = 0;
  Lane lane_;
  Batch batches_[LookupPipeline::kMaxInFlight];
};

using Times = std::array<double, kLookAheads>;  // ns a key, by look-ahead

Times measure(const Kernels& kernels, const ShapeView& shape, Clock::time_point end) {
  Times fastest;
  fastest.fill(std::numeric_limits<double>::infinity());
  uint64_t number = 0;
  for (unsigned round = 0; round < kMaxRounds && (round < kMinRounds || Clock::now() < end); round++) {
    for (unsigned ahead = 0; ahead < kLookAheads; ahead++) {
      Circuit circuit(kernels, ahead);
      fastest[ahead] = std::min(fastest[ahead], circuit.run(shape, number));
    }
  }
  return fastest;
}

unsigned best_look_ahead(const Times& times) {
  const double enough = *std::min_element(times.begin(), times.end()) * kWithin;
  return static_cast<unsigned>(std::find_if(times.begin(), times.end(), [&](double ns) { return ns <= enough; }) -
                               times.begin());
}

double interpolate(const std::vector<CalibrationPoint>& points, size_t filter_bytes, double CalibrationPoint::*ns) {
  if (points.empty()) return 0;
  const auto above = std::find_if(points.begin(), points.end(),
                                  [&](const CalibrationPoint& point) { return point.filter_bytes >= filter_bytes; });
  if (above == points.begin()) return points.front().*ns;
  if (above == points.end()) return points.back().*ns;
  const CalibrationPoint& low = *(above - 1);
  const auto log_size = [](size_t bytes) { return std::log(static_cast<double>(bytes)); };
  const double share = (log_size(filter_bytes) - log_size(low.filter_bytes)) /
                       (log_size(above->filter_bytes) - log_size(low.filter_bytes));
  return low.*ns + share * (*above.*ns - low.*ns);
}

}  // namespace

double Calibration::ns_for(size_t filter_bytes) const {
  return interpolate(points, filter_bytes, &CalibrationPoint::pipelined_ns);
}

double Calibration::sync_ns_for(size_t filter_bytes) const {
  return interpolate(points, filter_bytes, &CalibrationPoint::sync_ns);
}

Result<Calibration> calibrate(const Kernels& kernels) {
  const Result<Scratch> scratch = make_scratch(kLargest);
  if (!scratch) return Error{scratch.error()};
  Calibration calibration;
  calibration.huge_pages = scratch->huge_pages;
  for (size_t filter_bytes : kSizes) {
    const Times times = measure(kernels, scratch->shape(filter_bytes), Clock::now() + kBudgetPerSize);
    const unsigned look_ahead = best_look_ahead(times);
    calibration.points.push_back({filter_bytes, times[0], times[look_ahead], look_ahead});
    calibration.look_ahead = look_ahead;
  }
  return calibration;
}

}  // namespace weir::filter
