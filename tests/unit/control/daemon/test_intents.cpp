// Random orders to the queue of intents, without threads, files or a clock that runs: a schedule draws who asks, which
// job ends next and how, which targets answer, which time is over, and when controld stops.
//
//   test-intents [--schedules N] [--seed S]   prints {"seed", "schedules", "asked", "published", "failures"}; exit 1
//   when
//                                             a schedule failed. It tells the first one step by step. S: of the first
//                                             one
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/log/log.h"
#include "control/daemon/intents.h"
#include "tests/unit/control/daemon/world.h"

using namespace weir;
using namespace weir::control;

namespace {

using Content = World::Content;

// One life of controld. The targets, the reader, the maker, the disk and the clock are this schedule's.
class Schedule {
 public:
  explicit Schedule(uint64_t seed) : random_(seed) {}

  void run() {
    if (chance(6)) world_.publish_last_good();
    std::optional<Rollback> back;
    if (world_.running != nullptr && chance(3)) back = Rollback{1, 0, chance(2), {}};
    told("start", back ? "back to 1" : "policy");
    intents_.start(back, "rolled back before this start");
    const uint64_t steps = 5 + below(60);
    for (uint64_t i = 0; i < steps && failure.empty(); i++) step();
    const bool stops = chance(3);
    if (!stops) drain();
    if (failure.empty() && !stops) check_settled();
    told("stop", "");
    intents_.stop();
    while (failure.empty() && end_something()) {
    }
    const size_t asked_before = asks_.size();
    if (chance(2)) ask();  // of one that has stopped
    for (size_t a = 0; a < asks_.size(); a++) {
      if (asks_[a]->answers != 1) fail(fmt::format("{} has {} answers", asks_[a]->what, asks_[a]->answers));
      if (a >= asked_before && !asks_[a]->is_refused)
        fail("a queue that has stopped did not refuse: " + asks_[a]->what);
    }
    asked = asks_.size();
  }

  std::string failure;
  std::vector<std::string> story;
  uint64_t asked = 0, published = 0;

 private:
  struct Ask {
    enum class Kind { reload, rebuild, accept, rollback, promote, change };
    Kind kind = Kind::reload;
    std::string what;
    uint64_t number = 0;  // rollback: the generation; change: its own
    uint32_t confirm_s = 0;
    Content seen;  // the disk when it was asked
    int answers = 0;
    bool is_refused = false;
  };

  uint64_t below(uint64_t n) { return random_() % n; }
  bool chance(uint64_t one_in) { return below(one_in) == 0; }
  void fail(const std::string& why) {
    if (failure.empty()) failure = why;
    story.push_back("WRONG: " + why);
  }
  void told(const std::string& event, const std::string& more) { story.push_back(event + " " + more); }

  void step() {
    const uint64_t dice = below(10);
    if (dice < 4) {
      ask();
    } else if (dice < 5) {
      change_feeds();
    } else {
      end_something();
    }
  }

  // Until nothing is at work any more.
  void drain() {
    while (failure.empty() && end_something()) {
    }
  }

  void ask() {
    const auto made = std::make_shared<Ask>();
    asks_.push_back(made);
    made->what = fmt::format("ask {}", asks_.size());
    if (chance(3)) world_.disk.policy++;
    made->seen = world_.disk;
    const auto done = [this, made](const std::shared_ptr<const ReloadAnswer>& report) { answered(*made, *report); };
    switch (const uint64_t dice = below(12); dice) {
      case 0:
      case 1:
      case 2: {
        Wish wish;
        if (chance(3)) made->confirm_s = wish.confirm_s = 30;
        made->what += fmt::format(", reload of policy {} confirm {}", world_.disk.policy, wish.confirm_s);
        told(made->what, "");
        return intents_.reload(std::move(wish), done);
      }
      case 3:
        made->kind = Ask::Kind::rebuild;
        made->what += ", rebuild";
        told(made->what, "");
        return intents_.rebuild({}, done);
      case 4: {
        if (world_.running == nullptr) break;
        made->kind = Ask::Kind::accept;
        made->what += ", accept";
        told(made->what, "");
        if (const Result<void> accepted = intents_.accept_feed(World::kList, {}, done); !accepted) {
          made->answers++;
          made->is_refused = true;
        }
        return;
      }
      case 5:
      case 6: {
        if (world_.running == nullptr || world_.generations.empty()) break;
        made->kind = Ask::Kind::rollback;
        made->number =
            std::next(world_.generations.begin(), static_cast<ptrdiff_t>(below(world_.generations.size())))->first;
        made->what += fmt::format(", rollback to {}", made->number);
        told(made->what, "");
        return intents_.rollback(made->number, {}, done);
      }
      case 7: {
        if (!world_.has_policy()) break;
        made->kind = Ask::Kind::promote;
        auto shadow = std::make_shared<Shadowing>();
        shadow->path = "candidate.yaml";
        shadow->text = World::text_of(world_.disk.policy);
        made->what += fmt::format(", promote of policy {}", world_.disk.policy);
        told(made->what, "");
        return intents_.promote(shadow, {}, done);
      }
      case 8:
        if (intents_.unconfirmed() && !intents_.unconfirmed()->is_over) {
          told("confirm", "");
          has_timer_ = false;
          intents_.confirm();
        }
        asks_.pop_back();
        return;
      default:
        break;
    }
    made->kind = Ask::Kind::change;
    made->number = ++changes_;
    made->what += fmt::format(", change {}", made->number);
    told(made->what, "");
    Change change;
    change.entries = {std::to_string(made->number)};
    intents_.change(std::move(change), [this, made](const ChangeAnswer& report) {
      made->answers++;
      made->is_refused = !report.error.empty();
      told("answer to " + made->what, report.error);
      if (report.error.find("the policy is bad") != std::string::npos && intents_.is_reloading()) {
        fail(made->what + " is refused while a policy is read");
      }
      if (made->is_refused) return;
      if (report.generation.number == 0) fail("a change without a generation is acknowledged");
      if (!world_.content().added.contains(made->number) && !world_.taken_back.contains(made->number))
        fail(made->what + " is lost");
    });
  }

  void answered(Ask& ask, const ReloadAnswer& report) {
    told("answer to " + ask.what, report.error);
    ask.answers++;
    ask.is_refused = !report.error.empty();
    const auto found = jobs_.find(&report);
    if (found == jobs_.end()) {
      if (!ask.is_refused) fail(ask.what + " is answered without a job");
      return;
    }
    const ReloadCause& cause = found->second->cause;
    const Content& read = read_.at(found->second.get());
    const bool reads_policy = !cause.back && !cause.promoted && cause.policy_text == nullptr;
    switch (ask.kind) {
      case Ask::Kind::reload:
      case Ask::Kind::accept:
        if (!reads_policy) return fail(ask.what + " is answered by a job that reads no policy: " + cause.text);
        if (read.policy < ask.seen.policy) return fail(ask.what + " is answered by an older policy");
        if (cause.wish.confirm_s < ask.confirm_s) return fail(ask.what + " needs no confirmation");
        if (ask.kind == Ask::Kind::accept && !cause.accepted_feeds.contains(World::kList))
          fail(ask.what + " accepts nothing");
        return;
      case Ask::Kind::rebuild:
        if (!cause.builds_all) fail(ask.what + " builds nothing");
        return;
      case Ask::Kind::rollback:
        if (!cause.back || cause.back->number != ask.number || cause.back->added_up_to == 0) {
          fail(ask.what + " is answered by " + cause.text);
        }
        return;
      case Ask::Kind::promote:
        if (!cause.promoted) fail(ask.what + " is answered by " + cause.text);
        return;
      case Ask::Kind::change:
        return;
    }
  }

  void change_feeds() {
    for (auto& [path, version] : world_.disk.feeds) version += chance(2) ? 1 : 0;
    told("feeds change", "");
    watch();
  }

  // One of what is at work ends. False: nothing is.
  bool end_something() {
    std::vector<void (Schedule::*)()> ends;
    if (!reading_.empty()) ends.push_back(&Schedule::end_reading);
    if (making_ != nullptr) ends.push_back(&Schedule::end_making);
    if (recording_ != nullptr) ends.push_back(&Schedule::end_recording);
    if (changing_ != nullptr) ends.push_back(&Schedule::end_changing);
    if (!acknowledging_.empty()) ends.push_back(&Schedule::acknowledge);
    if (is_building_) ends.push_back(&Schedule::end_building);
    if (!changed_.empty()) ends.push_back(&Schedule::tell_changed);
    if (has_timer_ && chance(3)) ends.push_back(&Schedule::end_timer);
    if (ends.empty() && has_timer_) ends.push_back(&Schedule::end_timer);
    if (ends.empty()) return false;
    (this->*ends[below(ends.size())])();
    return true;
  }

  // As the daemon's reader: one after the other, also those that nobody waits for.
  void end_reading() {
    const std::shared_ptr<ReloadJob> job = reading_.front();
    reading_.erase(reading_.begin());
    told("reading ends", job->cause.text);
    if (intents_.is_given_up(*job)) return;
    if (!chance(6)) {
      job->policy.emplace();
      return intents_.was_read(job);
    }
    failed_ = true;
    job->answer->error = "the policy is bad";
    told("", job->answer->error);
    if (job->cause.back && intents_.unconfirmed()) has_timer_ = true;
    intents_.end_reload(job);
    watch();
    intents_.answer(*job);
  }

  void end_making() {
    const std::shared_ptr<ReloadJob> job = std::exchange(making_, nullptr);
    told("making ends", job->cause.text);
    if (intents_.is_stopped()) return;
    job->before_base = made_from_ != nullptr ? made_from_->base : 0;
    if (chance(6)) {
      failed_ = true;
      job->answer->error = "the disk is full";
      told("", job->answer->error);
      if (job->cause.back && intents_.unconfirmed()) has_timer_ = true;
      intents_.end_reload(job);
      watch();
      return intents_.answer(*job);
    }
    const bool is_by_feeds = job->cause.policy_text != nullptr && !job->cause.promoted;
    Content next = read_.at(job.get());
    next.added = world_.journal;
    if (job->cause.back) {
      if (const uint64_t up_to = job->cause.back->added_up_to; up_to != 0)
        world_.take_back(job->cause.back->number, up_to);
      next.added = world_.journal;
    }
    if (is_by_feeds && !job->cause.builds_all && chance(4)) {
      job->is_same = true;
      auto same = std::make_shared<Running>(*world_.running);
      world_.generations[same->publication->generation.number].feeds = next.feeds;
      world_.running = same;
      intents_.end_reload(job);
      watch();
      return intents_.answer(*job);
    }
    if (next.policy < newest_policy_ && !job->cause.back) fail("an older policy is published after a newer one");
    if (!job->cause.back) newest_policy_ = next.policy;
    publish(next, job->cause.promoted ? "candidate.yaml" : job->cause.policy_path, 0, nullptr);
    if (!is_by_feeds) is_rolled_back_ = job->cause.back.has_value();
    is_over_ = false;  // it is what nobody confirmed, or comes in its place
    has_timer_ = intents_.was_published(*job);
    recording_ = job;
  }

  void end_recording() {
    const std::shared_ptr<ReloadJob> job = std::exchange(recording_, nullptr);
    told("it is on disk", job->cause.text);
    if (intents_.is_stopped()) return;
    job->answer->generation = world_.running->publication->generation;
    intents_.end_reload(job);
    watch();
    if (intents_.is_first()) return intents_.answer(*job);
    intents_.begin_next();
    acknowledging_.push_back([this, job] { intents_.answer(*job); });
  }

  void end_changing() {
    const std::shared_ptr<ChangeBatch> batch = std::exchange(changing_, nullptr);
    told("changes end", fmt::format("{}", batch->jobs.size()));
    if (intents_.is_stopped()) return;
    if (batch->jobs.size() > 1 && chance(4)) {
      batch->has_to_be_retried = true;
    } else if (!batch->jobs.empty() && chance(5)) {
      failed_ = true;
      for (ChangeBatch::Job& job : batch->jobs) job.answer.error = "the journal is full";
    } else {
      for (const ChangeBatch::Job& job : batch->jobs) {
        const uint64_t number = std::stoull(job.change.entries.front());
        if (number <= newest_change_) fail(fmt::format("change {} is made after {}", number, newest_change_));
        newest_change_ = number;
        world_.journal.insert(number);
      }
      Content next = world_.content();
      next.added = world_.journal;
      batch->next = std::make_shared<Running>();
      publish_after_ = next;
    }
    if (!intents_.end_changes(batch)) return;
    if (batch->next != nullptr) {
      const auto old = world_.running;
      publish(publish_after_, old->policy_path, old->base, batch->base != nullptr ? batch->base : old->stands_on);
      if (chance(4) && intents_.begin_base()) is_building_ = true;
    }
    const wire::Generation generation = world_.running->publication->generation;
    acknowledging_.push_back([batch, generation] {
      for (size_t j = 0; j < batch->jobs.size(); j++) {
        ChangeAnswer report = batch->jobs[j].answer;
        if (report.error.empty()) report.generation = generation;
        batch->changed[j](report);
      }
    });
    intents_.begin_next();
  }

  void acknowledge() {
    const size_t which = below(acknowledging_.size());
    const auto answer = std::move(acknowledging_[which]);
    acknowledging_.erase(acknowledging_.begin() + static_cast<ptrdiff_t>(which));
    told("targets answer", "");
    answer();
  }

  void end_building() {
    is_building_ = false;
    told("a base is built", "");
    if (intents_.is_stopped()) return;
    if (chance(4)) return intents_.take_base(nullptr);
    intents_.take_base(world_.make_base());
  }

  void end_timer() {
    has_timer_ = false;
    told("nobody confirmed", "");
    is_over_ = true;
    intents_.end_confirmation();
  }

  void check_settled() {
    for (const auto& one : asks_) {
      if (one->answers == 0) fail(one->what + " waits for ever");
    }
    if (intents_.unconfirmed()) fail("what nobody confirmed stays");
    if (is_over_) fail("what nobody confirmed runs");
    if (!intents_.begin_base()) fail("a base that was built is lost, and no other one begins");
    intents_.take_base(nullptr);
    if (failed_ || is_rolled_back_) return;
    for (const std::string& path : world_.changed_feeds()) fail(path + " changed, and was not read again");
  }

  // The daemon's watch finds feeds that differ from those that were read.
  void watch() { changed_.merge(world_.changed_feeds()); }
  void tell_changed() {
    const std::set<std::string> changed = std::exchange(changed_, {});
    told("the watch tells of", fmt::format("{}", changed.size()));
    intents_.reread_feeds({changed.begin(), changed.end()});
  }

  void publish(const Content& next, const std::string& path, uint64_t base, std::shared_ptr<const Base> on) {
    published++;
    world_.publish(next, path, base, std::move(on));
    told("published", fmt::format("{} of policy {}", world_.running->publication->generation.number, next.policy));
  }

  // Hooks of the queue.
  void begin_reading(const std::shared_ptr<ReloadJob>& job) {
    told("reading begins:", job->cause.text);
    if (intents_.is_stopped()) fail("a reload begins after the stop");
    if (intents_.unconfirmed() && !job->cause.back) fail("a policy is read that nobody could confirm");
    Content read = world_.disk;
    const bool is_by_feeds = job->cause.policy_text != nullptr;
    if (is_by_feeds || job->cause.promoted) {
      const auto& text = job->cause.promoted ? job->cause.promoted->text : job->cause.policy_text;
      read.policy = std::stoull(*text);
    }
    if (is_by_feeds && (is_rolled_back_ || intents_.unconfirmed()))
      fail("feeds are read that are to stay as they were");
    if (job->cause.back) {
      const auto found = world_.generations.find(job->cause.back->number);
      if (found == world_.generations.end())
        return fail(fmt::format("back to {}, which never was", job->cause.back->number));
      read = found->second;
    }
    read_[job.get()] = read;
    jobs_[job->answer.get()] = job;
    reading_.push_back(job);
  }

  void begin_making(const std::shared_ptr<ReloadJob>& job) {
    told("making begins:", job->cause.text);
    if (making_ != nullptr || changing_ != nullptr || recording_ != nullptr)
      fail("two publications are made at a time");
    if (!job->policy) fail("a reload is made of nothing");
    making_ = job;
    made_from_ = world_.running;
  }

  void begin_changing(const std::shared_ptr<ChangeBatch>& batch) {
    told("changes begin:", fmt::format("{}", batch->jobs.size()));
    if (making_ != nullptr || changing_ != nullptr || recording_ != nullptr)
      fail("two publications are made at a time");
    if (!world_.has_policy()) return fail("changes of no policy");
    const auto number = [](const Base& base) { return base.publication->generation.number; };
    if (batch->base != nullptr && number(*batch->base) <= number(*world_.running->stands_on))
      fail("an older base comes");
    changing_ = batch;
  }

  std::mt19937_64 random_;
  Intents intents_{{.running = [this] { return world_.running; },
                    .targets = [] { return std::vector<TargetSpec>(); },
                    .is_kept = [this](uint64_t base) { return world_.generations.contains(base); },
                    .read = [this](const auto& job) { begin_reading(job); },
                    .make = [this](const auto& job) { begin_making(job); },
                    .change = [this](const auto& batch) { begin_changing(batch); },
                    .given_up = [](const ReloadJob&) {}}};
  std::vector<std::shared_ptr<Ask>> asks_;
  std::map<const ReloadAnswer*, std::shared_ptr<ReloadJob>> jobs_;
  std::map<const ReloadJob*, Content> read_;

  std::vector<std::shared_ptr<ReloadJob>> reading_;
  std::shared_ptr<ReloadJob> making_, recording_;
  std::shared_ptr<const Running> made_from_;
  std::shared_ptr<ChangeBatch> changing_;
  std::vector<std::function<void()>> acknowledging_;
  bool is_building_ = false, has_timer_ = false;

  World world_;
  Content publish_after_;
  std::set<std::string> changed_;  // that the watch is to tell of
  uint64_t changes_ = 0, newest_change_ = 0, newest_policy_ = 0;
  bool is_over_ = false, is_rolled_back_ = false, failed_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  uint64_t schedules = 1000, seed = 1;
  for (int a = 1; a < argc; a++) {
    const bool has_value = a + 1 < argc;
    if (has_value && strcmp(argv[a], "--schedules") == 0) {
      schedules = strtoull(argv[++a], nullptr, 10);
    } else if (has_value && strcmp(argv[a], "--seed") == 0) {
      seed = strtoull(argv[++a], nullptr, 10);
    } else {
      fprintf(stderr, "usage: test-intents [--schedules N] [--seed S]\n");
      return 2;
    }
  }
  log::set_threshold(log::Level::error);
  uint64_t failures = 0, asked = 0, published = 0;
  for (uint64_t s = 0; s < schedules; s++) {
    Schedule schedule(seed + s);
    schedule.run();
    asked += schedule.asked;
    published += schedule.published;
    if (schedule.failure.empty() || failures++ != 0) continue;
    fprintf(stderr, "schedule %llu: %s\n", static_cast<unsigned long long>(seed + s), schedule.failure.c_str());
    for (const std::string& line : schedule.story) fprintf(stderr, "  %s\n", line.c_str());
  }
  printf("{\"seed\": %llu, \"schedules\": %llu, \"asked\": %llu, \"published\": %llu, \"failures\": %llu}\n",
         static_cast<unsigned long long>(seed), static_cast<unsigned long long>(schedules),
         static_cast<unsigned long long>(asked), static_cast<unsigned long long>(published),
         static_cast<unsigned long long>(failures));
  return failures == 0 ? 0 : 1;
}
