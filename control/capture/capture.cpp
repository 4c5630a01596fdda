#include "control/capture/capture.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/log/log.h"
#include "control/book/claims.h"
#include "control/capture/capture_comment.h"

namespace weir::control {

namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr size_t kMaxWaiting = 8192;  // samples here; past it data planes are not asked, and count what they lose
constexpr size_t kMaxKnown = 3;       // generations
constexpr std::chrono::seconds kFlushInterval{1};
// A data plane may be faster with a new generation than the note about it.
constexpr std::chrono::seconds kWaitForBook{10};
// Searches for entries take at most one part in this many of a processor.
constexpr int kSearchShare = 10;
constexpr milliseconds kSearchInterval{100};
constexpr milliseconds kPatience{500};  // with data planes that should tell what they still hold
constexpr uint64_t kNsPerSecond = 1'000'000'000;

std::string list_or_reason(const wire::Sample& sample) {
  return sample.dropped_by == wire::DroppedBy::list ? wire::get_text(sample.list)
                                                    : fmt::format("/{}", static_cast<int>(sample.dropped_by));
}

}  // namespace

Capture::Capture(Loop& loop, std::string state_dir, Books books)
    : state_dir_(std::move(state_dir)), books_(std::move(books)), loop_(loop) {}

void Capture::configure(std::optional<CaptureSettings> settings, std::vector<std::string> sockets) {
  if (!end_at_ && settings == settings_ && sockets == sockets_) return;
  wish_ = Wish{std::move(settings), std::move(sockets)};
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
  if (end_at_ && (Steady::now() >= *end_at_ || std::all_of(sources_.begin(), sources_.end(), is_finished))) end();
  if (settings_) {
    ask(Steady::now());
    write_ready(Steady::now(), false);
    if (Steady::now() >= next_flush_) {
      files_->flush(system_clock::now());
      next_flush_ = Steady::now() + kFlushInterval;
    }
  }
  log_errors();
  arm();
}

void Capture::arm() {
  timer_.reset();
  if (!settings_) return;
  for (uint32_t i = 0; i < sources_.size(); i++) {
    FromSource& from = sources_[i];
    if (from.readable || from.source->fd() < 0) continue;
    from.readable = loop_.io(from.source->fd(), EPOLLIN, [this, i](uint32_t) { receive(i); });
  }
  timer_ = loop_.timer(due(), [this] { turn(); });
}

void Capture::begin(const CaptureSettings& settings, const std::vector<std::string>& sockets) {
  Result<FrameFilter> filter = FrameFilter::compile(settings.filter);
  if (!filter) {  // it was good when the policy was read: a name in it is not found any more
    refused_ = fmt::format("off, because the filter is not understood: {}", filter.error());
    settings_.reset();
    return;
  }
  refused_.clear();
  filter_ = std::move(*filter);
  const wire::SamplingBody sampling = {settings.one_in, settings.per_list_per_second, settings.snap_bytes, 0};
  CaptureFiles::Settings files = {settings.folder.empty() ? state_dir_ + "/capture" : settings.folder,
                                  settings.file_bytes,
                                  settings.file_age_s,
                                  settings.files,
                                  {}};
  for (const std::string& socket : sockets) {
    FromSource& from = sources_.emplace_back();
    from.source = std::make_unique<SampleSource>(socket);
    from.source->want(sampling);
    files.interfaces.push_back({socket, fmt::format("what this data plane drops, 1 in {}", settings.one_in),
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
  end_at_ = Steady::now() + (settings_ ? kPatience : milliseconds(0));
  for (FromSource& from : sources_) from.source->finish();
}

void Capture::end() {
  end_at_.reset();
  refused_.clear();
  if (settings_) end_files();
  Wish wish = std::move(*wish_);
  wish_.reset();
  settings_ = std::move(wish.settings);
  sockets_ = std::move(wish.sockets);
  if (settings_) begin(*settings_, sockets_);
  learn(published_);
}

void Capture::end_files() {
  for (FromSource& from : sources_) from.readable.reset();
  write_ready(Steady::now(), true);
  files_->finish(system_clock::now());
  for (const FromSource& from : sources_) {
    const SampleSource::Counts& counts = from.source->counts();
    ended_.sampled += counts.sampled;
    ended_.limited += counts.limited + from.limited;
    ended_.filtered += from.filtered;
    ended_.lost += counts.lost + counts.waiting;
  }
  ended_.written += files_->written();
  ended_.lost += files_->lost();
  files_.reset();
  sources_.clear();
  second_of_.clear();
  settings_.reset();
  known_.clear();
}

// Keeps the book: samples of this generation still arrive when the next one runs.
void Capture::learn(wire::Generation generation) {
  published_ = generation;
  if (!settings_ || generation.epoch == 0) return;
  std::shared_ptr<const Book> book = books_(generation);
  if (book == nullptr) {
    log::info("capture: comments will name no entries", {{"generation", generation.number}});
    return;
  }
  known_.push_back({generation, std::move(book)});
  if (known_.size() > kMaxKnown) known_.pop_front();
}

void Capture::ask(Steady::time_point now) {
  if (waiting_.size() >= kMaxWaiting) return;
  for (const FromSource& from : sources_) {
    if (now < from.source->due()) continue;
    const std::string before = from.source->error();
    from.source->ask(now);
    const std::string& error = from.source->error();
    if (!error.empty() && error != before)
      log::warning("capture: no samples", {{"target", from.source->socket()}, {"error", error}});
  }
}

Capture::Steady::time_point Capture::due() const {
  Steady::time_point until = next_flush_;
  if (end_at_) until = std::min(until, *end_at_);
  if (waiting_.size() < kMaxWaiting) {
    for (const FromSource& from : sources_) until = std::min(until, from.source->due());
  }
  if (!waiting_.empty()) until = std::min(until, next_write_);
  return until;
}

void Capture::receive(uint32_t source) {
  FromSource& from = sources_[source];
  from.readable.reset();  // before the source may close its connection
  for (wire::SampledFrame& frame : from.source->take(Steady::now())) {
    if (filter_ && !filter_->passes(frame.bytes, frame.sample.frame_bytes)) {
      from.filtered++;
      continue;
    }
    from.accepted++;
    waiting_.push_back({std::move(frame), source, Steady::now()});
  }
  turn();
}

const Capture::Known* Capture::known(wire::Generation generation) const {
  const auto found =
      std::find_if(known_.begin(), known_.end(), [&](const Known& known) { return known.generation == generation; });
  return found == known_.end() ? nullptr : &*found;
}

bool Capture::is_ready(const Waiting& waiting, Steady::time_point now) const {
  const wire::Sample& sample = waiting.frame.sample;
  if (sample.dropped_by != wire::DroppedBy::list || known(sample.generation) != nullptr) return true;
  const bool is_past = sample.generation.epoch == published_.epoch && sample.generation.number <= published_.number;
  return is_past || now - waiting.since >= kWaitForBook;
}

// The workers' limits are for each worker; this one is for all.
bool Capture::within_limit(const wire::Sample& sample) {
  Second& second = second_of_[list_or_reason(sample)];
  const uint64_t number = sample.time_unix_ns / kNsPerSecond;
  if (number > second.number) second = {number, 0};
  if (second.frames >= settings_->per_list_per_second) return false;
  second.frames++;
  return true;
}

// In the order of their times. all: do not wait.
void Capture::write_ready(Steady::time_point now, bool all) {
  if (waiting_.empty() || (now < next_write_ && !all)) return;
  const auto later = std::stable_partition(waiting_.begin(), waiting_.end(),
                                           [&](const Waiting& waiting) { return all || is_ready(waiting, now); });
  std::vector<Waiting> ready(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(later));
  waiting_.erase(waiting_.begin(), later);
  std::stable_sort(ready.begin(), ready.end(), [](const Waiting& a, const Waiting& b) {
    return a.frame.sample.time_unix_ns < b.frame.sample.time_unix_ns;
  });
  std::erase_if(ready, [&](const Waiting& waiting) {
    const bool within = within_limit(waiting.frame.sample);
    if (!within) {
      sources_[waiting.source].limited++;
      sources_[waiting.source].accepted--;
    }
    return !within;
  });

  for (Waiting& waiting : ready) {
    const wire::Sample& sample = waiting.frame.sample;
    const Known* of_sample = sample.dropped_by == wire::DroppedBy::list ? known(sample.generation) : nullptr;
    std::optional<Origin> entry;
    if (of_sample != nullptr) {
      entry = first_claim(*of_sample->book, wire::get_text(sample.list), packet_of(sample), sample.now_unix_s);
    }
    files_->add({waiting.source, sample.time_unix_ns, waiting.frame.bytes, sample.frame_bytes, sample.queue,
                 capture_comment(sample, entry ? &*entry : nullptr)},
                system_clock::now());
  }
  next_write_ = Steady::now() + std::max<Steady::duration>(kSearchInterval, (kSearchShare - 1) * (Steady::now() - now));
}

CaptureState Capture::state() const {
  CaptureState state;
  state.on = settings_.has_value();
  state.counts = ended_;
  state.error = refused_;
  if (settings_) {
    state.settings = *settings_;
    state.settings.folder = files_->folder();
    state.current = files_->current();
    state.error = files_->error();
    for (const FromSource& from : sources_) {
      const SampleSource::Counts& counts = from.source->counts();
      state.counts.sampled += counts.sampled;
      state.counts.limited += counts.limited + from.limited;
      state.counts.filtered += from.filtered;
      state.counts.lost += counts.lost;
      state.counts.waiting += counts.waiting;
      state.targets.push_back({from.source->socket(), from.source->error()});
    }
    state.counts.written += files_->written();
    state.counts.lost += files_->lost();
    state.counts.waiting += files_->waiting() + waiting_.size();
  }
  return state;
}

void Capture::log_errors() {
  const std::string& error = settings_ ? files_->error() : refused_;
  if (error == told_error_) return;
  if (!error.empty()) log::error("capture fails", {{"error", error}});
  if (error.empty() && settings_) log::info("capture: files are written again");
  told_error_ = error;
}

}  // namespace weir::control
