#include "control/daemon/front_page.h"

#include <unistd.h>

#include <array>
#include <utility>

#include "common/clock.h"
#include "control/daemon/daemon.h"
#include "control/daemon/explain.h"
#include "control/daemon/tell.h"
#include "control/tell/page/page.h"

namespace weir::control {

namespace {

// A target that is at a publication answers after it; the page does not wait for one that hangs.
constexpr std::chrono::milliseconds kTellWait{500};
constexpr size_t kPageChanges = 20;    // publications that are read for the page
constexpr size_t kMostKeyBytes = 500;  // of a key or packet to be explained

double unix_time() {
  return std::chrono::duration<double>(wall_now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name = {};
  return gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "";
}

page::Asked explain_for_page(Daemon& daemon, const std::string& key) {
  page::Asked asked;
  asked.key = key.substr(0, kMostKeyBytes);
  if (key.size() > kMostKeyBytes) {
    asked.error = "a key is shorter than that: an address, address:port, or a packet";
    return asked;
  }
  Result<ExplainAnswer> answer = explain_now(daemon, key);
  if (answer) {
    asked.answer = std::move(*answer);
  } else {
    asked.error = answer.error();
  }
  return asked;
}

page::Facts facts_now(Daemon& daemon, const page::Looks& looks) {
  page::Facts facts;
  facts.host = host_name();
  facts.now = unix_time();
  facts.status = status_answer(daemon);
  if (daemon.running() == nullptr) return facts;
  facts.looks = &looks;
  if (looks.last() != nullptr) facts.stats = *looks.last();
  facts.lists = list_answer(daemon, "");
  facts.feeds = feeds_answer(daemon);
  return facts;
}

}  // namespace

FrontPage::FrontPage(Loop& loop, Daemon& daemon) : loop_(loop), daemon_(daemon), mailbox_(loop) {
  look_now_and_then();
}

void FrontPage::look_now_and_then() {
  next_ = loop_.timer(Clock::now() + kEvery, [this] { look_now_and_then(); });
  look([] {});
}

// At once when the last look is young enough, or there is nothing to look at.
void FrontPage::look(Done done) {
  if (daemon_.running() == nullptr || (!is_looking_ && !looks_.is_due(unix_time()))) return done();
  waiting_.push_back(std::move(done));
  if (std::exchange(is_looking_, true)) return;
  const auto counted = [this, alive = mailbox_.token()](const Daemon::Refreshed& all) {
    if (!*alive) return;
    is_looking_ = false;
    looks_.add(stats_answer(daemon_, all), unix_time());
    for (const Done& waits : std::exchange(waiting_, {})) waits();
  };
  daemon_.refresh(Daemon::Counters::status, Clock::now() + kTellWait,
                  [this, counted, alive = mailbox_.token()](const Daemon::Refreshed&) {
                    if (*alive) daemon_.refresh(Daemon::Counters::stats, Clock::now() + kTellWait, counted);
                  });
}

// The journal is read by the thread that compiles, which may be at something long: then what was read before will do.
void FrontPage::read_history(Done done) {
  const wire::Generation running = daemon_.running()->publication->generation;
  if (history_.generation == running && history_error_.empty()) return done();
  readers_.push_back(std::move(done));
  if (!patience_) patience_ = loop_.timer(Clock::now() + kTellWait, [this] { end_reading(); });
  if (std::exchange(is_reading_, true)) return;
  daemon_.history(kPageChanges, [this, alive = mailbox_.token()](const Result<std::vector<HistoryRow>>& past) {
    if (!*alive) return;
    is_reading_ = false;
    history_error_ = past ? "" : past.error();
    if (past) history_ = history_answer(daemon_, *past);
    end_reading();
  });
}

void FrontPage::end_reading() {
  patience_.reset();
  for (const Done& waits : std::exchange(readers_, {})) waits();
}

void FrontPage::answer(const web::Request& request, web::Reply reply) {
  const std::string* asked = request.argument(page::kKeyArgument);
  const std::string key = asked == nullptr ? "" : *asked;
  const auto tell = [this, key, reply = std::move(reply)] {
    page::Facts facts = facts_now(daemon_, looks_);
    facts.history = history_;
    facts.history_error = history_error_;
    if (!key.empty() && daemon_.running() != nullptr) facts.asked = explain_for_page(daemon_, key);
    reply({200, "", page_html(facts)});
  };
  look([this, tell] { daemon_.running() == nullptr ? tell() : read_history(tell); });
}

}  // namespace weir::control
