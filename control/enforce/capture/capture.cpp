#include "control/enforce/capture/capture.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/clock.h"
#include "common/log/log.h"
#include "control/enforce/capture/capture_comment.h"
#include "control/lists/book/claims.h"

namespace weir::control {

namespace {

using std::chrono::milliseconds;

constexpr size_t kMaxWaiting = 8192;  // samples here; past it targets are not asked, and count what they lose
constexpr size_t kMaxKnown = 3;       // generations
constexpr std::chrono::seconds kFlushInterval{1};
// A target may be faster with a new generation than the note about it.
constexpr std::chrono::seconds kWaitForBook{10};
// Searches for entries take at most one part in this many of a processor.
constexpr int kSearchShare = 10;
constexpr milliseconds kSearchInterval{100};
constexpr milliseconds kPatience{500};        // with targets that should tell what they still hold
constexpr std::chrono::seconds kFollowed{5};  // after somebody asked, so that he asks again in time
// While somebody follows and the policy has no section capture: enough for headers, and for lists that drop much beside
// lists that drop little. The share is Pace's.
constexpr uint32_t kFollowedPerSecond = 100;
constexpr uint32_t kFollowedBytes = 128;
constexpr uint64_t kNsPerSecond = 1'000'000'000;

std::string list_or_reason(const wire::Sample& sample) {
  return sample.dropped_by == wire::DroppedBy::list ? wire::get_text(sample.list)
                                                    : fmt::format("/{}", static_cast<int>(sample.dropped_by));
}

CaptureSettings followed_settings() {
  CaptureSettings settings;
  settings.one_in = 0;  // as Pace says
  settings.per_list_per_second = kFollowedPerSecond;
  settings.snap_bytes = kFollowedBytes;
  return settings;
}

}  // namespace

Capture::Capture(Loop& loop, std::string state_dir, Surroundings surroundings)
    : state_dir_(std::move(state_dir)), surroundings_(std::move(surroundings)), loop_(loop) {}

void Capture::configure(std::optional<CaptureSettings> settings, std::vector<TargetSpec> targets) {
  policy_ = std::move(settings);
  policy_targets_ = std::move(targets);
  decide();
}

void Capture::follow() {
  followed_until_ = Clock::now() + kFollowed;
  if (!policy_) decide();
}

void Capture::stop() {
  is_stopped_ = true;
  decide();
}

// What is sampled from now on.
void Capture::decide() {
  Wish wish;
  if (!is_stopped_ && policy_) {
    wish.sampling = Sampling{*policy_, true};
  } else if (!is_stopped_ && followed_until_) {
    wish.sampling = Sampling{followed_settings(), false};
  }
  if (wish.sampling) wish.targets = policy_targets_;
  const bool is_so = end_at_ ? wish.sampling == wish_->sampling && wish.targets == wish_->targets
                             : wish.sampling == sampling_ && wish.targets == targets_;
  if (is_so) return;
  wish_ = std::move(wish);
  if (!end_at_) begin_end();
  turn();
}

void Capture::published(wire::Generation generation) {
  if (generation != published_) learn(generation);
  turn();
}

// Whatever is due now, then a rest until something is.
void Capture::turn() {
  const auto is_finished = [](const FromSource& from) { return from.source->is_finished(); };
  if (followed_until_ && Clock::now() >= *followed_until_) {
    followed_until_.reset();
    decide();
  }
  if (end_at_ && (Clock::now() >= *end_at_ || std::all_of(sources_.begin(), sources_.end(), is_finished))) end();
  if (sampling_) {
    ask(Clock::now());
    hand_out(Clock::now(), false);
    if (files_ && Clock::now() >= next_flush_) {
      files_->flush(wall_now());
      next_flush_ = Clock::now() + kFlushInterval;
    }
  }
  log_errors();
  arm();
}

void Capture::arm() {
  timer_.reset();
  if (!sampling_) return;
  for (uint32_t i = 0; i < sources_.size(); i++) {
    FromSource& from = sources_[i];
    if (from.readable || from.source->fd() < 0) continue;
    from.readable = loop_.io(from.source->fd(), EPOLLIN, [this, i](uint32_t) { receive(i); });
  }
  timer_ = loop_.timer(due(), [this] { turn(); });
}

void Capture::begin(const Sampling& sampling, const std::vector<TargetSpec>& targets) {
  const CaptureSettings& settings = sampling.settings;
  Result<FrameFilter> filter = FrameFilter::compile(settings.filter);
  if (!filter) {  // it was good when the policy was read: a name in it is not found any more
    refused_ = fmt::format("off, because the filter is not understood: {}", filter.error());
    sampling_.reset();
    return;
  }
  refused_.clear();
  filter_ = std::move(*filter);
  for (const TargetSpec& target : targets) {
    FromSource& from = sources_.emplace_back();
    from.source = std::make_unique<SampleSource>(
        target.name, [this, target](auto done) { surroundings_.connect(target, std::move(done)); }, [this] { turn(); });
    from.paced_at = Clock::now();
    from.source->want({settings.one_in != 0 ? settings.one_in : from.pace.one_in(), settings.per_list_per_second,
                       settings.snap_bytes, 0});
  }
  if (sampling.to_files) {
    begin_files(settings);
  } else {
    log::info("drops are followed: they are sampled", {{"targets", targets.size()}});
  }
}

void Capture::begin_files(const CaptureSettings& settings) {
  CaptureFiles::Settings files = {settings.folder.empty() ? state_dir_ + "/capture" : settings.folder,
                                  settings.file_bytes,
                                  settings.file_age_s,
                                  settings.files,
                                  {}};
  for (const FromSource& from : sources_) {
    files.interfaces.push_back({from.source->target(), fmt::format("what this target drops, 1 in {}", settings.one_in),
                                settings.filter, settings.snap_bytes});
  }
  files_ = std::make_unique<CaptureFiles>(std::move(files), [this](uint32_t interface) {
    const FromSource& from = sources_[interface];
    const SampleSource::Counts& counts = from.source->counts();
    return pcapng::Statistics{counts.sampled - counts.waiting, counts.limited + counts.lost + from.limited,
                              from.accepted, 0};
  });
  log::info("capture begins", {{"folder", files_->folder()}, {"one_in", settings.one_in}});
}

// Samples that are under way are fetched first.
void Capture::begin_end() {
  end_at_ = Clock::now() + (sampling_ ? kPatience : milliseconds(0));
  for (FromSource& from : sources_) from.source->finish();
}

void Capture::end() {
  end_at_.reset();
  refused_.clear();
  if (sampling_) end_sampling();
  Wish wish = std::move(*wish_);
  wish_.reset();
  sampling_ = std::move(wish.sampling);
  targets_ = std::move(wish.targets);
  if (sampling_) begin(*sampling_, targets_);
  learn(published_);
}

void Capture::end_sampling() {
  for (FromSource& from : sources_) from.readable.reset();
  hand_out(Clock::now(), true);
  if (files_) files_->finish(wall_now());
  for (const FromSource& from : sources_) {
    add_counts(from, ended_, ended_log_);
    const uint64_t left = from.source->counts().waiting;
    ended_.lost += left;
    ended_log_.lost += left;
  }
  ended_.waiting = ended_log_.waiting = 0;
  if (files_) {
    ended_.written += files_->written();
    ended_.lost += files_->lost();
  }
  files_.reset();
  sources_.clear();
  second_of_.clear();
  sampling_.reset();
  known_.clear();
}

// Keeps the book: samples of this generation still arrive when the next one runs.
void Capture::learn(wire::Generation generation) {
  published_ = generation;
  if (!sampling_ || generation.epoch == 0) return;
  std::shared_ptr<const Book> book = surroundings_.books(generation);
  if (book == nullptr) {
    log::info("capture: comments will name no entries", {{"generation", generation.number}});
    return;
  }
  known_.push_back({generation, std::move(book)});
  if (known_.size() > kMaxKnown) known_.pop_front();
}

void Capture::ask(Clock::time_point now) {
  if (waiting_.size() >= kMaxWaiting) return;
  for (const FromSource& from : sources_) {
    if (now >= from.source->due()) from.source->ask(now);
  }
}

Clock::time_point Capture::due() const {
  Clock::time_point until = files_ ? next_flush_ : Clock::time_point::max();
  if (end_at_) until = std::min(until, *end_at_);
  if (followed_until_) until = std::min(until, *followed_until_);
  if (waiting_.size() < kMaxWaiting) {
    for (const FromSource& from : sources_) until = std::min(until, from.source->due());
  }
  if (!waiting_.empty()) until = std::min(until, next_hand_out_);
  return until;
}

void Capture::receive(uint32_t source) {
  FromSource& from = sources_[source];
  from.readable.reset();  // before the source may close its connection
  for (wire::SampledFrame& frame : from.source->take(Clock::now())) {
    const bool to_files = files_ && (!filter_ || filter_->passes(frame.bytes, frame.sample.frame_bytes));
    if (to_files) from.accepted++;
    if (files_ && !to_files) from.filtered++;
    waiting_.push_back({std::move(frame), source, Clock::now(), to_files});
  }
  keep_pace(from);
  turn();
}

void Capture::keep_pace(FromSource& from) {
  constexpr milliseconds kLeast{200};
  const Clock::time_point now = Clock::now();
  if (!sampling_ || sampling_->settings.one_in != 0 || now - from.paced_at < kLeast) return;
  wire::SamplingBody wanted = from.source->wanted();
  if (wanted.one_in == 0) return;  // it ends
  const uint64_t sampled = from.source->counts().sampled;
  from.pace.take(sampled - from.paced, std::chrono::duration<double>(now - from.paced_at).count());
  from.paced = sampled;
  from.paced_at = now;
  wanted.one_in = from.pace.one_in();
  from.source->want(wanted);
}

const Capture::Known* Capture::known(wire::Generation generation) const {
  const auto found =
      std::find_if(known_.begin(), known_.end(), [&](const Known& known) { return known.generation == generation; });
  return found == known_.end() ? nullptr : &*found;
}

bool Capture::is_ready(const Waiting& waiting, Clock::time_point now) const {
  const wire::Sample& sample = waiting.frame.sample;
  if (sample.dropped_by != wire::DroppedBy::list || known(sample.generation) != nullptr) return true;
  const bool is_past = sample.generation.epoch == published_.epoch && sample.generation.number <= published_.number;
  return is_past || now - waiting.since >= kWaitForBook;
}

// The limits of workers and processors are for each of them; this one is for all. What is for the log alone takes no
// place from what is written.
bool Capture::within_limit(const Waiting& waiting) {
  const wire::Sample& sample = waiting.frame.sample;
  Second& second = second_of_[(waiting.to_files ? "" : " ") + list_or_reason(sample)];
  const uint64_t number = sample.time_unix_ns / kNsPerSecond;
  if (number > second.number) second = {number, 0};
  if (second.frames >= sampling_->settings.per_list_per_second) return false;
  second.frames++;
  return true;
}

// To files and to the log, in the order of their times. all: do not wait.
void Capture::hand_out(Clock::time_point now, bool all) {
  if (waiting_.empty() || (now < next_hand_out_ && !all)) return;
  const auto later = std::stable_partition(waiting_.begin(), waiting_.end(),
                                           [&](const Waiting& waiting) { return all || is_ready(waiting, now); });
  std::vector<Waiting> ready(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(later));
  waiting_.erase(waiting_.begin(), later);
  std::stable_sort(ready.begin(), ready.end(), [](const Waiting& a, const Waiting& b) {
    return a.frame.sample.time_unix_ns < b.frame.sample.time_unix_ns;
  });
  std::erase_if(ready, [&](const Waiting& waiting) {
    if (within_limit(waiting)) return false;
    FromSource& from = sources_[waiting.source];
    if (waiting.to_files || !files_) from.limited++;
    if (waiting.to_files) from.accepted--;
    if (!waiting.to_files && files_) from.log_limited++;
    return true;
  });

  for (Waiting& waiting : ready) {
    const wire::Sample& sample = waiting.frame.sample;
    const Known* of_sample = sample.dropped_by == wire::DroppedBy::list ? known(sample.generation) : nullptr;
    std::optional<Origin> entry;
    if (of_sample != nullptr) {
      entry = first_claim(*of_sample->book, wire::get_text(sample.list), packet_of(sample), sample.now_unix_s);
    }
    if (waiting.to_files) {
      files_->add({waiting.source, sample.time_unix_ns, waiting.frame.bytes, sample.frame_bytes, sample.queue,
                   capture_comment(sample, entry ? &*entry : nullptr)},
                  wall_now());
    }
    if (!files_) logged_++;
    const TargetSpec& target = targets_[waiting.source];
    log_.add({std::move(waiting.frame), std::move(entry), target.name, traits_of(target.kind).has_interfaces});
  }
  if (!ready.empty() && surroundings_.logged) surroundings_.logged();
  next_hand_out_ = Clock::now() + std::max<Clock::duration>(kSearchInterval, (kSearchShare - 1) * (Clock::now() - now));
}

// Of one source, since it was made.
void Capture::add_counts(const FromSource& from, CaptureCounts& counts, DropCounts& of_log) const {
  const SampleSource::Counts& told = from.source->counts();
  counts.sampled += told.sampled;
  counts.limited += told.limited + from.limited;
  counts.filtered += from.filtered;
  counts.lost += told.lost;
  counts.waiting += told.waiting;
  of_log.sampled += told.sampled;
  of_log.limited += told.limited + from.limited + from.log_limited;
  of_log.lost += told.lost;
  of_log.waiting += told.waiting;
}

CaptureState Capture::state() const {
  CaptureState state;
  state.on = files_ != nullptr;
  state.error = files_ ? files_->error() : refused_;
  state.counts = ended_;
  state.counts.logged = logged_;
  DropCounts of_log;
  for (const FromSource& from : sources_) add_counts(from, state.counts, of_log);
  const auto is_counted = [&](const Waiting& waiting) { return waiting.to_files || !files_; };  // not as filtered
  state.counts.waiting += static_cast<uint64_t>(std::count_if(waiting_.begin(), waiting_.end(), is_counted));
  if (!files_) return state;
  state.counts.written += files_->written();
  state.counts.lost += files_->lost();
  state.counts.waiting += files_->waiting();
  state.files = {sampling_->settings, files_->current(), {}};
  state.files->settings.folder = files_->folder();
  for (const FromSource& from : sources_) {
    state.files->targets.push_back({from.source->target(), from.source->error()});
  }
  return state;
}

DropCounts Capture::log_counts() const {
  DropCounts counts = ended_log_;
  CaptureCounts of_files;
  for (const FromSource& from : sources_) add_counts(from, of_files, counts);
  counts.waiting += waiting_.size();
  return counts;
}

void Capture::log_errors() {
  for (FromSource& from : sources_) {
    const std::string& of_source = from.source->error();
    if (of_source == from.told_error) continue;
    if (!of_source.empty())
      log::warning("capture: no samples", {{"target", from.source->target()}, {"error", of_source}});
    from.told_error = of_source;
  }
  const std::string& error = files_ ? files_->error() : refused_;
  if (error == told_error_) return;
  if (!error.empty()) log::error("capture fails", {{"error", error}});
  if (error.empty() && files_) log::info("capture: files are written again");
  told_error_ = error;
}

}  // namespace weir::control
