#include "control/daemon/explain.h"

#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "control/daemon/tell.h"
#include "control/tell/answer/standing.h"
#include "control/tell/answer/walk.h"

namespace weir::control {
namespace {

// While a policy is compiled the journal is not free: then who asks about now gets what there is.
constexpr std::chrono::milliseconds kPatience{200};
constexpr std::chrono::seconds kPastPatience{10};  // of who asks about the past

// What is asked about.
struct Question {
  std::optional<std::string> key;
  std::vector<uint8_t> frame;  // when there is no key
};

Result<Question> question_of(const Request& request) {
  if (request.frame && request.key) return Error{"explain takes a key or a frame, not both"};
  if (request.key) return Question{request.key, {}};
  if (!request.frame) return Error{"explain needs a key: an address, address:port, or a packet; or a frame"};
  Result<std::vector<uint8_t>> frame = parse_frame_text(*request.frame);
  if (!frame) return Error{frame.error()};
  return Question{std::nullopt, std::move(*frame)};
}

// tunnels: all that there are, when it is not known yet which are looked into.
Result<Addresses> addresses_of(const Question& question, uint8_t tunnels) {
  if (question.key) return control::addresses_of(*question.key);
  return control::addresses_of(packets_of(question.frame, tunnels));
}

Result<ExplainAnswer> explain_by(const Judge& judge, const Question& question, uint64_t now) {
  ExplainAnswer answer;
  if (!question.key) {
    answer.of_frame = walk(judge, question.frame, now);
  } else if (is_packet_text(*question.key)) {
    Result<PacketExplanation> of_packet = explain_packet(judge, *question.key, now);
    if (!of_packet) return Error{of_packet.error()};
    answer.of_packet = std::move(*of_packet);
  } else {
    Result<Explanation> of_key = explain(judge, *question.key, now);
    if (!of_key) return Error{of_key.error()};
    answer.of_key = std::move(*of_key);
  }
  return answer;
}

Result<ExplainAnswer> explain_by_running(Daemon& daemon, const Question& question) {
  const std::shared_ptr<const Running> held = daemon.running();
  const Running& running = *held;
  const Result<Enforcing> enforcing = enforcing_of(running);
  if (!enforcing) return Error{enforcing.error()};
  Result<ExplainAnswer> answer =
      explain_by(Judge(*enforcing, *running.book), question, static_cast<uint64_t>(unix_now()));
  if (!answer) return answer;
  answer->generation = running.publication->generation;
  answer->now = not_enforced(daemon.bypass_on(), target_statuses(daemon, answer->generation));
  return answer;
}

// By the snapshot where it is wanted and kept, else by the lists.
Result<ExplainAnswer> explain_by_then(const Then& then, const Question& question, bool is_verbose, Archive& archive,
                                      wire::Generation generation) {
  const Result<Store::Bytes> bytes =
      is_verbose ? archive.snapshot(generation) : Result<Store::Bytes>(Error{"it is not wanted"});
  const Result<filter::SnapshotView> snapshot =
      bytes ? filter::SnapshotView::open(bytes->bytes()) : Result<filter::SnapshotView>(Error{bytes.error()});
  const Judge judge = snapshot ? Judge(*snapshot, then.book)
                               : Judge(then.book, then.default_action, then.unparsed_action, then.tunnels);
  Result<ExplainAnswer> answer = explain_by(judge, question, static_cast<uint64_t>(then.at));
  if (!answer) return answer;
  answer->generation = generation;
  const bool is_known = then.record.uid != kNobody;
  answer->then = Moment{then.record.number, then.record.at, then.record.cause,
                        is_known ? std::optional(then.record.uid) : std::nullopt};
  if (is_verbose && !snapshot) {
    answer->notice = "of this generation no snapshot is kept: how its filters were asked is not known";
  }
  return answer;
}

// Every entry that the answer names.
std::vector<Origin*> origins_in(ExplainAnswer& answer) {
  std::vector<Origin*> all;
  const auto add = [&](std::vector<Origin>& origins) {
    for (Origin& origin : origins) all.push_back(&origin);
  };
  const auto add_of = [&](Verdict& verdict) {
    if (verdict.because) all.push_back(&*verdict.because);
  };
  if (answer.of_key) {
    add(answer.of_key->origins);
    add(answer.of_key->of_ports);
    add_of(answer.of_key->as_source);
    add_of(answer.of_key->as_destination);
  }
  if (answer.of_packet) {
    add(answer.of_packet->origins);
    add_of(answer.of_packet->verdict);
  }
  if (answer.of_frame) {
    add_of(answer.of_frame->verdict);
    for (LayerWalk& layer : answer.of_frame->layers) {
      add(layer.origins);
      add_of(layer.verdict);
    }
  }
  return all;
}

void answer_now(Daemon& daemon, Question question, const Caller& caller, ApiServer::Reply reply) {
  const std::shared_ptr<const Running> running = daemon.running();
  const Result<ExplainAnswer> known = explain_by_running(daemon, question);
  const Result<Addresses> addresses = addresses_of(question, WEIR_TUNNELS);
  if (!known || !addresses) return reply(failure_line(known ? addresses.error() : known.error()));
  auto answer = std::make_shared<ExplainAnswer>(*known);
  auto traced = std::make_shared<ExplainAnswer>(*known);
  const auto trace = [running, traced, addresses = *addresses](Archive& archive, const Result<Journal*>& journal,
                                                               const GivenUp& is_given_up) {
    if (!journal) {
      traced->notice = "where entries come from is not known: " + journal.error();
      return;
    }
    const wire::Generation generation = running->publication->generation;
    const Book& book = *running->book;
    const auto added = added_then(generation, running->base, book, book, addresses, **journal, is_given_up);
    if (is_given_up()) return;
    archive.trace(origins_in(*traced), book, added ? *added : std::vector<Added>(), generation, running->base,
                  addresses, **journal, is_given_up);
  };
  const auto tell = [answer, traced, reply = std::move(reply)](const Result<void>& is_done) {
    if (!is_done) answer->notice = "where entries come from is not told: controld is busy with lists. Ask again";
    reply(answer_line(is_done ? *traced : *answer));
  };
  daemon.with_archive(trace, caller.is_gone, Clock::now() + kPatience, tell);
}

void answer_then(Daemon& daemon, Question question, const Request& request, const Caller& caller,
                 ApiServer::Reply reply) {
  const Result<Addresses> addresses = addresses_of(question, WEIR_TUNNELS);
  if (!addresses) return reply(failure_line(addresses.error()));
  auto answer = std::make_shared<Result<ExplainAnswer>>(Error{"it was not asked"});
  const When when = {request.number, request.at};
  const auto look = [answer, question = std::move(question), when, is_verbose = request.verbose.value_or(false),
                     addresses = *addresses, running = daemon.running()](
                        Archive& archive, const Result<Journal*>& journal, const GivenUp& is_given_up) {
    if (!journal) return void(*answer = Error{journal.error()});
    const uint64_t epoch = running->publication->generation.epoch;
    const Result<Then> then = archive.find(when, addresses, *running->book, epoch, **journal, is_given_up);
    if (!then) return void(*answer = Error{then.error()});
    const wire::Generation generation = {epoch, then->record.number};
    *answer = explain_by_then(*then, question, is_verbose, archive, generation);
    if (!*answer || is_given_up()) return;
    archive.trace(origins_in(**answer), then->book, then->added, generation, then->record.base, addresses, **journal,
                  is_given_up);
  };
  const auto tell = [answer, reply = std::move(reply)](const Result<void>& is_done) {
    if (!is_done) return reply(failure_line("what was enforced then is not told: " + is_done.error()));
    reply(*answer ? answer_line(**answer) : failure_line(answer->error()));
  };
  daemon.with_archive(look, caller.is_gone, Clock::now() + kPastPatience, tell);
}

}  // namespace

Result<ExplainAnswer> explain_now(Daemon& daemon, const std::string& key) {
  return explain_by_running(daemon, {key, {}});
}

void answer_explain(Daemon& daemon, const Request& request, const Caller& caller, ApiServer::Reply reply) {
  Result<Question> question = question_of(request);
  if (!question) return reply(failure_line(question.error()));
  if (request.number || request.at) return answer_then(daemon, std::move(*question), request, caller, std::move(reply));
  answer_now(daemon, std::move(*question), caller, std::move(reply));
}

}  // namespace weir::control
