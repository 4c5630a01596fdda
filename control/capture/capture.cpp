#include "control/capture/capture.h"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "control/capture/capture_comment.h"

namespace weir::control {

namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr size_t kMaxWaiting = 8192;  // samples here; past it data planes are not asked, and count what they lose
constexpr size_t kMaxKnown = 3;       // generations
constexpr std::chrono::seconds kFlushInterval{1};
// The origins of a new generation reach the disk after the data planes have it.
constexpr std::chrono::seconds kWaitForOrigins{10};
// Searches for entries take at most one part in this many of a processor.
constexpr int kSearchShare = 10;
constexpr milliseconds kSearchInterval{100};
constexpr uint64_t kNsPerSecond = 1'000'000'000;

std::string list_or_reason(const wire::Sample& sample) {
  return sample.dropped_by == wire::DroppedBy::list ? wire::get_text(sample.list)
                                                    : fmt::format("/{}", static_cast<int>(sample.dropped_by));
}

}  // namespace

Capture::Capture(std::string state_dir, Origins origins)
    : state_dir_(std::move(state_dir)), origins_(std::move(origins)), wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  thread_ = std::thread([this] { run(); });
}

Capture::~Capture() {
  stop();
  thread_.join();
}

void Capture::configure(std::optional<CaptureSettings> settings, std::vector<std::string> sockets) {
  {
    std::lock_guard lock(mutex_);
    orders_.settings = std::move(settings);
    orders_.sockets = std::move(sockets);
    orders_.configured = true;
  }
  eventfd_write(wake_.get(), 1);
}

void Capture::stored(wire::Generation generation) {
  {
    std::lock_guard lock(mutex_);
    orders_.stored = generation;
  }
  eventfd_write(wake_.get(), 1);
}

void Capture::stop() {
  {
    std::lock_guard lock(mutex_);
    orders_.stop = true;
  }
  eventfd_write(wake_.get(), 1);
}

CaptureState Capture::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

void Capture::run() {
  while (true) {
    Orders orders;
    {
      std::lock_guard lock(mutex_);
      orders = orders_;
      orders_.configured = false;
    }
    obey(orders);
    if (orders.stop) return;
    const Steady::time_point now = Steady::now();
    ask(now);
    std::vector<pollfd> events = {{wake_.get(), POLLIN, 0}};
    for (const FromSource& from : sources_) events.push_back({from.source->fd(), POLLIN, 0});  // -1 is skipped
    poll(events.data(), events.size(), wait_ms(now));
    eventfd_t count = 0;
    eventfd_read(wake_.get(), &count);
    for (uint32_t i = 0; i < sources_.size(); i++) {
      if (events[i + 1].revents != 0) receive(i, sources_[i].source->take(Steady::now()), Steady::now());
    }
    write_ready(Steady::now(), false);
    if (files_ && Steady::now() >= next_flush_) {
      files_->flush(system_clock::now());
      next_flush_ = Steady::now() + kFlushInterval;
    }
    tell_state();
  }
}

void Capture::obey(const Orders& orders) {
  if (orders.stop) {
    end();
  } else if (orders.configured && (orders.settings != settings_ || orders.sockets != sockets_)) {
    end();
    settings_ = orders.settings;
    sockets_ = orders.sockets;
    if (settings_) begin(*settings_, sockets_);
    learn(orders.stored);
  } else if (orders.stored != stored_) {
    learn(orders.stored);
  }
  tell_state();
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
  spdlog::info("capture: 1 in {} of what is dropped, to {}", settings.one_in, files_->folder());
}

// Samples that are under way are fetched and written first.
void Capture::end() {
  refused_.clear();
  if (!settings_) return;
  for (uint32_t i = 0; i < sources_.size(); i++) receive(i, sources_[i].source->finish(), Steady::now());
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

// Keeps the file open: the store replaces it at the next generation, while samples of this one still arrive.
void Capture::learn(wire::Generation generation) {
  stored_ = generation;
  if (!settings_ || generation.epoch == 0) return;
  Result<Store::Bytes> bytes = origins_(generation);
  Result<OriginView> view = bytes ? OriginView::open(bytes->bytes()) : Result<OriginView>(Error{bytes.error()});
  if (!view) {
    spdlog::info("capture: comments of generation {} will name no entries: {}", generation.number, view.error());
    return;
  }
  known_.push_back({generation, std::move(*bytes), std::move(*view)});
  if (known_.size() > kMaxKnown) known_.pop_front();
}

void Capture::ask(Steady::time_point now) {
  if (waiting_.size() >= kMaxWaiting) return;
  for (const FromSource& from : sources_) {
    if (now < from.source->due()) continue;
    const std::string before = from.source->error();
    from.source->ask(now);
    const std::string& error = from.source->error();
    if (!error.empty() && error != before) spdlog::warn("capture: {}: {}", from.source->socket(), error);
  }
}

int Capture::wait_ms(Steady::time_point now) const {
  if (!settings_) return -1;
  Steady::time_point until = next_flush_;
  if (waiting_.size() < kMaxWaiting) {
    for (const FromSource& from : sources_) until = std::min(until, from.source->due());
  }
  if (!waiting_.empty()) until = std::min(until, next_write_);
  const auto left = std::chrono::duration_cast<milliseconds>(until - now).count() + 1;
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1000));
}

void Capture::receive(uint32_t source, std::vector<wire::SampledFrame> frames, Steady::time_point now) {
  FromSource& from = sources_[source];
  for (wire::SampledFrame& frame : frames) {
    if (filter_ && !filter_->passes(frame.bytes, frame.sample.frame_bytes)) {
      from.filtered++;
      continue;
    }
    from.accepted++;
    waiting_.push_back({std::move(frame), source, now});
  }
}

const Capture::Known* Capture::known(wire::Generation generation) const {
  const auto found =
      std::find_if(known_.begin(), known_.end(), [&](const Known& known) { return known.generation == generation; });
  return found == known_.end() ? nullptr : &*found;
}

bool Capture::is_ready(const Waiting& waiting, Steady::time_point now) const {
  const wire::Sample& sample = waiting.frame.sample;
  if (sample.dropped_by != wire::DroppedBy::list || known(sample.generation) != nullptr) return true;
  const bool is_past = sample.generation.epoch == stored_.epoch && sample.generation.number <= stored_.number;
  return is_past || now - waiting.since >= kWaitForOrigins;
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

// In the order of their times, with the entries of all of one generation looked up together. all: do not wait.
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

  std::vector<std::optional<OriginMatch>> entries(ready.size());
  for (const Known& known : known_) {
    std::vector<std::string> names;
    std::vector<OriginQuestion> questions;
    std::vector<size_t> of_question;
    names.reserve(ready.size());
    for (size_t i = 0; i < ready.size(); i++) {
      const wire::Sample& sample = ready[i].frame.sample;
      if (sample.generation != known.generation || sample.dropped_by != wire::DroppedBy::list) continue;
      names.push_back(wire::get_text(sample.list));
      questions.push_back({names.back(), packet_of(sample), sample.now_unix_s});
      of_question.push_back(i);
    }
    if (questions.empty()) continue;
    std::vector<std::optional<OriginMatch>> found = known.view.first_matches(questions);
    for (size_t q = 0; q < found.size(); q++) entries[of_question[q]] = std::move(found[q]);
  }
  for (size_t i = 0; i < ready.size(); i++) {
    const wire::Sample& sample = ready[i].frame.sample;
    files_->add({ready[i].source, sample.time_unix_ns, ready[i].frame.bytes, sample.frame_bytes, sample.queue,
                 capture_comment(sample, entries[i] ? &*entries[i] : nullptr)},
                system_clock::now());
  }
  next_write_ = Steady::now() + std::max<Steady::duration>(kSearchInterval, (kSearchShare - 1) * (Steady::now() - now));
}

void Capture::tell_state() {
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
  std::lock_guard lock(mutex_);
  if (state.error != state_.error && !state.error.empty()) spdlog::error("capture: {}", state.error);
  if (state.error.empty() && !state_.error.empty() && state.on) spdlog::info("capture: files are written again");
  state_ = std::move(state);
}

}  // namespace weir::control
