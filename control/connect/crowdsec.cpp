#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

#include "common/clock.h"
#include "common/fd.h"
#include "control/connect/dynamic_list.h"
#include "control/connect/follow.h"
#include "control/ctl/client.h"
#include "control/ctl/line/out.h"
#include "control/ctl/text.h"
#include "control/policy/model/time_text.h"
#include "control/sources/crowdsec/ledger.h"
#include "control/sources/crowdsec/local_api.h"
#include "control/tell/answer/change.h"
#include "control/tell/answer/list.h"

// CrowdSec's decisions as entries of a dynamic list.
namespace weir::control::ctl {

namespace cmd_crowdsec {

using Round = CrowdsecRound;
using Arguments = CrowdsecArguments;

constexpr std::chrono::seconds kMostPause{60};  // after failures
constexpr std::chrono::hours kAnew{1};          // all is asked for again, of both: what nobody told of is found then
constexpr int kPatience_ms = 120'000;           // for one answer of controld

// SIGINT, SIGTERM and SIGHUP as something to wait for.
class End {
 public:
  End() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    fd_.reset(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  int fd() const { return fd_.get(); }
  // True as soon as one came, within so long.
  bool comes_within(std::chrono::milliseconds wait) const {
    const Clock::time_point until = Clock::now() + wait;
    while (true) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
      pollfd one = {fd_.get(), POLLIN, 0};
      const int ready = poll(&one, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
      if (ready == 1) return true;
      if (Clock::now() >= until) return false;
    }
  }

 private:
  Fd fd_;
};

// One line when something fails otherwise than before, and one when it is well again.
class Trouble {
 public:
  explicit Trouble(const char* what) : what_(what) {}
  void tell(const std::string& error) {
    if (error == last_) return;
    if (error.empty()) {
      print(stderr, "controlctl: {} again\n", what_);
    } else {
      print(stderr, "controlctl: {}\n", error);
    }
    last_ = error;
  }

 private:
  const char* what_;
  std::string last_;
};

std::string skipped_text(const std::map<std::string, uint64_t>& skipped) {
  std::string text;
  for (const auto& [what, n] : skipped) text += fmt::format("{}{} of {}", text.empty() ? "" : ", ", count(n), what);
  return text;
}

class Bridge {
 public:
  Bridge(const Context& context, const Arguments& arguments, crowdsec::Access access)
      : context_(context),
        arguments_(arguments),
        api_(std::move(access)),
        ledger_(arguments.types),
        controld_(context.socket, kPatience_ms),
        list_(arguments.list) {}

  // Empty: it was told to end.
  std::optional<Round> round(const End& end);
  void show(const Round& round);

 private:
  // Empty error: the ledger is as CrowdSec says. False: told to end.
  bool ask(const End& end, std::string& error);
  Result<FollowedList::Limits> find_list();
  Result<void> follow(Round& round);

  const Context& context_;
  const Arguments& arguments_;
  crowdsec::LocalApi api_;
  crowdsec::Ledger ledger_;
  DynamicLists controld_;
  std::string list_;          // empty: nobody knows yet
  bool is_read_ = false;      // what the list has
  bool is_filled_ = false;    // the ledger, once
  bool wants_all_ = true;     // of CrowdSec
  Clock::time_point anew_{};  // when all is asked for again
  std::string told_skipped_;
  uint64_t told_no_room_ = 0;
  Trouble api_trouble_{"CrowdSec answers"}, controld_trouble_{"the list follows CrowdSec's decisions"};
};

bool Bridge::ask(const End& end, std::string& error) {
  if (Clock::now() >= anew_) {
    wants_all_ = true;
    is_read_ = false;
  }
  const bool for_all = std::exchange(wants_all_, true);
  const Result<std::optional<crowdsec::Decisions>> decisions = api_.ask(for_all, end.fd());
  if (!decisions) {
    error = "CrowdSec: " + decisions.error();
    // It may be another one meanwhile.
    if (arguments_.key_file.empty()) return true;
    if (const Result<std::string> key = crowdsec::read_key(arguments_.key_file)) api_.set_key(*key);
    return true;
  }
  if (!*decisions) return false;
  const int64_t now_ms = static_cast<int64_t>(unix_now_ns() / 1'000'000);
  for_all ? ledger_.take_all(**decisions, now_ms) : ledger_.take_news(**decisions, now_ms);
  if (for_all) anew_ = Clock::now() + kAnew;
  wants_all_ = false;
  is_filled_ = true;
  return true;
}

// The list as controld has it now. Error: it will not do.
Result<FollowedList::Limits> Bridge::find_list() {
  Request wanted{"list"};
  if (!list_.empty()) wanted.name = list_;
  const Result<ListAnswer> answer = controld_.ask<ListAnswer>(wanted);
  if (!answer) return Error{answer.error()};
  const ListDetails* found = nullptr;
  std::string names;
  size_t n = 0;
  for (const ListDetails& list : answer->lists) {
    if (!list.dynamic) continue;
    found = &list;
    n++;
    names += (names.empty() ? "" : ", ") + list.name;
  }
  if (n == 0 && list_.empty()) return Error{"no list of the policy has `dynamic: true`: write one, and reload"};
  if (n == 0) return Error{fmt::format("list {} is not dynamic: write `dynamic: true` in it, and reload", list_)};
  if (n > 1) return Error{"there are several dynamic lists: name one with --list: " + names};
  list_ = found->name;
  return FollowedList::Limits{found->dynamic->max_entries, found->dynamic->max_ttl};
}

// Makes the list like the ledger. It is read the first time, and after a failure. Error: what was done until then is in
// `round`.
Result<void> Bridge::follow(Round& round) {
  const Result<FollowedList::Limits> limits = find_list();
  if (!limits) return Error{limits.error()};
  FollowedList& list = ledger_.list();
  if (!std::exchange(is_read_, false)) {
    list.begin_list();
    const Result<void> read = controld_.each_added(list_, [&](const EntryDetails& entry) {
      list.has(entry.entry, entry.expires.value_or(kNever), entry.added->comment.starts_with(crowdsec::kCommentBegin));
    });
    if (!read) return read;
  }
  list.retry();
  list.look(unix_now(), *limits);
  round.no_room = list.counts().no_room;
  while (const std::optional<FollowedList::Batch> batch = list.next(unix_now())) {
    const DynamicLists::Outcome outcome = controld_.change(list_, *batch);
    if (outcome.how != DynamicLists::Outcome::How::done) {
      const bool is_refused = outcome.how == DynamicLists::Outcome::How::refused;
      if (is_refused && list.refused(*batch, outcome.why)) continue;
      return Error{outcome.why};
    }
    list.done(*batch);
    round.added += outcome.answer.counts.added;
    round.renewed += outcome.answer.counts.renewed;
    round.deleted += outcome.answer.counts.deleted;
    if (!outcome.answer.ok) round.has_all_acknowledged = false;
  }
  if (const auto refusals = list.take_refusals(); !refusals.empty()) return Error{refusals.front().reason};
  is_read_ = true;
  return {};
}

std::optional<Round> Bridge::round(const End& end) {
  Round round;
  if (!ask(end, round.api_error)) return std::nullopt;
  // CrowdSec does not answer: the list keeps its entries, renews them, and tries those again that controld refused.
  if (is_filled_) {
    if (const Result<void> done = follow(round); !done) round.controld_error = one_line(done.error());
  }
  const FollowedList::Counts counts = ledger_.list().counts();
  round.list = list_;
  round.entries = counts.claimed;
  round.elsewhere = counts.elsewhere;
  for (const auto& [what, n] : ledger_.skipped()) round.skipped += n;
  return round;
}

void Bridge::show(const Round& round) {
  api_trouble_.tell(round.api_error);
  controld_trouble_.tell(round.controld_error);
  const bool has_changed = round.added + round.renewed + round.deleted != 0;
  const bool has_failed = !round.api_error.empty() || !round.controld_error.empty();
  const std::string skipped = skipped_text(ledger_.skipped());
  const bool has_news = has_changed || arguments_.once || skipped != told_skipped_ || round.no_room != told_no_room_;
  if (context_.json && (has_news || has_failed)) {
    print("{}", write_json(round).line());
  } else if (!context_.json && !context_.quiet) {
    if (has_changed || (arguments_.once && !has_failed)) {
      print("list {}: {} added, {} renewed, {} deleted; CrowdSec's decisions are about {}{}\n", round.list,
            count(round.added), count(round.renewed), count(round.deleted),
            plural(round.entries, "address or prefix", "addresses and prefixes"),
            round.has_all_acknowledged ? "" : "; not every target has the changes yet");
    }
    if (skipped != told_skipped_ && !skipped.empty()) print("decisions that are not taken: {}\n", skipped);
  }
  if (round.no_room != told_no_room_ && round.no_room != 0) {
    print(stderr, "controlctl: list {} is full: {} not added; raise `max_entries` in the policy\n", round.list,
          plural(round.no_room, "entry is", "entries are"));
  }
  told_skipped_ = skipped;
  told_no_room_ = round.no_room;
  std::fflush(stdout);
}

int exit_code_of(const Round& round) {
  if (!round.api_error.empty()) return kUnreachable;
  if (!round.controld_error.empty()) return kFailed;
  return round.has_all_acknowledged ? kOk : kNotAcknowledged;
}

int wrong(const std::string& error) {
  print(stderr, "controlctl: {}\n", error);
  return kUsage;
}

}  // namespace cmd_crowdsec

int follow_crowdsec(const Context& context, CrowdsecArguments& arguments) {
  using namespace cmd_crowdsec;
  const std::optional<uint32_t> every_s = parse_duration(arguments.every);
  constexpr uint32_t kMostEvery_s = 3600;
  if (!every_s || *every_s > kMostEvery_s) {
    return wrong(fmt::format("--every is `{}`: it must be a time like 10s or 1m, an hour at most", arguments.every));
  }
  if (const Result<void> url = check_http_url(arguments.url); !url) return wrong("--url: " + url.error());
  crowdsec::Access access = {arguments.url, "", {arguments.ca_file, arguments.cert_file, arguments.cert_key_file}};
  if (!arguments.key_file.empty()) {
    const Result<std::string> key = crowdsec::read_key(arguments.key_file);
    if (!key) return wrong("--key-file: " + key.error());
    access.key = *key;
    struct stat file = {};
    if (stat(arguments.key_file.c_str(), &file) == 0 && (file.st_mode & S_IROTH) != 0) {
      print(stderr, "controlctl: warning: everybody can read {}: chmod 600 it\n", arguments.key_file);
    }
  }
  if (arguments.types.empty()) arguments.types = {"ban"};

  const End end;
  Bridge bridge(context, arguments, std::move(access));
  const std::chrono::seconds every(*every_s);
  for (std::chrono::seconds pause = every;;) {
    const std::optional<Round> round = bridge.round(end);
    if (!round) return kOk;
    bridge.show(*round);
    const int code = exit_code_of(*round);
    if (arguments.once) return code;
    const bool has_failed = !round->api_error.empty() || !round->controld_error.empty();
    if (end.comes_within(has_failed ? pause : every)) return kOk;
    pause = has_failed ? std::min(pause * 2, std::max(kMostPause, every)) : every;
  }
}

}  // namespace weir::control::ctl
