#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>

#include "common/clock.h"
#include "common/log/log.h"
#include "common/memory.h"
#include "control/daemon/daemon.h"
#include "control/lists/book/disk.h"
#include "control/policy/read/parsers.h"
#include "control/policy/read/policy.h"

// What was published before: recorded, kept, and published again.
namespace weir::control {

namespace {

// Notes of the journal: the base that a rollback published, and the base to go back to unless somebody confirms.
constexpr const char* kHeld = "held";
constexpr const char* kUnconfirmed = "unconfirmed";

uint64_t number_of(const Result<std::string>& text) {
  uint64_t number = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), number);
  return number;
}

std::vector<HistoryFiles::Feed> feeds_to_keep(const Book& book) {
  std::vector<HistoryFiles::Feed> feeds;
  for (const List& list : book) {
    for (const FeedFile& file : list.feeds()) {
      if (file.state.digest != Digest{}) feeds.push_back({file.feed.path, file.state.digest});
    }
  }
  return feeds;
}

}  // namespace

// The generation whose book is to come back; 0: it is not known. After many changes only the book is left of a base
// that is still in use.
uint64_t Daemon::base_of(const WayBack& back, Journal& journal) const {
  const auto record = journal.generations().find({epoch_, back.number});
  if (record && *record) return (*record)->base;
  return back.added_up_to == 0 && history_.has(back.number) ? back.number : 0;
}

// On the reader. The reason why it cannot be is in the report.
void Daemon::read_former(ReloadJob& job) {
  const WayBack& back = *job.cause.back;
  ReloadReport& report = *job.report;
  const Result<Journal*> journal = journal_to_ask();
  if (!journal) return void(report.error = journal.error());
  job.back_base = base_of(back, **journal);
  if (job.back_base == 0) {
    return void(report.error = fmt::format(
                    "generation {} is not known\nhint: `controlctl history` names those that are kept", back.number));
  }
  if (back.added_up_to != 0) {
    Result<Journal::WayBack> way = (*journal)->find_way_back(
        {epoch_, back.number}, [&] { return job.is_given_up->load(); }, &progress_);
    if (!way) return void(report.error = way.error());
    job.way_back = std::move(*way);
  }
  const Result<HistoryFiles::Kept> kept = history_.open({epoch_, job.back_base});
  if (!kept) return void(report.error = kept.error());
  Result<Book> book = read_book(kept->book.bytes());
  if (!book) return void(report.error = book.error());
  Diagnostics diagnostics;
  std::optional<Policy> policy =
      parse_policy(options_.config, kept->policy_text, diagnostics, unix_now(), yaml_parser(options_.parsers));
  if (!policy) return report.diagnostics.append(diagnostics);
  policy->text = std::make_shared<const std::string>(kept->policy_text);
  policy->lists = std::move(*book);
  if (fleet_) {
    const Places node = read_places(options_.config, options_.parsers);
    if (node.targets) policy->targets = *node.targets;
    if (node.metrics) policy->metrics = *node.metrics;
  }
  if (!back.targets.empty()) policy->targets = back.targets;
  job.policy = std::move(policy);
}

// On the worker, before anybody is given it: what a start has to know, in the transaction of a rollback.
Result<void> Daemon::note(const ReloadJob& job, const Running* old) {
  const ReloadCause& cause = job.cause;
  const Result<Journal*> journal = this->journal();
  const bool must_be_known = cause.back || cause.wish.confirm_s != 0;
  if (!journal) return must_be_known ? Result<void>(Error{journal.error()}) : Result<void>();
  Generations& generations = (*journal)->generations();
  const bool has_begun = cause.back && cause.back->added_up_to != 0;
  Result<void> done = has_begun ? Result<void>() : (*journal)->begin(numbers_.last());
  const bool keeps_held = cause.policy_text != nullptr;  // feeds: the policy is the same
  if (done && !keeps_held) {
    done = generations.set_note(kHeld, job.back_base == 0 ? "" : std::to_string(job.back_base));
  }
  if (done) {
    const bool waits = cause.wish.confirm_s != 0 && old != nullptr;
    done = generations.set_note(kUnconfirmed, waits ? std::to_string(old->base) : "");
  }
  if (done) done = (*journal)->commit();
  if (!done) (*journal)->roll_back();
  return must_be_known ? done : Result<void>();
}

// On the worker, when it is published: what it was, and its content. What cannot be kept is said; it is enforced all
// the same.
void Daemon::record(const ReloadJob& job) {
  const Running& next = *job.next;
  const wire::Generation generation = next.publication->generation;
  Result<void> kept = job.saved;
  if (kept && next.policy_text != nullptr) kept = history_.keep(generation, *next.policy_text);
  const Result<Journal*> journal = this->journal();
  if (kept && !journal) kept = Error{journal.error()};
  if (journal) {
    Generations& generations = (*journal)->generations();
    const HistorySettings& settings = next.policy->history;
    Result<void> done = (*journal)->begin(generation);
    if (done) {
      done = generations.add(generation.epoch, {generation.number, unix_now(), job.cause.text, job.cause.wish.uid,
                                                next.base, job.report->changes});
    }
    if (done && kept && job.cause.back) done = generations.set_note(kHeld, std::to_string(generation.number));
    if (done) {
      const Result<std::vector<GenerationRecord>> past = generations.newest(generation.epoch, Generations::kMost);
      uint64_t oldest = generation.number;
      for (const GenerationRecord& record : past ? *past : std::vector<GenerationRecord>()) {
        if (record.at + int64_t{settings.keep_s} < unix_now()) break;
        oldest = record.number;
      }
      if (job.before_base != 0) oldest = std::min(oldest, job.before_base);  // to go back to
      const Result<std::vector<uint64_t>> bases = generations.bases(generation.epoch);
      std::vector<uint64_t> wanted = bases ? *bases : std::vector<uint64_t>();
      std::erase_if(wanted, [&](uint64_t base) { return base < oldest; });
      if (kept) history_.keep_more(generation, feeds_to_keep(*next.book), settings.size_bytes);
      const uint64_t first = history_.trim(wanted, settings.size_bytes);
      done = generations.forget_before({generation.epoch, std::max(oldest, first)});
    }
    if (done) done = (*journal)->commit();
    if (!done) (*journal)->roll_back();
    if (kept) kept = done;
  }
  if (!kept)
    log::error("a generation is not kept for a rollback", {{"generation", generation.number}, {"error", kept.error()}});
}

// On the loop, when it is published.
void Daemon::await_confirmation(const ReloadJob& job) {
  confirm_timer_.reset();
  if (intents_.was_published(job)) end_confirmation_in(std::chrono::seconds(job.cause.wish.confirm_s));
}

void Daemon::end_confirmation_in(std::chrono::seconds seconds) {
  confirm_timer_ = loop_.timer(Clock::now() + seconds, [this] {
    log::change("nobody confirmed", {{"generation", running_->publication->generation.number},
                                     {"seconds", intents_.unconfirmed()->seconds}});
    intents_.end_confirmation();
  });
}

// Before the first policy is compiled: what was rolled back stays so, and what nobody confirmed goes back.
void Daemon::begin_with_notes() {
  const Result<Journal*> journal = this->journal();
  Generations* const generations = journal ? &(*journal)->generations() : nullptr;
  const uint64_t held = generations == nullptr ? 0 : number_of(generations->note(kHeld));
  const uint64_t unconfirmed = generations == nullptr ? 0 : number_of(generations->note(kUnconfirmed));
  const uint64_t base = unconfirmed != 0 ? unconfirmed : held;
  if (base != 0 && !history_.has(base)) {
    log::error("the content of what is to be enforced is not kept: the policy is read", {{"generation", base}});
  }
  if (base == 0 || !history_.has(base)) return intents_.start(std::nullopt, "");
  intents_.start(WayBack{base, 0, unconfirmed == 0, {}},
                 unconfirmed != 0 ? fmt::format("stopped before it was confirmed: back to generation {}", base)
                                  : fmt::format("rolled back to generation {} before this start", base));
}

void Daemon::confirm(std::function<void(const Result<wire::Generation>& stays)> done) {
  const auto& unconfirmed = intents_.unconfirmed();
  if (!unconfirmed) return done(Error{"nothing waits for a confirmation"});
  if (unconfirmed->is_over) {
    return done(Error{fmt::format("its time is over: generation {} is published again", unconfirmed->base)});
  }
  confirm_timer_.reset();
  const wire::Generation stays = running_->publication->generation;
  const Callers::Id caller =
      callers_.add([done] { done(Error{"it stays, and the next start may go back: controld stops"}); });
  worker_.submit([this, stays, caller, done = std::move(done)] {
    const Result<Journal*> journal = this->journal();
    Result<void> noted = journal ? (*journal)->begin(stays) : Result<void>(Error{journal.error()});
    if (noted) noted = (*journal)->generations().set_note(kUnconfirmed, "");
    if (noted) noted = (*journal)->commit();
    if (!noted && journal) (*journal)->roll_back();
    mailbox_.post([this, stays, noted, caller, done] {
      if (!callers_.take(caller)) return;
      done(noted ? Result<wire::Generation>(stays)
                 : Result<wire::Generation>(Error{"it stays, and the next start goes back: " + noted.error()}));
    });
  });
  intents_.confirm();
}

void Daemon::history(size_t most, std::function<void(const Result<std::vector<Past>>& past)> done) {
  const Callers::Id caller = callers_.add([done] { done(Error{"controld stops"}); });
  historian_.submit([this, most, caller, done = std::move(done)] {
    const Result<Journal*> journal = journal_to_ask();
    Result<std::vector<GenerationRecord>> records = journal
                                                        ? (*journal)->generations().newest(epoch_, most)
                                                        : Result<std::vector<GenerationRecord>>(Error{journal.error()});
    auto past = std::make_shared<Result<std::vector<Past>>>(std::vector<Past>());
    if (records) {
      for (GenerationRecord& record : *records) {
        const bool is_kept = history_.has(record.base);
        (*past)->push_back({std::move(record), is_kept});
      }
    } else {
      *past = Error{records.error()};
    }
    mailbox_.post([this, past, caller, done] {
      if (callers_.take(caller)) done(*past);
    });
  });
}

void Daemon::with_archive(AboutPast work, std::shared_ptr<const std::atomic<bool>> has_gone, Clock::time_point deadline,
                          std::function<void(const Result<void>& is_done)> done) {
  const auto is_over = std::make_shared<std::atomic<bool>>(false);
  const Callers::Id caller = callers_.add([done] { done(Error{"controld stops"}); });
  const auto finish = [this, is_over, caller, done](const Result<void>& is_done) {
    *is_over = true;
    if (callers_.take(caller)) done(is_done);
  };
  historian_.submit([this, work = std::move(work), is_over, has_gone = std::move(has_gone), finish] {
    const auto is_given_up = [this, is_over, has_gone] {
      return *is_over || (has_gone && *has_gone) || historian_.is_stopping();
    };
    Result<void> is_done = Error{"whoever asked has gone"};
    if (!is_given_up()) {
      is_done = with_memory([&] { work(archive_, journal_to_ask(), is_given_up); });
      if (!is_done) log::error("an answer is without what takes memory", {{"error", is_done.error()}});
    }
    mailbox_.post([finish, is_done] { finish(is_done); });
  });
  callers_.keep_until_answered(caller, loop_.timer(deadline, [finish] {
    finish(Error{"it takes too long, or others ask as much: ask again"});
  }));
}

}  // namespace weir::control
