#include "control/compile/compile.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <bit>
#include <cerrno>
#include <chrono>
#include <ctime>

#include "common/clock.h"
#include "common/files.h"
#include "control/compile/merge/merge.h"
#include "control/compile/plan/flow_index.h"
#include "control/compile/prove/prove.h"
#include "control/compile/seal.h"
#include "filter/format/rules.h"

namespace weir::control {
namespace {

// A page of an exact stage overflows less than once in 10^9 builds (filter/build/builder.h): more attempts than this
// mean that something else is wrong.
constexpr int kMaxAttempts = 8;
// A ribbon of few pages may let too much through with one secret (control/compile/prove/prove_rates.cpp): hardly ever
// twice.
constexpr int kMaxUnlucky = 4;

class PhaseClock {
 public:
  PhaseClock(std::vector<PhaseTime>& phases, Progress* progress) : phases_(phases), progress_(progress) {}

  void begin(const char* name, const char* unit = "", uint64_t all = 0) {
    name_ = name;
    if (progress_ != nullptr) progress_->begin(name, unit, all);
  }
  void finish() {
    const Clock::time_point now = Clock::now();
    phases_.push_back({name_, ms_between(begin_, now)});
    begin_ = now;
  }

 private:
  std::vector<PhaseTime>& phases_;
  Progress* progress_;
  const char* name_ = "";
  Clock::time_point begin_ = Clock::now();
};

template <class T>
Result<T> random_value() {
  T value;
  if (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
    return errno_error("cannot get random bytes");
  }
  return value;
}

unsigned probes_of(const std::vector<ShapeReport>& shapes, unsigned family) {
  unsigned probes = 0;
  for (const ShapeReport& report : shapes) {
    if (report.shape.family == family) probes += static_cast<unsigned>(std::popcount(report.shape.directions));
  }
  return probes;
}

// header: of the finished snapshot.
CompileReport report_of(const Policy& policy, const Planned& planned, const weir_snapshot_header& header) {
  CompileReport report;
  report.shapes = planned.shapes;
  for (const List& list : policy.lists) report.entries += list.entries();
  for (GateReport& gate : describe_gates(header)) {
    gate.why = planned.gates[report.gates.size()];
    report.gates.push_back(std::move(gate));
  }
  report.snapshot_bytes = header.total_bytes;
  report.sets = planned.input.sets.size();
  report.rules = planned.input.rules.size();
  report.longest_chain = filter::longest_chain(planned.input.residuals);
  report.probes_v4 = probes_of(planned.shapes, 4);
  report.probes_v6 = probes_of(planned.shapes, 6);
  return report;
}

// A secret with which every key finds room.
Result<Draft> build(Planned& planned, unsigned threads, Progress* progress) {
  std::string last_error;
  for (int attempt = 0; attempt < kMaxAttempts; attempt++) {
    const auto secret = random_value<std::array<uint64_t, 2>>();
    if (!secret) return secret.failure();
    planned.layout.header.secret[0] = (*secret)[0];
    planned.layout.header.secret[1] = (*secret)[1];
    Result<Draft> draft = make_draft(planned.layout.header.total_bytes);
    if (!draft) return draft;
    filter::PartitionLimits limits;
    if (progress != nullptr) {
      progress->done = 0;
      limits.written = &progress->done;
    }
    const auto built = filter::build_snapshot(planned.input, planned.layout, draft->mapping.bytes(), threads, limits);
    if (built) return draft;
    last_error = built.error();
  }
  return Error{fmt::format("building failed with {} secrets, the last time: {}", kMaxAttempts, last_error)};
}

// unlucky: as prove.
Result<Compiled> compile_once(const Policy& policy, wire::Generation generation, unsigned build_threads,
                              Progress* progress, bool* unlucky) {
  Compiled compiled;
  compiled.generation = generation;
  std::vector<PhaseTime> phases;
  PhaseClock clock(phases, progress);
  uint64_t entries = 0;
  for (const List& list : policy.lists) entries += list.entries();

  clock.begin("merge", "entries");
  Merged merged = merge(policy, progress);
  clock.finish();

  clock.begin("index");
  if (auto ok = index_flows(policy, merged); !ok) return Error{ok.error()};
  clock.finish();

  clock.begin("plan");
  Result<Planned> planned = plan(merged, policy);
  if (!planned) return Error{planned.error()};
  merged = {};
  planned->layout.header.epoch = generation.epoch;
  planned->layout.header.number = generation.number;
  planned->layout.header.built_unix_s = static_cast<uint64_t>(unix_now());
  clock.finish();

  uint64_t keys = 0;
  for (const filter::KeyTable& table : planned->input.tables) keys += table.rules.size();
  clock.begin("build", "keys", keys);
  Result<Draft> draft = build(*planned, build_threads, progress);
  if (!draft) return draft.failure();
  compiled.report =
      report_of(policy, *planned, *reinterpret_cast<const weir_snapshot_header*>(draft->mapping.bytes().data()));
  compiled.size_bytes = draft->mapping.size();
  planned->input = {};
  clock.finish();

  clock.begin("prove", "entries", entries);
  const auto seed = random_value<uint64_t>();
  if (!seed) return seed.failure();
  const Result<Proof> proof = prove(policy, draft->mapping.bytes(), *seed, unlucky, progress);
  if (!proof) return Error{proof.error()};
  compiled.report.proved_entries = proof->entries;
  compiled.report.proved_strangers = proof->strangers;
  for (size_t s = 0; s < compiled.report.shapes.size(); s++) {
    if (!proof->shape_rates[s]) continue;
    compiled.report.shapes[s].measured_fpr = proof->shape_rates[s]->measured;
    compiled.report.shapes[s].band = proof->shape_rates[s]->band;
  }
  for (size_t g = 0; g < proof->gate_shares.size(); g++) {
    compiled.report.gates[g].measured_share = proof->gate_shares[g];
  }
  clock.finish();

  clock.begin("seal");
  Result<Sealed> sealed = seal(std::move(*draft));
  if (!sealed) return sealed.failure();
  compiled.snapshot = std::move(sealed->fd);
  compiled.digest = sealed->digest;
  clock.finish();

  compiled.report.phases = std::move(phases);
  return compiled;
}

}  // namespace

Result<Compiled> compile(const Policy& policy, wire::Generation generation, unsigned build_threads,
                         Progress* progress) {
  for (int attempt = 1;; attempt++) {
    bool unlucky = false;
    Result<Compiled> compiled = compile_once(policy, generation, build_threads, progress, &unlucky);
    if (compiled || !unlucky || attempt == kMaxUnlucky) return compiled;
  }
}

}  // namespace weir::control
