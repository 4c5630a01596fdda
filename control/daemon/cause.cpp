#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "common/clock.h"
#include "control/daemon/daemon.h"
#include "control/policy/read/feed_names.h"

// Why a reload begins: who asked, and which feeds changed. Each reload takes its callers along: who asks while one runs
// is told of the next one.
namespace weir::control {

namespace {

constexpr const char* kAskedFor = "asked for";
constexpr const char* kRebuild = "rebuild";

// Of a reload: the feeds that changed, the first of them by name.
std::string cause_of(const std::set<std::string>& changed) {
  constexpr size_t kMostNamed = 3;
  std::string text;
  size_t named = 0;
  for (const std::string& path : changed) {
    if (named++ == kMostNamed) return fmt::format("{} and {} more changed", text, changed.size() - kMostNamed);
    text += (text.empty() ? "" : ", ") + path;
  }
  return text + " changed";
}

}  // namespace

// A report of what did not begin.
std::shared_ptr<const ReloadReport> Daemon::refuse(std::string why) const {
  auto refused = std::make_shared<ReloadReport>();
  refused->error = std::move(why);
  refused->at = unix_now();
  if (running_ != nullptr) refused->generation = running_->publication->generation;
  return refused;
}

void Daemon::reload(Reloaded done, Wish wish) {
  if (unconfirmed_) return done(refuse(notice()));
  if (wish.confirm_s != 0 && (running_ == nullptr || running_->base == 0 || !history_.has(running_->base))) {
    return done(refuse("what runs is not kept: there would be nothing to go back to; reload without --confirm"));
  }
  is_policy_wanted_ = true;
  wish_.uid = wish.uid;
  wish_.pid = wish.pid;
  if (!wish.why.empty()) wish_.why += (wish_.why.empty() ? "" : ", ") + wish.why;
  wish_.confirm_s = std::max(wish_.confirm_s, wish.confirm_s);
  wish_.is_forced |= wish.is_forced;
  if (!wish.policy_file.empty()) {
    wish_.policy_file = std::move(wish.policy_file);
    wish_.compiled = std::move(wish.compiled);
  }
  asking_.push_back(std::move(done));
  begin_next();
}

void Daemon::rebuild(const Wish& wish, Reloaded done) {
  if (unconfirmed_) return done(refuse(notice()));
  if (running_->policy_text == nullptr) {
    return done(
        refuse("what runs is the last good, because the policy is bad: it cannot be built anew\nhint: mend the policy "
               "(`controlctl status` says what is wrong), and reload"));
  }
  is_rebuild_wanted_ = true;
  wish_.uid = wish.uid;
  wish_.pid = wish.pid;
  asking_.push_back(std::move(done));
  begin_next();
}

// Whatever waits. A policy is read beside all else; when it was read, and the worker is free, it comes first, and takes
// the changes of the journal in.
void Daemon::begin_next() {
  if (stopping_) return;
  if (unconfirmed_ && !asking_.empty()) refuse_asking();
  if (unconfirmed_ && unconfirmed_->is_over && reloading_ == nullptr && !going_back_) {
    const uint64_t base = unconfirmed_->base;
    std::string why = fmt::format("not confirmed in {} s: back to generation {}", unconfirmed_->seconds, base);
    unconfirmed_.reset();
    go_back({base, 0, false, {}}, std::move(why), {}, {});
  }
  const bool are_feeds_read = held_ == 0 && !unconfirmed_;
  const bool is_wanted = !asking_.empty() || going_back_ || promoting_ || (are_feeds_read && !changed_feeds_.empty());
  if (reloading_ == nullptr && is_wanted) begin_reload();
  if (is_making_) return;
  if (reloading_ != nullptr && reloading_->stage == Prepared::Stage::read) return make_reload();
  // Lists that nothing can be added to yet may be there after the reload.
  const bool is_policy_there = running_ != nullptr && running_->policy != nullptr;
  if (is_first_ || (!is_policy_there && reloading_ != nullptr)) return;
  if (!waiting_changes_.empty() || compacted_ != nullptr) begin_change();
}

Result<void> Daemon::accept_feed(const std::string& list, Wish wish, Reloaded done) {
  const auto& lists = running_->lists;
  const auto found = std::find_if(lists.begin(), lists.end(), [&](const ListSummary& one) { return one.name == list; });
  if (found == lists.end()) return Error{fmt::format("no list is called '{}'", list)};
  if (found->file.empty()) return Error{fmt::format("list '{}' has no feed", list)};
  if (unconfirmed_) return Error{notice()};  // else whatever is there later would be accepted
  accepted_feeds_.insert(list);
  wish.why = fmt::format("the feed of list {} is accepted as it is", list);
  reload(std::move(done), std::move(wish));
  return {};
}

Result<void> Daemon::fetch_feed(const std::string& list, Fetcher::Done done) {
  const auto found = std::find_if(running_->fetched.begin(), running_->fetched.end(),
                                  [&](const FetchedFeed& one) { return one.list == list; });
  if (found == running_->fetched.end()) return Error{fmt::format("no list with an url is called '{}'", list)};
  return fetcher_.ask_now(found->path, std::move(done));
}

// What is published meanwhile is read by the next reload.
void Daemon::take_changed_feeds(const std::vector<std::string>& paths) {
  if (stopping_ || running_ == nullptr || running_->policy_text == nullptr) return;
  changed_feeds_.insert(paths.begin(), paths.end());
  begin_next();
}

// Who asked while the reload ran that is to be confirmed now.
void Daemon::refuse_asking() {
  is_policy_wanted_ = is_rebuild_wanted_ = false;
  wish_ = {};
  accepted_feeds_.clear();
  for (const Reloaded& done : std::exchange(asking_, {})) done(refuse(notice()));
}

// Those of the policy that runs.
void Daemon::watch_feeds() {
  if (watch_ == nullptr || running_ == nullptr || running_->policy_text == nullptr) return;
  std::vector<WatchedFile> files;
  for (const ListSummary& list : running_->lists) {
    std::vector<std::string> names;
    for (const FeedFile& feed : list.feeds) {
      names.push_back(feed.feed.path);
      if (feed.refusal) {
        files.push_back({feed.refusal->path, std::nullopt});
      } else {
        files.push_back({feed.feed.path, feed.state.file});
      }
    }
    if (stands_for_several(list.feed.path)) files.push_back({list.feed.path, identity_of(names), true});
  }
  watch_->watch(std::move(files));
}

// A rollback does not wait for a policy that is still being read. The callers of that reload are told why; the next
// reload reads the feeds that changed.
void Daemon::give_up_reading(const std::string& why) {
  std::vector<Reloaded> asking = std::exchange(asking_, {});
  is_policy_wanted_ = is_rebuild_wanted_ = false;
  wish_ = {};
  accepted_feeds_.clear();
  if (reloading_ != nullptr) {
    log::notice("reload given up", {{"cause", reloading_->cause.text}, {"why", why}});
    const std::shared_ptr<Prepared> reading = std::exchange(reloading_, nullptr);
    fetcher_.give_up_first(reading->is_given_up);
    changed_feeds_.insert(reading->cause.changed_feeds.begin(), reading->cause.changed_feeds.end());
    for (Reloaded& one : reading->cause.asking) asking.push_back(std::move(one));
    progress_.begin("");
  }
  for (const Reloaded& done : asking) done(refuse(why));
}

// What goes back reads nothing: what was asked for, or changed, besides waits for the reload after it.
Daemon::Cause Daemon::next_cause() {
  if (promoting_) return *std::exchange(promoting_, std::nullopt);
  if (going_back_) {
    Cause cause = *std::exchange(going_back_, std::nullopt);
    if (!cause.back->stays_there) return cause;
    for (const auto& link : targets_) cause.back->targets.push_back(link->spec());
    return cause;
  }
  Cause cause;
  cause.anew = std::exchange(is_rebuild_wanted_, false);
  if (cause.anew && !is_policy_wanted_ && held_ != 0) {  // feeds stay as they were rolled back
    cause.text = kRebuild;
    cause.wish = std::exchange(wish_, {});
    const uint64_t newest = running_->publication->generation.number;
    cause.back = Cause::Back{newest, newest, true, {}};
    for (const auto& link : targets_) cause.back->targets.push_back(link->spec());
    cause.asking = std::exchange(asking_, {});
    return cause;
  }
  cause.asking = std::exchange(asking_, {});
  cause.changed_feeds = std::exchange(changed_feeds_, {});
  const bool is_by_feeds = !std::exchange(is_policy_wanted_, false) && running_ != nullptr;
  if (is_by_feeds) cause.policy_text = running_->policy_text;
  cause.wish = std::exchange(wish_, {});
  cause.policy_path = is_by_feeds                      ? running_->policy_path
                      : cause.wish.policy_file.empty() ? fleet_policy_
                                                       : cause.wish.policy_file;
  cause.text = cause.policy_text != nullptr ? cause_of(cause.changed_feeds) : is_first_ ? "start" : kAskedFor;
  if (cause.anew && cause.policy_text != nullptr) cause.text = kRebuild;
  if (!cause.wish.why.empty()) cause.text = cause.wish.why;
  cause.accepted_feeds = std::exchange(accepted_feeds_, {});
  return cause;
}

}  // namespace weir::control
