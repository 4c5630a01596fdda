#include <fmt/format.h>

#include <algorithm>

#include "common/clock.h"
#include "common/log/log.h"
#include "common/memory.h"
#include "control/daemon/daemon.h"
#include "control/lists/book/disk.h"
#include "control/policy/read/parsers.h"
#include "control/policy/read/policy.h"

// Former generations are read for a rollback, listed, and published again.
namespace weir::control {

// The generation whose book is to come back; 0: it is not known. After many changes only the book is left of a base
// that is still in use.
uint64_t Daemon::base_of(const Rollback& back, Journal& journal) const {
  const auto record = journal.generations().find({maker_.epoch(), back.number});
  if (record && *record) return (*record)->base;
  return back.added_up_to == 0 && maker_.history().has(back.number) ? back.number : 0;
}

// On the reader. The reason why it cannot be is in the answer.
void Daemon::read_former(ReloadJob& job) {
  const Rollback& back = *job.cause.back;
  ReloadAnswer& answer = *job.answer;
  const Result<Journal*> journal = maker_.journal_to_ask();
  if (!journal) return void(answer.error = journal.error());
  job.back_base = base_of(back, **journal);
  if (job.back_base == 0) {
    return void(answer.error = fmt::format(
                    "generation {} is not known\nhint: `controlctl history` names those that are kept", back.number));
  }
  if (back.added_up_to != 0) {
    Result<Journal::WayBack> way = (*journal)->find_way_back(
        {maker_.epoch(), back.number}, [&] { return job.is_given_up->load(); }, &progress_);
    if (!way) return void(answer.error = way.error());
    job.way_back = std::move(*way);
  }
  const Result<HistoryFiles::Kept> kept = maker_.history().open({maker_.epoch(), job.back_base});
  if (!kept) return void(answer.error = kept.error());
  Result<Book> book = read_book(kept->book.bytes());
  if (!book) return void(answer.error = book.error());
  Diagnostics diagnostics;
  std::optional<Policy> policy =
      parse_policy(options_.config, kept->policy_text, diagnostics, unix_now(), yaml_parser(options_.parsers));
  if (!policy) return answer.diagnostics.append(diagnostics);
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

// On the loop, when it is published.
void Daemon::await_confirmation(const ReloadJob& job) {
  confirm_timer_.reset();
  if (intents_.was_published(job)) end_confirmation_in(std::chrono::seconds(job.cause.wish.confirm_s));
}

void Daemon::end_confirmation_in(std::chrono::seconds seconds) {
  confirm_timer_ = loop_.timer(Clock::now() + seconds, [this] {
    const Intents::Unconfirmed& unconfirmed = *intents_.unconfirmed();
    if (!unconfirmed.is_over) {
      log::change("nobody confirmed",
                  {{"generation", running_->publication->generation.number}, {"seconds", unconfirmed.seconds}});
    }
    intents_.end_confirmation();
  });
}

// Before the first policy is compiled: what was rolled back stays so, and what nobody confirmed goes back. If the
// content to go back to is lost, controld goes back further: what nobody confirmed must not stay.
void Daemon::begin_with_notes() {
  const Maker::Notes notes = maker_.notes();
  const uint64_t unconfirmed = notes.unconfirmed, wanted = unconfirmed != 0 ? unconfirmed : notes.rolled_back_to;
  uint64_t base = wanted;
  if (wanted != 0 && !maker_.history().has(wanted)) {
    base = unconfirmed != 0 ? maker_.newest_kept(unconfirmed) : 0;
    log::error(base != 0 ? "the content of what is to be enforced is not kept: an earlier one is enforced"
                         : "the content of what is to be enforced is not kept: the policy is read",
               {{"generation", wanted}});
  }
  if (base == 0) return intents_.start(std::nullopt, "");
  intents_.start(Rollback{base, 0, unconfirmed == 0, {}},
                 unconfirmed != 0 ? fmt::format("stopped before it was confirmed: back to generation {}", base)
                                  : fmt::format("rolled back to generation {} before this start", base));
}

void Daemon::confirm(std::function<void(const Result<wire::Generation>& stays)> done) {
  const auto& unconfirmed = intents_.unconfirmed();
  if (!unconfirmed) return done(Error{"nothing waits for a confirmation"});
  if (unconfirmed->is_over) return done(Error{notice()});
  confirm_timer_.reset();
  const wire::Generation stays = running_->publication->generation;
  const Callers::Id caller =
      callers_.add([done] { done(Error{"it stays, and the next start may go back: controld stops"}); });
  maker_thread_.submit([this, stays, caller, done = std::move(done)] {
    const Result<void> noted = maker_.confirm(stays);
    mailbox_.post([this, stays, noted, caller, done] {
      if (!callers_.take(caller)) return;
      done(noted ? Result<wire::Generation>(stays)
                 : Result<wire::Generation>(Error{"it stays, and the next start goes back: " + noted.error()}));
    });
  });
  intents_.confirm();
}

void Daemon::history(size_t most, std::function<void(const Result<std::vector<HistoryRow>>& past)> done) {
  const Callers::Id caller = callers_.add([done] { done(Error{"controld stops"}); });
  historian_.submit([this, most, caller, done = std::move(done)] {
    const Result<Journal*> journal = maker_.journal_to_ask();
    Result<std::vector<GenerationRecord>> records = journal
                                                        ? (*journal)->generations().newest(maker_.epoch(), most)
                                                        : Result<std::vector<GenerationRecord>>(Error{journal.error()});
    auto past = std::make_shared<Result<std::vector<HistoryRow>>>(std::vector<HistoryRow>());
    if (records) {
      for (GenerationRecord& record : *records) {
        const bool is_kept = maker_.history().has(record.base);
        (*past)->push_back({{std::move(record)}, is_kept});
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
      is_done = with_memory([&] { work(archive_, maker_.journal_to_ask(), is_given_up); });
      if (!is_done) log::error("an answer is without what takes memory", {{"error", is_done.error()}});
    }
    mailbox_.post([finish, is_done] { finish(is_done); });
  });
  callers_.keep_until_answered(caller, loop_.timer(deadline, [finish] {
    finish(Error{"it takes too long, or others ask as much: ask again"});
  }));
}

}  // namespace weir::control
