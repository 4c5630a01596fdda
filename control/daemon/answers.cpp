#include "control/daemon/answers.h"

#include <fmt/format.h>

#include <charconv>
#include <type_traits>

#include "common/log/log.h"
#include "control/daemon/daemon.h"
#include "control/daemon/economics.h"
#include "control/daemon/entries.h"
#include "control/daemon/explain.h"
#include "control/daemon/panic.h"
#include "control/daemon/tell.h"
#include "control/tell/answer/change.h"
#include "control/tell/answer/drops.h"
#include "control/tell/answer/request.h"

namespace weir::control {

namespace {

// A target that is busy with a publication answers after it; one that hangs must not hold the API for longer.
constexpr std::chrono::milliseconds kFreshWait{1000};
constexpr std::chrono::milliseconds kStatusWait{200};

using Reply = ApiServer::Reply;

void reload(Daemon& daemon, const Request& request, const Caller& caller, Reply reply) {
  constexpr uint32_t kMostConfirm_s = 86400;
  if (request.confirm && (*request.confirm == 0 || *request.confirm > kMostConfirm_s)) {
    return reply(
        failure_line(fmt::format("confirm is {}: it must be 1 to {} seconds", *request.confirm, kMostConfirm_s)));
  }
  daemon.reload(
      [reply = std::move(reply)](const std::shared_ptr<const ReloadAnswer>& answer) { reply(answer_line(*answer)); },
      {caller.uid, caller.pid, request.confirm.value_or(0), {}, request.force.value_or(false)});
}

void plan(Daemon& daemon, const Request& request, const Caller&, Reply reply) {
  const bool has_feed = request.file.has_value() || request.url.has_value();
  if (has_feed != request.name.has_value() || (request.file && request.url)) {
    return reply(failure_line("plan needs a list together with a file or an url: what is read instead of its feed"));
  }
  Daemon::Candidate candidate = {request.policy, request.path.value_or(""), {}, {}};
  if (request.file) candidate.instead[*request.name] = *request.file;
  if (request.url) candidate.fetched[*request.name] = *request.url;
  daemon.plan(std::move(candidate),
              [reply = std::move(reply)](const PlanAnswer& answer) { reply(answer_line(answer)); });
}

void confirm(Daemon& daemon, const Request&, const Caller&, Reply reply) {
  daemon.confirm([reply = std::move(reply)](const Result<wire::Generation>& stays) {
    reply(stays ? answer_line(ConfirmAnswer{true, *stays}) : failure_line(stays.error()));
  });
}

void rollback(Daemon& daemon, const Request& request, const Caller& caller, Reply reply) {
  if (!request.number) return reply(failure_line("rollback needs the number of a generation: history names them"));
  daemon.rollback(
      *request.number, {caller.uid, caller.pid, 0, {}},
      [reply = std::move(reply)](const std::shared_ptr<const ReloadAnswer>& answer) { reply(answer_line(*answer)); });
}

// A reload, too.
void rebuild(Daemon& daemon, const Request&, const Caller& caller, Reply reply) {
  daemon.rebuild(
      {caller.uid, caller.pid, 0, {}},
      [reply = std::move(reply)](const std::shared_ptr<const ReloadAnswer>& answer) { reply(answer_line(*answer)); });
}

void history(Daemon& daemon, const Request&, const Caller&, Reply reply) {
  daemon.history(HistoryAnswer::kMost, [&daemon, reply = std::move(reply)](const auto& past) {
    if (!past) return reply(failure_line(past.error()));
    reply(answer_line(history_answer(daemon, *past)));
  });
}

// A reload, too.
void accept(Daemon& daemon, const Request& request, const Caller& caller, Reply reply) {
  const Result<void> asked =
      daemon.accept_feed(request.name.value_or(""), {caller.uid, caller.pid, 0, {}},
                         [reply](const std::shared_ptr<const ReloadAnswer>& answer) { reply(answer_line(*answer)); });
  if (!asked) reply(failure_line(asked.error()));
}

// Part of a change that could not be made has nothing to tell but why.
void change(Daemon& daemon, const Request& request, const Caller& caller, Reply reply) {
  Change change;
  change.verb = request.command == "add"   ? Change::Verb::add
                : request.command == "del" ? Change::Verb::del
                                           : Change::Verb::flush;
  change.list = request.name.value_or("");
  if (request.action) {
    if (*request.action != "drop" && *request.action != "pass") {
      return reply(failure_line(fmt::format("action is `{}`: it must be drop or pass", *request.action)));
    }
    change.action = *request.action == "pass" ? WEIR_PASS : WEIR_DROP;
  }
  change.entries = request.entries;
  change.ttl_s = request.ttl;
  change.comment = request.comment.value_or("");
  change.ttls = request.ttls;
  change.comments = request.comments;
  change.uid = caller.uid;
  change.pid = caller.pid;
  daemon.change(std::move(change), [reply = std::move(reply)](const ChangeAnswer& answer) {
    const bool is_made = answer.generation.number != 0;
    reply(is_made ? answer_line(answer) : failure_line(answer.error));
  });
}

std::string feeds(Daemon& daemon) {
  return answer_line(feeds_answer(daemon));
}

// Answered when it is there, with all feeds.
void fetch(Daemon& daemon, const Request& request, const Caller&, Reply reply) {
  const std::string name = request.name.value_or("");
  const Result<void> asked = daemon.fetch_feed(name, [&daemon, name, reply](const std::string& error) {
    reply(error.empty() ? feeds(daemon) : failure_line(fmt::format("feed of {}: not fetched: {}", name, error)));
  });
  if (!asked) reply(failure_line(asked.error()));
}

// Asked now: what was switched, detached or unplugged a moment ago is told as it is. A target that does not answer
// counts with what it told last.
void status(Daemon& daemon, const Request&, const Caller&, Reply reply) {
  daemon.refresh(
      Daemon::Counters::status, Clock::now() + kStatusWait,
      [&daemon, reply = std::move(reply)](const Daemon::Refreshed&) { reply(answer_line(status_answer(daemon))); });
}

// The counters of every target, asked now, and their sums. A target that does not answer in time counts with what it
// told last; its own line says so ("fresh": false).
void stats(Daemon& daemon, const Request&, const Caller&, Reply reply) {
  daemon.refresh(Daemon::Counters::stats, Clock::now() + kFreshWait,
                 [&daemon, reply](const Daemon::Refreshed& all) { reply(answer_line(stats_answer(daemon, all))); });
}

// The counters of every target and what its workers and ports measure, asked now, as they were told.
void telemetry(Daemon& daemon, const Request&, const Caller&, Reply reply) {
  daemon.refresh(Daemon::Counters::stats_and_telemetry, Clock::now() + kFreshWait,
                 [&daemon, reply](const Daemon::Refreshed& all) { reply(answer_line(telemetry_answer(daemon, all))); });
}

std::string shapes(Daemon& daemon) {
  return answer_line(shapes_answer(daemon));
}

std::string capture(Daemon& daemon) {
  return answer_line(daemon.capture());
}

// A place in the log of drops is the text ID-NUMBER: of a controld, and of the drop. Error: it is no such text.
Result<uint64_t> number_in(const std::string& after, const std::string& id) {
  const size_t hyphen = after.find('-');
  uint64_t number = 0;
  const char* end = after.data() + after.size();
  const char* digits = hyphen == std::string::npos ? end : after.data() + hyphen + 1;
  const auto [read_to, failure] = std::from_chars(digits, end, number);
  if (failure != std::errc{} || read_to != end)
    return Error{fmt::format("after is '{}': it must be `next` of an answer, or now", after)};
  return after.substr(0, hyphen) == id ? number : 0;  // of a controld before this one: all is new
}

void drops(Daemon& daemon, const Request& request, const Caller&, Reply reply) {
  constexpr size_t kMost = 500;  // lines of a page: some hundred kilobytes
  const DropLog& log = daemon.samples().log();
  const std::string after = request.after.value_or("");
  const Result<uint64_t> number = after.empty()    ? Result<uint64_t>(log.added() - log.size())
                                  : after == "now" ? Result<uint64_t>(log.added())
                                                   : number_in(after, log.id());
  if (!number) return reply(failure_line(number.error()));
  Result<FrameFilter> filter = FrameFilter::of_program(request.filter.value_or(""));
  if (!filter) return reply(failure_line(filter.error()));
  auto wanted = std::make_shared<DropLog::Wanted>(DropLog::Wanted{request.name.value_or(""), std::move(*filter)});
  daemon.read_drops(*number, request.follow.value_or(false),
                    [&daemon, from = *number, wanted = std::move(wanted), reply = std::move(reply)] {
                      reply(answer_line(drops_answer(daemon, daemon.samples().log().page(from, *wanted, kMost))));
                    });
}

std::string list(Daemon& daemon, const Request& request) {
  const std::string name = request.name.value_or("");
  const ListAnswer answer = list_answer(daemon, name);
  if (!name.empty() && answer.lists.empty()) return failure_line(fmt::format("no list is called '{}'", name));
  return answer_line(answer);
}

std::string bypass_line(const PanicSwitch::Report& report) {
  BypassAnswer answer;
  answer.bypass = report.on;
  BypassAnswer::Told told{true, report.targets};
  for (const TargetOutcome& one : report.targets) told.ok = told.ok && one.acknowledged;
  if (!told.ok) answer.error = "not every target confirmed";
  if (!report.remembered) {
    told.ok = false;
    answer.error = "controld would not remember it after a restart: " + report.remembered.error();
  }
  answer.told = std::move(told);
  return answer_line(answer);
}

constexpr const char* kOnOrOff = "bypass needs on: true or false";

void bypass(Daemon& daemon, const Request& request, const Caller&, Reply reply) {
  if (!request.on) return reply(failure_line(kOnOrOff));
  daemon.bypass(*request.on,
                [reply = std::move(reply)](const PanicSwitch::Report& report) { reply(bypass_line(report)); });
}

std::string detach_line(const XdpPlane::Names& off) {
  return off ? answer_line(DetachAnswer{true, true, *off}) : failure_line(off.error());
}

void detach(Daemon& daemon, const Request& request, const Caller&, Reply reply) {
  daemon.detach(request.interface.value_or(""),
                [reply = std::move(reply)](const XdpPlane::Names& off) { reply(detach_line(off)); });
}

// Asked of every target now.
void shadow(Daemon& daemon, const Request&, const Caller&, Reply reply) {
  daemon.shadow().refresh(Clock::now() + kFreshWait,
                          [&daemon, reply = std::move(reply)] { reply(answer_line(shadow_answer(daemon))); });
}

// A candidate that does not compile has its diagnostics to tell; what judged before goes on.
void shadow_begin(Daemon& daemon, const Request& request, const Caller& caller, Reply reply) {
  if (!request.path || !request.policy) return reply(failure_line("a shadow needs the path of a policy, and its text"));
  const uint32_t one_in = request.one_in.value_or(1);
  if (one_in == 0 || one_in > wire::kMostShadowOneIn) {
    return reply(failure_line(fmt::format("one_in is {}: it must be 1 to {}", one_in, wire::kMostShadowOneIn)));
  }
  daemon.shadow().begin({*request.path, *request.policy, one_in, caller.uid, caller.pid},
                        [&daemon, reply = std::move(reply)](const std::shared_ptr<const Shadow::Report>& report) {
                          if (report->has_begun) return reply(answer_line(shadow_answer(daemon)));
                          ShadowAnswer answer;
                          answer.ok = false;
                          answer.diagnostics = report->diagnostics;
                          answer.error = report->error;
                          reply(answer_line(answer));
                        });
}

void shadow_end(Daemon& daemon, const Request&, const Caller&, Reply reply) {
  if (!daemon.shadow().is_on()) return reply(failure_line("there is no shadow to discard"));
  daemon.shadow().refresh(Clock::now() + kFreshWait, [&daemon, reply = std::move(reply)] {  // its last counts
    daemon.shadow().end("discarded", [&daemon, reply] { reply(answer_line(shadow_answer(daemon))); });
  });
}

void shadow_promote(Daemon& daemon, const Request&, const Caller& caller, Reply reply) {
  const std::shared_ptr<const Shadowing> shadow = daemon.shadow().latest();
  const std::string judged = shadow != nullptr ? digest_text(shadow->base->publication->digest) : "";
  daemon.promote_shadow({caller.uid, caller.pid, 0, {}},
                        [&daemon, judged, reply = std::move(reply)](const std::shared_ptr<const ReloadAnswer>& answer) {
                          reply(answer_line(promote_answer(daemon, *answer, judged)));
                        });
}

// An answer that is there at once.
template <auto make>
void at_once(Daemon& daemon, const Request& request, const Caller&, Reply reply) {
  if constexpr (std::is_invocable_v<decltype(make), Daemon&>) {
    reply(make(daemon));
  } else {
    reply(make(daemon, request));
  }
}

enum class Access { look, change };      // who may only look may not change
enum class Needs { nothing, a_policy };  // that was compiled, or the last good

struct Command {
  const char* name;
  Access access;
  void (*run)(Daemon&, const Request&, const Caller&, Reply);
  Needs needs = Needs::a_policy;
};
constexpr Command kCommands[] = {
    {"reload", Access::change, reload, Needs::nothing},
    {"status", Access::look, status, Needs::nothing},
    {"explain", Access::look, answer_explain},
    {"shapes", Access::look, at_once<shapes>},
    {"stats", Access::look, stats},
    {"list", Access::look, at_once<list>},
    {"lists", Access::look, answer_lists},
    {"recommend", Access::look, answer_recommend},
    {"feeds", Access::look, at_once<feeds>},
    {"accept", Access::change, accept},
    {"fetch", Access::change, fetch},
    {"bypass", Access::change, bypass, Needs::nothing},
    {"telemetry", Access::look, telemetry},
    {"capture", Access::look, at_once<capture>, Needs::nothing},
    {"detach", Access::change, detach, Needs::nothing},
    {"confirm", Access::change, confirm},
    {"plan", Access::change, plan},
    {"history", Access::look, history},
    {"rollback", Access::change, rollback},
    {"rebuild", Access::change, rebuild},
    {"entries", Access::look, answer_entries},
    {"export", Access::look, answer_export},
    {"shadow", Access::look, shadow},
    {"shadow-begin", Access::change, shadow_begin},
    {"shadow-promote", Access::change, shadow_promote},
    {"shadow-discard", Access::change, shadow_end},
    {"add", Access::change, change, Needs::nothing},
    {"del", Access::change, change, Needs::nothing},
    {"flush", Access::change, change, Needs::nothing},
    {"drops", Access::look, drops, Needs::nothing},
};

using Log = std::function<void(log::Event event)>;

bool is_panic_order(const Request& request) {
  return request.command == "bypass" || request.command == "detach";
}

// Before it is done. Empty: it may be done; else why not.
std::string permit_change(const Request& request, const Caller& caller, const Log& log) {
  if (!caller.may_change) {
    return fmt::format(
        "user {} may look, and not change anything: {} is for root, the user of controld and the members of "
        "--admin-group (an administrator adds one: adduser NAME {})",
        caller.uid, request.command, kAdminGroup);
  }
  std::string what = request.command;
  if (request.on) what += *request.on ? " on" : " off";
  if (request.interface) what += " " + *request.interface;
  if (request.name) what += " " + *request.name;
  // Orders of the panic switch are never left out; of changes, publications tell who and why.
  const bool is_order = is_panic_order(request);
  log({is_order ? log::Level::notice : log::Level::info,
       "asked for",
       {{"command", what}, {"user", caller.uid}, {"process", caller.pid}},
       !is_order});
  return "";
}

Result<Request> request_of(const std::string& line) {
  const Result<Document> document = Document::parse(line);
  if (!document) return Error{"a request is one JSON object on one line"};
  Result<Request> request = read_json<Request>(*document);
  if (!request) return Error{"request not understood: " + request.error()};
  return request;
}

}  // namespace

void answer(Daemon& daemon, const std::string& line, const Caller& caller, Reply reply) {
  const Result<Request> request = request_of(line);
  if (!request) return reply(failure_line(request.error()));
  log::debug("API", {{"command", request->command}});
  std::string known;
  for (const Command& command : kCommands) {
    if (request->command == command.name) {
      const std::string refused = command.access == Access::change ? permit_change(*request, caller, log::write) : "";
      if (!refused.empty()) return reply(failure_line(refused));
      // Nobody would answer what waits for a thread; the panic switch has its own.
      if (daemon.is_stopping() && !is_panic_order(*request)) return reply(failure_line("controld stops"));
      if (command.needs == Needs::a_policy && daemon.running() == nullptr) {
        return reply(failure_line("controld compiles the first policy: there is nothing to tell of yet"));
      }
      return command.run(daemon, *request, caller, std::move(reply));
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", command.name);
  }
  reply(failure_line(fmt::format("unknown command '{}'; known: {}", request->command, known)));
}

void answer_panic(PanicSwitch& panic, const std::string& line, const Caller& caller, Reply reply) {
  const Result<Request> request = request_of(line);
  if (!request) return reply(failure_line(request.error()));
  panic.log({log::Level::debug, "API of the panic switch", {{"command", request->command}}});
  if (!is_panic_order(*request)) {
    return reply(
        failure_line(fmt::format("unknown command '{}'; this socket knows: bypass, detach", request->command)));
  }
  const bool is_bypass = request->command == "bypass";
  if (is_bypass && !request->on) return reply(failure_line(kOnOrOff));
  const auto write = [&](log::Event event) { panic.log(std::move(event)); };
  if (const std::string refused = permit_change(*request, caller, write); !refused.empty()) {
    return reply(failure_line(refused));
  }
  if (!is_bypass) {
    return panic.detach(request->interface.value_or(""),
                        [reply = std::move(reply)](const XdpPlane::Names& off) { reply(detach_line(off)); });
  }
  panic.order(*request->on,
              [reply = std::move(reply)](const PanicSwitch::Report& report) { reply(bypass_line(report)); });
}

}  // namespace weir::control
