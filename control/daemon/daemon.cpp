#include "control/daemon/daemon.h"

#include <algorithm>
#include <filesystem>

#include "bpf/enforce/learn.h"
#include "bpf/enforce/program.h"
#include "common/log/log.h"
#include "common/realtime.h"
#include "control/daemon/answers.h"
#include "control/daemon/rights.h"
#include "control/policy/read/policy.h"
#include "control/tell/answer/request.h"

// How it starts and stops, and what is published.
namespace weir::control {

namespace {

constexpr const char* kAgain = "published again";  // the last good: it has its number

std::string absolute(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path whole = std::filesystem::absolute(path, ignored);
  return whole.empty() ? path : whole.lexically_normal().string();
}

}  // namespace

Daemon::Daemon(Loop& loop, Options options, Store store, GenerationFile numbers, std::optional<Journal> journal,
               std::optional<InForce> in_force)
    : loop_(loop),
      options_(std::move(options)),
      config_(absolute(options_.config)),
      store_(std::move(store)),
      mailbox_(loop),
      waits_(loop),
      capture_(loop, store_.state_dir(),
               {.books = [this](wire::Generation generation) { return book_of(generation); },
                .connect = [this](const TargetSpec& target,
                                  auto done) { functions_of(target.kind).connect(planes_, target, std::move(done)); },
                .logged = [this] { check_waits(); }}),
      planes_(loop, options_.bpf_dir),
      intents_({.running = [this] { return running_; },
                .targets = [this] { return specs(); },
                .is_kept = [this](uint64_t base) { return maker_.history().has(base); },
                .read = [this](const auto& job) { begin_reading(job); },
                .make = [this](const auto& job) { begin_making(job); },
                .change = [this](const auto& batch) { begin_changes(batch); },
                .given_up =
                    [this](const ReloadJob& job) {
                      fetcher_.give_up_first(job.is_given_up);
                      progress_.begin("");
                    }}),
      maker_(store_, std::move(numbers), std::move(journal), std::move(in_force),
             {config_, options_.state_dir, options_.default_state_dir, options_.targets, options_.build_threads},
             progress_),
      shadow_({mailbox_, waits_, planner_, maker_thread_, maker_, builder_, running_, targets_,
               [this](const Running& running) {
                 FeedHistory history = history_of(running.book.get(), !running.from_last_good);
                 if (options_.fetches) {
                   history.fetch_first = [this](const FetchSettings& settings, const std::vector<FetchedFeed>& feeds) {
                     return fetcher_.fetch_first(settings, feeds);
                   };
                 }
                 return history;
               },
               options_.build_threads, std::chrono::milliseconds(options_.acknowledge_ms)}),
      archive_(store_.state_dir(), options_.config, options_.parsers),
      fetcher_(loop, options_.fetches ? options_.parsers : nullptr, store_.state_dir() + "/feeds") {}

Result<std::unique_ptr<Daemon>> Daemon::start(Loop& loop, Options options) {
  const Places places = read_places(options.config, options.parsers);
  const std::string state_dir = options.state_dir ? *options.state_dir
                                : places.state_dir
                                    ? *places.state_dir
                                    : remembered_state_dir(options.default_state_dir, absolute(options.config));
  if (!options.state_dir && !places.state_dir) {
    log::warning("the policy does not say where its state is",
                 {{"config", options.config},
                  {"state_dir", state_dir},
                  {"why", state_dir == options.default_state_dir ? "the default" : "as the last time"}});
  }
  Result<Store> store = Store::open(state_dir);
  if (!store) return Error{store.error()};
  Result<GenerationFile> numbers = GenerationFile::open(store->state_dir());
  if (!numbers) return Error{numbers.error()};
  std::optional<Journal> journal;
  if (Result<wire::Generation> stored = store->stored_generation(); stored) {
    if (stored->epoch == numbers->last().epoch && stored->number > numbers->last().number) {
      Result<Journal> opened = Maker::open_journal(state_dir, *numbers);
      if (opened) journal = std::move(*opened);
    }
    if (Result<void> checked = numbers->not_behind(*stored); !checked) return Error{checked.error()};
  }
  if (!numbers->notice().empty()) log::error("the numbers of generations were damaged", {{"text", numbers->notice()}});
  const Result<std::optional<InForce>> in_force = read_in_force(state_dir);
  if (!in_force) log::error("who enforced the last good is not known", {{"error", in_force.error()}});
  realtime::Starter urgent;  // while this process may
  if (options.seccomp) {
    Result<void> done = give_up_rights(options, places.targets, in_force ? *in_force : std::nullopt);
    if (!done) return Error{done.error()};
  }

  std::unique_ptr<Daemon> daemon(new Daemon(loop, std::move(options), std::move(*store), std::move(*numbers),
                                            std::move(journal), in_force ? *in_force : std::nullopt));
  if (places.metrics) daemon->metrics_ = *places.metrics;
  if (places.fleet) {
    if (Result<void> joined = daemon->join(*places.fleet); !joined) return Error{joined.error()};
  }
  Result<void> begun = daemon->begin(urgent, in_force ? *in_force : std::nullopt, places.targets);
  if (begun) return daemon;
  if (daemon->intents_.is_first())
    (void)daemon.release();  // what a thread is at cannot be ended; it goes with the process
  return Error{begun.error()};
}

// The policy of the revision that was followed last, or none yet.
Result<void> Daemon::join(const FleetSettings& fleet) {
  fleet_ = fleet;
  const fleet::Store files(store_.state_dir() + "/fleet");
  const Result<fleet::Followed> followed = files.read(fleet.name);
  if (!followed) return Error{followed.error()};
  Result<std::string> policy = followed->revision != 0 ? followed->policy : files.empty_policy();
  if (!policy) return Error{policy.error()};
  intents_.set_policy_file(std::move(*policy));
  log::info("a node of a fleet", {{"fleet", fleet.name},
                                  {"node", fleet.node},
                                  {"group", fleet.group},
                                  {"revision", followed->revision},
                                  {"turn", followed->turn}});
  return {};
}

// Before there are other threads. Targets of the last good may have to be told that they are targets no more.
Result<void> Daemon::give_up_rights(const Options& options, const std::optional<std::vector<TargetSpec>>& named,
                                    const std::optional<InForce>& in_force) {
  std::vector<TargetSpec> known = options.targets;
  if (named && known.empty()) known = *named;
  if (in_force) known.insert(known.end(), in_force->targets.begin(), in_force->targets.end());
  const bool has_xdp =
      std::any_of(known.begin(), known.end(), [](const TargetSpec& target) { return target.kind == TargetKind::xdp; });
  if (has_xdp) {
    (void)xdp::make_bpf_dir(options.bpf_dir);  // who needs it says why it cannot be had
    if (Result<void> learnt = xdp::learn_features(); !learnt) return learnt;
  }
  const Result<std::string> given_up =
      reduce_rights(options.config, known, *options.seccomp, options.serves_metrics ? Network::serves : Network::none);
  if (!given_up) return Error{given_up.error()};
  log::info("privileges", {{"left", *given_up}});
  return {};
}

Result<void> Daemon::begin(realtime::Starter& urgent, const std::optional<InForce>& in_force,
                           std::optional<std::vector<TargetSpec>> named) {
  for (Worker* worker : {&maker_thread_, &reader_, &builder_, &planner_, &historian_}) {
    if (Result<void> started = worker->start(); !started) return started;
  }
  if (Result<void> started = planes_.xdp.start(); !started) return started;
  PanicSwitch::Hooks hooks;
  hooks.confirmed = [this](const std::string& target, bool on) {
    mailbox_.post([this, target, on] { take_confirmation(target, on); });
  };
  hooks.answer = answer_panic;
  hooks.failure = failure_line;
  Result<std::unique_ptr<PanicSwitch>> panic =
      PanicSwitch::start(urgent, options_.panic_socket, planes_, store_, options_.times, hooks,
                         {options_.place, absolute(store_.state_dir()), options_.bpf_dir, {}}, options_.admin_group);
  if (!panic) return Error{panic.error()};
  panic_ = std::move(*panic);
  if (bypass_on()) {
    log::change("bypass is ON: everything passes, until `controlctl bypass off`",
                {{"cause", "ordered before this start"}});
  }
  // Until the policy is compiled, and longer when it is bad: those that have the last good. When the policy names
  // others, only the panic switch speaks to anybody before it is known which of them are right.
  bool is_sure = true;
  if (!options_.targets.empty()) {
    named = options_.targets;
  } else if (in_force && in_force->config == config_) {
    is_sure = !named || *named == in_force->targets;
    named = in_force->targets;
  }
  if (named && is_sure) {
    set_targets(*named);
    capture_.configure(std::nullopt, *named);
  }
  if (named && !is_sure) panic_->set_targets(*named);

  if (options_.opened) {
    if (Result<void> opened = options_.opened(*this); !opened) return opened;
  }
  // The targets that had the last good enforce it again at once, and no others.
  Result<std::shared_ptr<const Running>> last_good = maker_.load_last_good();
  if (last_good) {
    book_before_ = feeds_before(**last_good);
    if (is_sure && in_force && in_force->config == config_ && named == in_force->targets) {
      publish(*last_good);
      tell_published("last good, while the policy is compiled", {}, kAgain);
    }
  }

  if (options_.watch_feeds) {
    Result<std::unique_ptr<FeedWatch>> watch = FeedWatch::start(
        [this](std::vector<std::string> paths) {
          mailbox_.post([this, paths = std::move(paths)] { intents_.reread_feeds(paths); });
        },
        {});
    if (!watch) return Error{watch.error()};
    watch_ = std::move(*watch);
  }
  begin_with_notes();
  bool is_told = false;
  const auto is_compiled = [&] {
    if (!is_told && options_.enforcing && is_settled()) {
      is_told = true;
      options_.enforcing();
    }
    return !intents_.is_first();
  };
  loop_.run_until(is_compiled, Clock::time_point::max());
  if (intents_.is_first()) return Error{"stopped before the first policy was compiled"};
  book_before_.reset();
  if (running_ == nullptr || running_->from_last_good) {
    const std::string reason = last_reload_->error.empty() ? "the policy is bad" : last_reload_->error;
    if (!named) {
      return Error{"the policy is bad, and who enforced the last good of " + state_dir() +
                   " is not known: name the targets with --target"};
    }
    if (!last_good) return Error{reason + ", and " + last_good.error()};
    if (running_ == nullptr) {
      set_targets(*named);
      capture_.configure(std::nullopt, *named);
      publish(*last_good);
      tell_published("last good: " + reason, {}, kAgain);
    } else {
      log::change("the last good stays", {{"generation", running_->publication->generation.number}, {"cause", reason}});
    }
  }
  warn_of_left_over();
  return {};
}

void Daemon::stop() {
  intents_.stop();
  for (Worker* worker : {&reader_, &builder_, &planner_, &historian_}) worker->stop();
  // controld's copy may be late, if every target has its own: it must not be older at the next start.
  is_saving_ = save_due_ || saves_ != 0;
  maker_thread_.stop(!is_saving_ ? std::function<void()>() : [this, last = running_] {
    const Result<void> saved = maker_.keep_change(*last, false);
    if (!saved) log::error("the last good is not on disk", {{"error", saved.error()}});
    mailbox_.post([this] { is_saving_ = false; });
  });
  fetcher_.stop();
  waits_.end_all();
  callers_.give_up_all();
  for (const Comparing& done : std::exchange(comparing_, {})) done(Error{"controld stops"});
  shadow_.stop();
  for (const auto& target : targets_) target->stop();
  capture_.stop();
}

void Daemon::publish(std::shared_ptr<const Running> running) {
  for (const auto& target : targets_) target->publish(running->publication, options_.allow_older);
  running_ = std::move(running);
}

void Daemon::tell_published(const std::string& cause, log::Fields more, const char* event) const {
  const Publication& publication = *running_->publication;
  log::Fields fields = {{"generation", publication.generation.number}, {"cause", cause}};
  if (publication.base != nullptr) {
    fields.emplace_back("base", publication.base->generation.number);
    fields.emplace_back("overlay_keys", running_->overlay.keys);
  }
  fields.emplace_back("lists", running_->lists.size());
  fields.emplace_back("entries", running_->report.entries);
  fields.emplace_back("bytes", running_->report.snapshot_bytes);
  for (log::Field& field : more) fields.push_back(std::move(field));
  log::change(event, std::move(fields));
}

std::shared_ptr<const Book> Daemon::book_of(wire::Generation generation) const {
  return running_ != nullptr && running_->publication->generation == generation ? running_->book : nullptr;
}

}  // namespace weir::control
