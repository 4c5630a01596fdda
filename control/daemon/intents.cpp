#include "control/daemon/intents.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/log/log.h"
#include "control/policy/model/time_text.h"

namespace weir::control {

namespace {

constexpr const char* kAskedFor = "asked for";
constexpr const char* kRebuild = "rebuild";
constexpr const char* kBusy = "a policy is compiled now: ask again when it is done";
constexpr const char* kStops = "controld stops";
constexpr const char* kStopsBeforeChange = "controld stops: ask again when it is there again";

// Names the first feeds that changed, and counts the others.
std::string text_of(const std::set<std::string>& changed) {
  constexpr size_t kMostNamed = 3;
  std::string text;
  size_t named = 0;
  for (const std::string& path : changed) {
    if (named++ == kMostNamed) return fmt::format("{} and {} more changed", text, changed.size() - kMostNamed);
    text += (text.empty() ? "" : ", ") + path;
  }
  return text + " changed";
}

void append(std::vector<Reloaded>& to, std::vector<Reloaded> more) {
  for (Reloaded& one : more) to.push_back(std::move(one));
}

}  // namespace

std::shared_ptr<const ReloadAnswer> Intents::refused(std::string why) const {
  auto answer = std::make_shared<ReloadAnswer>();
  answer->error = std::move(why);
  answer->may_pass = true;
  answer->at = unix_now();
  if (const auto running = owner_.running(); running != nullptr) answer->generation = running->publication->generation;
  return answer;
}

void Intents::start(std::optional<Rollback> back, std::string why) {
  waiting_.reads_policy = !back;
  begin_reload(back ? cause_of(std::move(*back), std::move(why)) : next_cause());
}

void Intents::reload(Wish wish, Reloaded done) {
  if (is_stopped_) return done(refused(kStops));
  if (unconfirmed_) return done(refused(notice()));
  if (wish.confirm_s != 0) {
    const auto running = owner_.running();
    if (running == nullptr || running->base == 0 || !owner_.is_kept(running->base)) {
      return done(refused("what runs is not kept: there would be nothing to go back to; reload without --confirm"));
    }
  }
  waiting_.reads_policy = true;
  Wish& merged = waiting_.wish;
  merged.uid = wish.uid;
  merged.pid = wish.pid;
  if (!wish.why.empty()) merged.why += (merged.why.empty() ? "" : ", ") + wish.why;
  merged.confirm_s = std::max(merged.confirm_s, wish.confirm_s);
  merged.is_forced |= wish.is_forced;
  if (!wish.policy_file.empty()) {
    merged.policy_file = std::move(wish.policy_file);
    merged.compiled = std::move(wish.compiled);
  }
  waiting_.asking.push_back(std::move(done));
  begin_next();
}

void Intents::rebuild(const Wish& wish, Reloaded done) {
  if (is_stopped_) return done(refused(kStops));
  if (unconfirmed_) return done(refused(notice()));
  const auto running = owner_.running();
  if (running == nullptr || running->policy_text == nullptr) {
    return done(
        refused("what runs is the last good, because the policy is bad: it cannot be built anew\nhint: mend the policy "
                "(`controlctl status` says what is wrong), and reload"));
  }
  waiting_.builds_all = true;
  waiting_.wish.uid = wish.uid;
  waiting_.wish.pid = wish.pid;
  waiting_.asking.push_back(std::move(done));
  begin_next();
}

Result<void> Intents::accept_feed(const std::string& list, Wish wish, Reloaded done) {
  const auto& lists = owner_.running()->lists;
  const auto found = std::find_if(lists.begin(), lists.end(), [&](const ListDetails& one) { return one.name == list; });
  if (found == lists.end()) return Error{fmt::format("no list is called '{}'", list)};
  if (!found->feed) return Error{fmt::format("list '{}' has no feed", list)};
  if (unconfirmed_) return Error{notice()};  // else the content of a later moment would be accepted
  if (is_stopped_) return Error{kStops};
  waiting_.accepted_feeds.insert(list);
  wish.why = fmt::format("the feed of list {} is accepted as it is", list);
  reload(std::move(wish), std::move(done));
  return {};
}

void Intents::reread_feeds(const std::vector<std::string>& paths) {
  const auto running = owner_.running();
  if (is_stopped_ || running == nullptr || running->policy_text == nullptr) return;
  changed_feeds_.insert(paths.begin(), paths.end());
  begin_next();
}

void Intents::rollback(uint64_t number, const Wish& wish, Reloaded done) {
  if (is_stopped_) return done(refused(kStops));
  const bool is_made = reloading_ != nullptr && (is_first_ || reloading_->stage == ReloadJob::Stage::making);
  if (is_made) return done(refused(kBusy));
  const std::string why = fmt::format("a rollback to generation {} came before the policy was read: ask again", number);
  std::vector<Reloaded> given_up;
  if (reloading_ != nullptr) {
    const std::shared_ptr<ReloadJob> reading = std::exchange(reloading_, nullptr);
    *reading->is_given_up = true;
    given_up = std::exchange(reading->cause.asking, {});
    changed_feeds_.insert(reading->cause.changed_feeds.begin(), reading->cause.changed_feeds.end());
    log::notice("reload given up", {{"cause", reading->cause.text}, {"why", why}});
    owner_.given_up(*reading);
  }
  append(given_up, std::exchange(waiting_, {}).asking);
  const uint64_t newest = owner_.running()->publication->generation.number;
  ReloadCause cause =
      cause_of({number, newest, true, owner_.targets()}, fmt::format("rollback to generation {}", number));
  cause.wish = wish;
  cause.asking.push_back(std::move(done));
  begin_reload(std::move(cause));
  for (const Reloaded& one : given_up) one(refused(why));
}

void Intents::promote(const std::shared_ptr<const Shadowing>& shadow, const Wish& wish, Reloaded done) {
  if (is_stopped_) return done(refused(kStops));
  if (unconfirmed_) return done(refused(notice()));
  if (reloading_ != nullptr || !waiting_.asking.empty()) return done(refused(kBusy));
  ReloadCause cause;
  cause.text = fmt::format("the shadow of {} promoted", shadow->path);
  cause.promoted = shadow;
  cause.policy_path = shadow->path;
  cause.wish = wish;
  cause.asking.push_back(std::move(done));
  begin_reload(std::move(cause));
}

void Intents::change(Change change, Changed done) {
  if (is_stopped_) {
    ChangeAnswer answer;
    answer.error = kStopsBeforeChange;
    return done(answer);
  }
  changes_.push_back({std::move(change), Clock::now(), {}});
  changed_.push_back(std::move(done));
  begin_next();
}

bool Intents::begin_base() {
  return !is_stopped_ && !std::exchange(is_base_wanted_, true);
}

void Intents::take_base(std::shared_ptr<const Base> base) {
  if (base == nullptr) {
    is_base_wanted_ = false;
    return;
  }
  built_base_ = std::move(base);
  begin_next();
}

// A reload that was read comes first, and takes the changes of the journal in.
void Intents::begin_next() {
  if (is_stopped_) return;
  if (unconfirmed_ && !waiting_.asking.empty()) refuse_waiting(notice());
  if (unconfirmed_ && unconfirmed_->is_due && reloading_ == nullptr) {
    unconfirmed_->is_due = false;
    begin_reload(cause_of(
        {unconfirmed_->base, 0, false, {}},
        fmt::format("not confirmed in {} s: back to generation {}", unconfirmed_->seconds, unconfirmed_->base)));
  }
  const bool reads_feeds = rolled_back_to_ == 0 && !unconfirmed_ && !changed_feeds_.empty();
  if (reloading_ == nullptr && (!waiting_.asking.empty() || reads_feeds)) begin_reload(next_cause());
  if (is_making_) return;
  if (reloading_ != nullptr && reloading_->stage == ReloadJob::Stage::read) {
    is_making_ = true;
    reloading_->stage = ReloadJob::Stage::making;
    return owner_.make(reloading_);
  }
  // The reload that is read may bring lists to which nothing can be added yet.
  const auto running = owner_.running();
  const bool has_policy = running != nullptr && running->policy != nullptr;
  if (!has_policy && reloading_ != nullptr) return;
  if (!changes_.empty() || built_base_ != nullptr) begin_changes();
}

void Intents::begin_reload(ReloadCause cause) {
  const auto job = reloading_ = std::make_shared<ReloadJob>();
  job->cause = std::move(cause);
  job->serial = ++reloads_;
  job->begin = Clock::now();
  job->answer->at = unix_now();
  job->answer->cause = job->cause.text;
  log::info("reload begins", {{"cause", job->cause.text}});
  owner_.read(job);
}

void Intents::begin_changes() {
  const auto running = owner_.running();
  const auto batch = std::make_shared<ChangeBatch>();
  const auto n = static_cast<ptrdiff_t>(one_by_one_ && !changes_.empty() ? 1 : changes_.size());
  batch->jobs.assign(std::make_move_iterator(changes_.begin()), std::make_move_iterator(changes_.begin() + n));
  batch->changed.assign(std::make_move_iterator(changed_.begin()), std::make_move_iterator(changed_.begin() + n));
  changes_.erase(changes_.begin(), changes_.begin() + n);
  changed_.erase(changed_.begin(), changed_.begin() + n);
  one_by_one_ = one_by_one_ && !changes_.empty();
  if (const auto base = std::exchange(built_base_, nullptr); base != nullptr) {
    const bool is_newer = running != nullptr && running->stands_on != nullptr &&
                          running->stands_on->publication->generation.number < base->publication->generation.number;
    if (is_newer) batch->base = base;
    if (!is_newer) is_base_wanted_ = false;  // a reload has built another one meanwhile
  }
  if (running == nullptr || running->policy == nullptr) {
    if (batch->base != nullptr) is_base_wanted_ = false;
    for (size_t j = 0; j < batch->jobs.size(); j++) {
      ChangeAnswer& answer = batch->jobs[j].answer;
      answer.error =
          "what runs is the last good, because the policy is bad: nothing can be added to its lists\nhint: mend the "
          "policy (`controlctl status` says what is wrong), and reload";
      batch->changed[j](answer);
    }
    return begin_next();
  }
  if (batch->jobs.empty() && batch->base == nullptr) return begin_next();
  is_making_ = true;
  changing_ = batch;
  owner_.change(batch);
}

// Makes one cause of all reloads that wait.
ReloadCause Intents::next_cause() {
  const auto running = owner_.running();
  ReloadCause cause;
  Waiting waiting = std::exchange(waiting_, {});
  cause.wish = std::move(waiting.wish);
  cause.asking = std::move(waiting.asking);
  cause.accepted_feeds = std::move(waiting.accepted_feeds);
  cause.builds_all = waiting.builds_all;
  if (cause.builds_all && !waiting.reads_policy && rolled_back_to_ != 0) {  // feeds stay as they were rolled back
    const uint64_t newest = running->publication->generation.number;
    cause.text = kRebuild;
    cause.back = Rollback{newest, newest, true, owner_.targets()};
    return cause;
  }
  cause.changed_feeds = std::exchange(changed_feeds_, {});
  const bool is_by_feeds = !waiting.reads_policy && running != nullptr;
  if (is_by_feeds) cause.policy_text = running->policy_text;
  cause.policy_path = is_by_feeds                      ? running->policy_path
                      : cause.wish.policy_file.empty() ? policy_file_
                                                       : cause.wish.policy_file;
  cause.text = cause.policy_text == nullptr ? (is_first_ ? "start" : kAskedFor)
               : cause.builds_all           ? kRebuild
                                            : text_of(cause.changed_feeds);
  if (!cause.wish.why.empty()) cause.text = cause.wish.why;
  return cause;
}

ReloadCause Intents::cause_of(Rollback back, std::string why) {
  log::notice("going back", {{"cause", why}});
  ReloadCause cause;
  cause.text = std::move(why);
  cause.back = std::move(back);
  return cause;
}

void Intents::refuse_waiting(const std::string& why) {
  for (const Reloaded& done : std::exchange(waiting_, {}).asking) done(refused(why));
}

void Intents::was_read(const std::shared_ptr<ReloadJob>& job) {
  job->stage = ReloadJob::Stage::read;
  begin_next();
}

bool Intents::was_published(const ReloadJob& job) {
  const auto running = owner_.running();
  const ReloadCause& cause = job.cause;
  if (!cause.wish.policy_file.empty()) policy_file_ = cause.wish.policy_file;
  if (cause.back) {
    rolled_back_to_ = running->base;
  } else if (cause.policy_text == nullptr) {
    rolled_back_to_ = 0;
  }
  unconfirmed_.reset();
  if (cause.wish.confirm_s == 0 || job.before_base == 0) return false;
  unconfirmed_ = Unconfirmed{job.before_base, unix_now() + int64_t{cause.wish.confirm_s}, cause.wish.confirm_s};
  return true;
}

void Intents::end_reload(const std::shared_ptr<ReloadJob>& job) {
  if (job->stage == ReloadJob::Stage::making) is_making_ = false;
  reloading_ = nullptr;
}

void Intents::answer(ReloadJob& job) {
  is_first_ = false;
  begin_next();
  for (const Reloaded& done : std::exchange(job.cause.asking, {})) done(job.answer);
}

bool Intents::end_changes(const std::shared_ptr<ChangeBatch>& batch) {
  changing_ = nullptr;
  is_making_ = false;
  if (!batch->has_to_be_retried) {
    if (batch->base != nullptr) is_base_wanted_ = false;
    return true;
  }
  // One of them makes the publication fail: each is made alone.
  if (batch->base != nullptr) built_base_ = batch->base;
  for (ChangeBatch::Job& job : batch->jobs) job.answer = {};
  changes_.insert(changes_.begin(), std::make_move_iterator(batch->jobs.begin()),
                  std::make_move_iterator(batch->jobs.end()));
  changed_.insert(changed_.begin(), std::make_move_iterator(batch->changed.begin()),
                  std::make_move_iterator(batch->changed.end()));
  one_by_one_ = true;
  begin_next();
  return false;
}

void Intents::confirm() {
  unconfirmed_.reset();
  begin_next();
}

void Intents::end_confirmation() {
  if (!unconfirmed_) return;
  unconfirmed_->is_over = unconfirmed_->is_due = true;  // a rollback that runs comes first, and takes its place
  begin_next();
}

std::string Intents::notice() const {
  if (unconfirmed_ && unconfirmed_->is_over) {
    return fmt::format(
        "nobody confirmed generation {} in time: controld goes back to generation {}, and tries until it succeeds",
        owner_.running()->publication->generation.number, unconfirmed_->base);
  }
  if (unconfirmed_) {
    return fmt::format("generation {} waits until {} for `controlctl confirm`: else {} is published again",
                       owner_.running()->publication->generation.number,
                       time_text(static_cast<uint32_t>(unconfirmed_->until)), unconfirmed_->base);
  }
  if (rolled_back_to_ == 0) return "";
  return "rolled back: neither the policy nor its feeds are read until `controlctl reload`";
}

void Intents::stop() {
  if (std::exchange(is_stopped_, true)) return;
  std::vector<Reloaded> asking = std::exchange(waiting_, {}).asking;
  if (reloading_ != nullptr) {
    *reloading_->is_given_up = true;
    append(asking, std::exchange(reloading_->cause.asking, {}));
  }
  std::vector<Changed> changed;
  if (changing_ != nullptr) changed = std::exchange(changing_->changed, {});
  for (Changed& one : std::exchange(changed_, {})) changed.push_back(std::move(one));
  changes_.clear();
  const auto answer = refused(kStops);
  for (const Reloaded& done : asking) done(answer);
  ChangeAnswer unchanged;
  unchanged.error = kStopsBeforeChange;
  for (const Changed& done : changed) done(unchanged);
}

}  // namespace weir::control
