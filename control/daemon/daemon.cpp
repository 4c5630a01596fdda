#include "control/daemon/daemon.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "common/files.h"
#include "control/book/origin.h"
#include "control/compile/plan/plan.h"
#include "control/read/policy.h"
#include "filter/format/rules.h"

namespace weir::control {

namespace {
// The kernel's verifier takes its time: a program that it refuses is not loaded more often.
constexpr int kLeastXdpRetry_ms = 1000;

std::string absolute(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path whole = std::filesystem::absolute(path, ignored);
  return whole.empty() ? path : whole.lexically_normal().string();
}
}  // namespace

Daemon::Daemon(Options options, Store store, GenerationFile numbers)
    : options_(std::move(options)),
      store_(std::move(store)),
      capture_(store_.state_dir(), [this](wire::Generation generation) { return store_.origins(generation); }),
      numbers_(std::move(numbers)),
      plane_(std::make_shared<XdpPlane>(options_.bpf_dir)) {}

Result<std::unique_ptr<Daemon>> Daemon::start(Options options) {
  const std::string config = absolute(options.config);
  const Places places = read_places(options.config);
  const std::string state_dir = options.state_dir  ? *options.state_dir
                                : places.state_dir ? *places.state_dir
                                                   : remembered_state_dir(options.default_state_dir, config);
  if (!options.state_dir && !places.state_dir) {
    spdlog::warn("{} does not say where its state is: {} is used, as {}", options.config, state_dir,
                 state_dir == options.default_state_dir ? "nothing else is known of it" : "the last time");
  }
  Result<Store> store = Store::open(state_dir);
  if (!store) return Error{store.error()};
  Result<std::optional<InForce>> in_force = read_in_force(state_dir);
  if (!in_force) spdlog::error("{}: who enforced the last good is not known", in_force.error());
  Result<GenerationFile> numbers = GenerationFile::open(store->state_dir());
  if (!numbers) return Error{numbers.error()};
  if (Result<wire::Generation> stored = store->stored_generation(); stored) {
    if (Result<void> checked = numbers->not_behind(*stored); !checked) return Error{checked.error()};
  }
  if (!numbers->notice().empty()) spdlog::error("{}", numbers->notice());

  std::unique_ptr<Daemon> daemon(new Daemon(std::move(options), std::move(*store), std::move(*numbers)));
  daemon->bypass_on_ = daemon->store_.bypass();
  if (daemon->bypass_on_) {
    daemon->wanted_bypass_ = true;
    spdlog::warn("bypass is ON since before this start: everything passes, until `controlctl bypass off`");
  }
  if (in_force) daemon->in_force_ = *in_force;
  // Until the policy is compiled, and longer when it is bad: those that have the last good.
  const std::vector<TargetSpec>& named = daemon->options_.targets;
  if (!named.empty()) {
    daemon->set_targets(named);
  } else if (daemon->in_force_ && daemon->in_force_->config == config) {
    daemon->set_targets(daemon->in_force_->targets);
  } else if (places.targets) {
    daemon->set_targets(*places.targets);
  }

  daemon->last_reload_ = daemon->reload_once(0);
  if (daemon->running_ == nullptr) {
    const bool somebody = !named.empty() || daemon->in_force_ || places.targets;
    Result<void> published = somebody ? daemon->publish_last_good()
                                      : Error{"the policy is bad, and who enforced the last good of " + state_dir +
                                              " is not known: name the targets with --target"};
    if (!published) return Error{published.error()};
  }
  daemon->warn_of_left_over();
  daemon->thread_ = std::thread([raw = daemon.get()] { raw->run(); });
  return daemon;
}

Daemon::~Daemon() {
  stop();
  if (thread_.joinable()) thread_.join();
}

void Daemon::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const auto& target : targets_) target->stop();
  }
  capture_.stop();
  wake_.notify_all();
  finished_.notify_all();
}

void Daemon::run() {
  while (true) {
    uint64_t mine = 0;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || begun_ < asked_; });
      if (stopping_) return;
      mine = ++begun_;
    }
    std::shared_ptr<const ReloadReport> report = reload_once(options_.acknowledge_ms);
    {
      std::lock_guard lock(mutex_);
      last_reload_ = std::move(report);
      done_ = mine;
    }
    finished_.notify_all();
  }
}

void Daemon::request_reload() {
  {
    std::lock_guard lock(mutex_);
    asked_ = begun_ + 1;  // one that runs already may have read the policy before the caller changed it
  }
  wake_.notify_all();
}

std::shared_ptr<const ReloadReport> Daemon::reload() {
  std::unique_lock lock(mutex_);
  const uint64_t mine = begun_ + 1;
  asked_ = mine;
  wake_.notify_all();
  finished_.wait(lock, [&] { return stopping_ || done_ >= mine; });
  if (done_ >= mine) return last_reload_;
  ReloadReport stopped;
  stopped.error = "controld stops";
  return std::make_shared<const ReloadReport>(std::move(stopped));
}

void Daemon::publish(std::shared_ptr<const Running> running) {
  std::lock_guard lock(mutex_);
  for (const auto& target : targets_) target->publish(running->publication);
  running_ = std::move(running);
}

// Kept with the last good, for a start on a policy that cannot be read.
Result<void> Daemon::keep_in_force(const std::vector<TargetSpec>& specs) {
  InForce now{absolute(options_.config), specs};
  if (in_force_ != now) {
    if (Result<void> written = write_in_force(store_.state_dir(), now); !written) return written;
    in_force_ = std::move(now);
  }
  if (options_.state_dir) return {};
  return remember_state_dir(options_.default_state_dir, in_force_->config, store_.state_dir());
}

Result<void> Daemon::publish_last_good() {
  const std::string reason = last_reload_->error.empty() ? "the policy is bad" : last_reload_->error;
  Result<std::optional<Publication>> loaded = store_.load();
  if (!loaded) return Error{reason + ", and the last good cannot be used: " + loaded.error()};
  if (!*loaded) return Error{reason + ", and there is no last good in " + store_.state_dir()};
  if (in_force_ && in_force_->config != absolute(options_.config)) {
    return Error{fmt::format("{}, and the last good in {} is that of {}: give {} its own state_dir, or --state-dir",
                             reason, store_.state_dir(), in_force_->config, options_.config)};
  }
  auto running = std::make_shared<Running>();
  auto publication = std::make_shared<Publication>(std::move(**loaded));
  Result<Mapping> mapping = map_read_only(publication->snapshot.get(), publication->size_bytes);
  if (!mapping) return Error{mapping.error()};
  Result<filter::SnapshotView> view = filter::SnapshotView::open(mapping->bytes());
  if (!view) return Error{view.error()};
  running->lists = summarise(*view);
  running->report.snapshot_bytes = publication->size_bytes;
  running->report.longest_chain = filter::longest_chain(view->residuals());
  for (const ListSummary& list : running->lists) running->report.entries += list.entries;
  for (const weir_shape& shape : std::span(view->header().shapes).first(view->header().n_shapes)) {
    running->report.shapes.push_back(describe(shape));
    running->report.shapes.back().why = "as in the last good snapshot";
  }
  running->published_at = time(nullptr);
  running->from_last_good = true;
  spdlog::warn("{}: the last good generation {} is published instead", reason, publication->generation.number);
  running->publication = std::move(publication);
  publish(std::move(running));
  return {};
}

// Links of targets that stay are kept, with their connections. Called by the start, then by the reload thread alone.
void Daemon::set_targets(const std::vector<TargetSpec>& specs) {
  const auto xdp =
      std::find_if(specs.begin(), specs.end(), [](const TargetSpec& spec) { return spec.kind == TargetKind::xdp; });
  const std::optional<TargetSpec> wanted = xdp == specs.end() ? std::nullopt : std::optional(*xdp);
  const bool plane_stays = plane_->is_configured(wanted);
  const std::vector<std::shared_ptr<TargetLink>> before = targets();
  if (!plane_stays) {
    // Its link must not reach the old plane again, nor complain that it is gone.
    for (const auto& link : before) {
      if (link->is_xdp()) link->stop();
    }
    plane_->configure(wanted);
  }
  std::vector<std::shared_ptr<TargetLink>> links, made;
  for (const TargetSpec& spec : specs) {
    const auto same = [&name = spec.name](const auto& link) { return link->socket() == name; };
    if (std::any_of(links.begin(), links.end(), same)) continue;
    const auto found = std::find_if(before.begin(), before.end(), same);
    if (found != before.end() && (spec.kind != TargetKind::xdp || plane_stays)) {
      links.push_back(*found);
    } else {
      links.push_back(made.emplace_back(make_link(spec)));
    }
  }
  std::vector<std::shared_ptr<TargetLink>> gone;  // ends outside the lock
  std::lock_guard lock(mutex_);
  for (const auto& link : made) {
    if (wanted_bypass_) link->bypass(*wanted_bypass_);
    if (stopping_) link->stop();
  }
  gone = std::exchange(targets_, std::move(links));
}

std::shared_ptr<TargetLink> Daemon::make_link(const TargetSpec& spec) const {
  if (spec.kind != TargetKind::xdp) return std::make_shared<TargetLink>(spec.name, options_.times);
  TargetTimes times = options_.times;
  times.retry = std::max(times.retry, kLeastXdpRetry_ms);
  return std::make_shared<TargetLink>(
      spec.name, [plane = plane_] { return plane->connect(); }, times);
}

void Daemon::warn_of_left_over() const {
  for (const std::string& name : plane_->left_over()) {
    spdlog::warn(
        "xdp: a program that is pinned in {} still enforces on {}, which no target names: `controlctl detach "
        "{}` takes it off",
        options_.bpf_dir, name, name);
  }
}

Result<std::vector<std::string>> Daemon::detach(const std::string& interface) {
  Result<std::vector<std::string>> off = plane_->detach(interface, options_.times.publish);
  if (off) {
    for (const std::string& name : *off) {
      spdlog::warn("xdp: {} is detached on demand, until the next reload or start: nothing is enforced there", name);
    }
  }
  return off;
}

Result<std::vector<TargetOutcome>> Daemon::bypass(bool on) {
  const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(options_.acknowledge_ms);
  std::vector<std::shared_ptr<TargetLink>> links;
  Result<void> remembered;
  {
    std::lock_guard one_at_a_time(bypass_mutex_);
    {
      std::lock_guard lock(mutex_);
      wanted_bypass_ = on;
      links = targets_;
      for (const auto& target : links) target->bypass(on);  // the disk comes second: this is the panic switch
    }
    bypass_on_ = on;
    remembered = store_.set_bypass(on);
  }
  std::vector<TargetOutcome> outcomes;
  for (const auto& target : links) {
    TargetOutcome outcome{target->socket(), target->wait_bypass(on, deadline), ""};
    if (!outcome.acknowledged) outcome.error = target->state().last_error;
    if (!outcome.acknowledged && outcome.error.empty()) outcome.error = "no answer";
    outcomes.push_back(std::move(outcome));
  }
  if (!remembered) return Error{"the targets were told, but it is not remembered: " + remembered.error()};
  return outcomes;
}

Result<Explanation> Daemon::explain(const std::string& key) const {
  const std::shared_ptr<const Running> now = running();
  Result<Mapping> mapping = map_read_only(now->publication->snapshot.get(), now->publication->size_bytes);
  if (!mapping) return Error{mapping.error()};
  Result<filter::SnapshotView> view = filter::SnapshotView::open(mapping->bytes());
  if (!view) return Error{view.error()};
  const auto now_s = static_cast<uint64_t>(time(nullptr));
  const Result<Store::Bytes> origins = store_.origins(now->publication->generation);
  if (origins) return control::explain(*view, origins->bytes(), key, now_s);
  // They are being replaced just now, or damaged: all but file and line is still known.
  spdlog::warn("explain: {}", origins.error());
  const std::string none = write_origins(Policy{});
  return control::explain(*view, std::as_bytes(std::span(none)), key, now_s);
}

std::shared_ptr<const Running> Daemon::running() const {
  std::lock_guard lock(mutex_);
  return running_;
}

std::shared_ptr<const ReloadReport> Daemon::last_reload() const {
  std::lock_guard lock(mutex_);
  return last_reload_;
}

std::vector<std::shared_ptr<TargetLink>> Daemon::targets() const {
  std::lock_guard lock(mutex_);
  return targets_;
}

CaptureState Daemon::capture() const {
  CaptureState state = capture_.state();
  if (!state.on) return state;
  for (const auto& link : targets()) {
    if (link->is_xdp()) state.targets.push_back({link->socket(), "XDP gives no samples of what it drops"});
  }
  return state;
}

}  // namespace weir::control
