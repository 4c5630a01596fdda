#include "control/enforce/targets/target.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "common/files.h"
#include "common/log/log.h"
#include "common/peer_number.h"

namespace weir::control {

namespace {

using std::chrono::milliseconds;

constexpr int kLeastPauseMs = 10;  // then twice as long each time that a connection ends as soon as it is made

std::string reason_of(const wire::PublishedBody& answer) {
  return fmt::format("refused in step {}: {}", wire::step_name(answer.failed_step),
                     std::string_view(answer.reason, strnlen(answer.reason, sizeof answer.reason)));
}

// Steps that fail for want of memory, descriptors or time.
bool may_pass(wire::Step step) {
  return step == wire::Step::receive || step == wire::Step::map || step == wire::Step::copy ||
         step == wire::Step::grace;
}

}  // namespace

TargetLink::TargetLink(Loop& loop, TargetSpec spec, Surroundings surroundings, TargetTimes times)
    : loop_(loop),
      spec_(std::move(spec)),
      traits_(traits_of(spec_.kind)),
      surroundings_(std::move(surroundings)),
      times_(times),
      mailbox_(loop) {
  state_.socket = spec_.name;
  state_.has_interfaces = traits_.has_interfaces;
  state_.last_error = "not reached yet";
  wake_ = loop_.timer(Clock::now(), [this] { reach(); });
}

void TargetLink::publish(std::shared_ptr<const Publication> publication, bool allow_older) {
  wanted_ = std::move(publication);
  allow_older_ = allow_older;
  wanted_is_news_ = true;
  next();
}

bool TargetLink::is_settled(wire::Generation generation) const {
  // A refusal is an answer too: nobody waits for what will not come.
  return has(generation) || (state_.connected && !wanted_is_news_ && !state_.publishing);
}

void TargetLink::stop() {
  stopped_ = true;
  drop("stopped");
}

void TargetLink::take_bypass(bool on) {
  if (!state_.status) return;
  state_.status->bypass = on ? 1 : 0;
  bypass_is_older_ = asked_.has_value();
  tell_change();
}

uint64_t TargetLink::ask_anew(Fresh& fresh) {
  const uint64_t ticket = ++fresh.asked;
  next();
  return ticket;
}

// Reaches the target and asks what it enforces.
void TargetLink::reach() {
  const uint64_t attempt = ++connections_;
  surroundings_.connect([this, attempt, alive = mailbox_.token()](Result<Fd> connection) {
    if (*alive && attempt == connections_) take_connection(std::move(connection));
  });
}

void TargetLink::take_connection(Result<Fd> connection) {
  if (!connection) return drop(connection.error());
  connection_ = std::move(*connection);
  if (fcntl(connection_.get(), F_SETFL, O_NONBLOCK) != 0) return drop("its connection cannot be set up");
  readable_ = loop_.io(connection_.get(), EPOLLIN, [this](uint32_t) { receive(); });
  if (!readable_) return drop(errno_error("its connection cannot be watched").message);
  ask_status();
}

// What is most urgent. A publication takes its time; other requests are answered meanwhile.
void TargetLink::next() {
  if (!connection_ || !state_.connected) return;
  if (wanted_is_news_ && !greeting_ && !asked_to_enforce_) send_publication();
  if (connection_ && !greeting_ && !asked_to_enforce_ && is_shadow_due()) send_shadow();
  if (!connection_ || asked_) return;
  const Clock::time_point now = Clock::now();
  if (status_.wanted()) {
    ask_status();
  } else if (stats_.wanted()) {
    ask_for_stats();
  } else if (telemetry_.wanted()) {
    ask_for_telemetry();
  } else if (is_traffic_wanted()) {
    ask_for_traffic();
  } else if (judges_by_shadow() && (shadow_.wanted() || now >= shadow_due_)) {
    ask_for_shadow();
  } else if (now >= status_due_) {
    ask_status();
  } else if (surroundings_.probed && now >= probes_due_) {
    ask_for_probes();
  } else {
    const Clock::time_point due = surroundings_.probed ? std::min(status_due_, probes_due_) : status_due_;
    wake_ = loop_.timer(due, [this] { next(); });
  }
}

void TargetLink::ask(wire::Type type, std::span<const std::byte> body, Take take) {
  if (std::optional<Asked> asked = send(type, body, {}, times_.answer, std::move(take))) asked_ = std::move(asked);
}

std::optional<TargetLink::Asked> TargetLink::send(wire::Type type, std::span<const std::byte> body, Descriptors with,
                                                  int timeout_ms, Take take) {
  const uint32_t sequence = wire::next_sequence();
  const Result<void> sent = wire::send(connection_.get(), type, sequence, body, with.snapshot, with.base);
  if (!sent) return drop(sent.error()), std::nullopt;
  return Asked{type, sequence, std::move(take), loop_.timer(Clock::now() + milliseconds(timeout_ms), [this] {
                 drop("no message from the peer in time");
               })};
}

void TargetLink::receive() {
  if (!asked_ && !asked_to_enforce_) return drop("closed by the target");  // it never speaks unasked
  Result<wire::Message> message = wire::receive(connection_.get());
  if (!message) return drop(message.error());
  const bool is_of_publication =
      asked_to_enforce_ && (!asked_ || message->header.sequence == asked_to_enforce_->sequence);
  const Asked asked = std::move(*std::exchange(is_of_publication ? asked_to_enforce_ : asked_, std::nullopt));
  const Result<wire::Message> answer = wire::answer_to(asked.type, asked.sequence, std::move(message));
  if (!answer) return drop(answer.error());
  asked.take(*answer);
  next();
}

void TargetLink::send_publication() {
  const std::shared_ptr<const Publication> publication = wanted_;
  wanted_is_news_ = false;
  again_.reset();
  const wire::StatusBody& now = *state_.status;
  if (now.generation == publication->generation &&
      std::equal(publication->digest.begin(), publication->digest.end(), now.digest)) {  // it came back with it
    state_.acknowledged = publication->generation;
    state_.acknowledged_at = Clock::now();
    state_.last_error.clear();
    return tell_change();
  }
  state_.publishing = true;
  tell_change();
  wire::PublishBody body;
  body.generation = publication->generation;
  body.digest[0] = publication->digest[0];
  body.digest[1] = publication->digest[1];
  body.size_bytes = publication->size_bytes;
  body.allow_older = allow_older_ ? 1 : 0;
  Descriptors with = {publication->snapshot.get()};
  if (const Publication* base = publication->base.get()) {
    body.base = base->generation;
    std::copy(base->digest.begin(), base->digest.end(), body.base_digest);
    const bool has_base = now.base == base->generation &&
                          std::equal(base->digest.begin(), base->digest.end(), now.base_digest) && !needs_base_;
    if (!has_base) with.base = base->snapshot.get();
  }
  asked_to_enforce_ = send(wire::Type::publish, wire::bytes_of(body), with, times_.publish,
                           [this, publication](const wire::Message& message) { take_answer(*publication, message); });
}

void TargetLink::take_answer(const Publication& publication, const wire::Message& message) {
  const std::optional<wire::PublishedBody> answer = wire::body_as<wire::PublishedBody>(message);
  if (!answer) return drop("its answer to a publication has a wrong size");
  state_.publishing = false;
  generation_is_older_ = asked_.has_value();
  state_.answer = answer;
  state_.status->generation = answer->generation;
  status_due_ = Clock::now();  // the snapshot's size changed
  const bool had_base = std::exchange(needs_base_, answer->needs_base != 0);
  if (needs_base_ && !had_base &&
      publication.base != nullptr) {  // it is not what its status said: once more, with the base
    wanted_is_news_ = true;
    return tell_change();
  }
  if (answer->ok == 0 || answer->generation != publication.generation) {
    take_refusal(publication, *answer);
    return tell_change();
  }
  const std::string remark = wire::get_text(answer->reason);
  state_.acknowledged = publication.generation;
  state_.acknowledged_at = Clock::now();
  state_.last_error.clear();
  const Publication& base = publication.base != nullptr ? *publication.base : publication;
  std::copy(publication.digest.begin(), publication.digest.end(), state_.status->digest);
  state_.status->base = base.generation;
  std::copy(base.digest.begin(), base.digest.end(), state_.status->base_digest);
  state_.status->snapshot_durable = answer->durable;
  if (answer->durable == 0) wire::set_text(state_.status->disk_error, remark);
  log::change("target enforces", {{"target", name()},
                                  {"generation", answer->generation.number},
                                  {"took", log::milliseconds(answer->total_us / 1000.0)}});
  if (!remark.empty() && answer->durable != 0) log::warning("target remarks", {{"target", name()}, {"text", remark}});
  if (answer->durable == 0) {
    log::warning("target enforces it, and not durably", {{"target", name()}, {"error", remark}});
  }
  tell_change();
}

void TargetLink::take_refusal(const Publication& publication, const wire::PublishedBody& answer) {
  const wire::Generation &told = answer.generation, &ours = publication.generation;
  const bool is_ahead = told.epoch == ours.epoch && told.number >= ours.number;
  std::string error = reason_of(answer);
  if (is_ahead && !is_possible(told.number, ours.number)) {
    error += fmt::format("; it tells generation {} of this controld's epoch, which is not possible: the newest is {}",
                         told.number, ours.number);
  }
  set_error("target refuses what is published", error);
  if (may_pass(answer.failed_step)) {
    again_ = loop_.timer(Clock::now() + milliseconds(times_.try_again), [this] {
      wanted_is_news_ = true;
      next();
    });
  }
  if (is_ahead && is_possible(told.number, ours.number) && surroundings_.is_ahead) surroundings_.is_ahead(told);
}

void TargetLink::shadow(std::shared_ptr<const ShadowCandidate> candidate) {
  if (candidate == candidate_) return;
  candidate_ = std::move(candidate);
  shadow_refused_ = false;
  shadow_again_.reset();
  shadow_due_ = {};
  if (candidate_ != nullptr) state_.shadow.reset();
  state_.shadow_error.clear();
  next();
}

// What its status says is not what it should.
bool TargetLink::is_shadow_due() const {
  if (shadow_refused_ || !state_.status) return false;
  const wire::Generation wanted = candidate_ != nullptr ? candidate_->publication->generation : wire::Generation();
  return state_.status->shadow != wanted;
}

bool TargetLink::is_shadow_settled() const {
  return shadow_refused_ || (state_.connected && !is_shadow_due());
}

bool TargetLink::judges_by_shadow() const {
  return candidate_ != nullptr && state_.connected && state_.status->shadow == candidate_->publication->generation;
}

void TargetLink::send_shadow() {
  const std::shared_ptr<const ShadowCandidate> candidate = candidate_;
  wire::ShadowRequest request;
  request.action = candidate != nullptr ? wire::ShadowAction::begin : wire::ShadowAction::end;
  Descriptors with;
  if (candidate != nullptr) {
    const Publication& publication = *candidate->publication;
    request.one_in = candidate->one_in;
    request.candidate = publication.generation;
    std::copy(publication.digest.begin(), publication.digest.end(), request.digest);
    request.size_bytes = publication.size_bytes;
    with.snapshot = publication.snapshot.get();
  }
  asked_to_enforce_ = send(wire::Type::shadow, wire::bytes_of(request), with, times_.publish,
                           [this, candidate](const wire::Message& message) { take_shadow(message, candidate); });
}

void TargetLink::ask_for_shadow() {
  shadow_due_ = Clock::now() + milliseconds(times_.refresh);
  ask(wire::Type::shadow, wire::bytes_of(wire::ShadowRequest()),
      [this, candidate = candidate_, ticket = shadow_.asked](const wire::Message& message) {
        shadow_.answered = ticket;
        take_shadow(message, candidate);
      });
}

// asked_for: the candidate when it was asked.
void TargetLink::take_shadow(const wire::Message& message, const std::shared_ptr<const ShadowCandidate>& asked_for) {
  std::optional<wire::Shadow> told = wire::shadow_from(message);
  if (!told) return drop("what it tells of its shadow cannot be understood");
  const wire::ShadowBody& body = told->body;
  state_.status->shadow = body.on != 0 ? body.candidate : wire::Generation();
  shadow_is_older_ = asked_.has_value();
  if (asked_for != candidate_) return tell_change();
  const bool is_its = asked_for != nullptr && body.candidate == asked_for->publication->generation;
  if (body.ok == 0 || (is_its && body.on == 0)) {  // refused, or it has ended by itself: it would again
    const std::string reason = wire::get_text(body.reason);
    shadow_refused_ = true;
    state_.shadow_error =
        body.ok == 0 ? fmt::format("refused in step {}: {}", wire::step_name(body.failed_step), reason) : reason;
    log::warning("target does not judge by the candidate", {{"target", name()}, {"error", state_.shadow_error}});
    if (body.ok == 0 && may_pass(body.failed_step)) {
      shadow_again_ = loop_.timer(Clock::now() + milliseconds(times_.try_again), [this] {
        shadow_refused_ = false;
        next();
      });
    }
  }
  if (is_its) {
    if (surroundings_.shadow_told) surroundings_.shadow_told(*told);
    told->samples.clear();
    state_.shadow = std::move(told);
  }
  tell_change();
}

void TargetLink::take_status(const wire::Message& message) {
  std::optional<wire::StatusBody> status = wire::body_as<wire::StatusBody>(message);
  if (!status) return drop("its status has a wrong size");
  status->version[sizeof status->version - 1] = '\0';
  status->isa[sizeof status->isa - 1] = '\0';
  if (std::exchange(generation_is_older_, false) && state_.status) {
    status->generation = state_.status->generation;
    std::copy(std::begin(state_.status->digest), std::end(state_.status->digest), status->digest);
    status->base = state_.status->base;
    std::copy(std::begin(state_.status->base_digest), std::end(state_.status->base_digest), status->base_digest);
    status->snapshot_durable = state_.status->snapshot_durable;
  }
  // While a publication is on its way either may be enforced.
  if (!state_.publishing && state_.acknowledged.epoch != 0 && status->generation != state_.acknowledged) {
    state_.acknowledged = {};
    // While connected: somebody else published to it. Not fought over, the next reload brings ours again.
    if (state_.connected) {
      set_error("target enforces something else",
                fmt::format("enforces generation {} of epoch {:016x}, which is not ours", status->generation.number,
                            status->generation.epoch));
    }
  }
  if (std::exchange(shadow_is_older_, false) && state_.status) status->shadow = state_.status->shadow;
  if (std::exchange(bypass_is_older_, false) && state_.status) status->bypass = state_.status->bypass;
  const bool is_switched = state_.connected && state_.status && status->bypass != state_.status->bypass;
  if (is_switched) {
    log::change(status->bypass != 0 ? "bypass is ON: everything passes" : "bypass is off",
                {{"target", name()}, {"cause", "another's order"}});
  }
  state_.status = status;
  if (is_switched && surroundings_.bypass_changed) surroundings_.bypass_changed();
  status_.answered = asked_for_status_;
  is_traffic_due_ = true;
  status_due_ = Clock::now() + milliseconds(times_.refresh);
  if (!state_.connected) {
    state_.last_error.clear();
    state_.connected = state_.is_tried = true;
    connected_at_ = Clock::now();
    log::notice(
        "target connected",
        {{"target", name()}, {"version", state_.status->version}, {"generation", state_.status->generation.number}});
    greeting_ = surroundings_.greet != nullptr;
    if (greeting_) {
      surroundings_.greet(state_.status->bypass != 0, mailbox_.guarded([this, greeted = connections_] {
        if (greeted != connections_) return;
        greeting_ = false;
        next();
      }));
    }
  }
  tell_change();
}

void TargetLink::drop(const std::string& error) {
  const bool was_connected = state_.connected;
  readable_.reset();
  connection_.reset();
  asked_.reset();
  asked_to_enforce_.reset();
  again_.reset();
  shadow_again_.reset();
  greeting_ = false;
  bypass_is_older_ = generation_is_older_ = shadow_is_older_ = shadow_refused_ = false;
  state_.connected = false;
  if (was_connected) away_since_ = Clock::now();
  state_.publishing = false;
  wanted_is_news_ = wanted_ != nullptr;  // tried again on the next connection
  if (stopped_) {
    wake_.reset();
    connections_++;  // one that is being made comes too late
    return tell_change();
  }
  state_.is_tried = true;
  set_error(was_connected ? "target lost" : "target not reached", error);
  if (surroundings_.lost) surroundings_.lost(error);
  tell_change();
  const Clock::time_point now = Clock::now();
  const bool was_brief = now - connected_at_ < milliseconds(times_.retry);
  pause_ms_ = was_brief ? std::min(std::max(2 * pause_ms_, kLeastPauseMs), times_.retry) : 0;
  wake_ = loop_.timer(now + milliseconds(was_connected ? pause_ms_ : times_.retry), [this] { reach(); });
}

void TargetLink::set_error(const char* event, const std::string& error) {
  if (error == state_.last_error) return;  // 5 attempts a second would fill the log
  state_.last_error = error;
  log::warning(event, {{"target", name()}, {"error", error}});
}

void TargetLink::tell_change() {
  if (surroundings_.changed) surroundings_.changed();
}

}  // namespace weir::control
