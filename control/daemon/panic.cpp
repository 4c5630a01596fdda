#include "control/daemon/panic.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "common/files.h"
#include "common/log/log.h"
#include "common/thread.h"

namespace weir::control {

namespace {

constexpr std::chrono::seconds kRememberAgain{1};
// An attempt may fail for want of a descriptor, say, and the next one succeed.
constexpr std::chrono::milliseconds kReach{20};
constexpr std::chrono::milliseconds kDiskAnswers{300};
constexpr int kLeastPauseMs = 10;  // then twice as long each time: what refuses an order may be over at once

Fd spare_descriptor() {
  return Fd(eventfd(0, EFD_CLOEXEC));
}
}  // namespace

Result<std::unique_ptr<PanicSwitch>> PanicSwitch::start(realtime::Starter& urgent, const std::string& socket,
                                                        Planes& planes, Store& store, TargetTimes times, Hooks hooks,
                                                        Place place, std::optional<gid_t> admins) {
  std::unique_ptr<PanicSwitch> panic(new PanicSwitch(planes, store, times, std::move(hooks), std::move(place)));
  if (!socket.empty()) {
    const auto answer = [raw = panic.get()](const std::string& line, const Caller& caller, ApiServer::Reply reply) {
      raw->hooks_.answer(*raw, line, caller, std::move(reply));
    };
    const auto log = [raw = panic.get()](const std::string& text) {
      raw->log({log::Level::error, "API of the panic switch fails", {{"error", text}}});
    };
    Result<std::unique_ptr<ApiServer>> api = ApiServer::start(
        panic->loop_, socket, {answer, panic->hooks_.failure, log}, ApiServer::kClientMs, {std::nullopt, admins});
    if (!api) return Error{api.error()};
    panic->api_ = std::move(*api);
  }
  for (Worker* worker : {&panic->disk_, &panic->log_}) {  // an order must find them, and is no reason to hurry for them
    if (Result<void> started = worker->start(); !started) return Error{started.error()};
  }
  if (!urgent) panic->log({log::Level::info, "the panic switch has no real-time thread", {{"why", urgent.why_not()}}});
  Result<void> started;
  urgent.run([&] { started = panic->start_threads(); });
  if (!started) return Error{started.error()};
  return panic;
}

Result<void> PanicSwitch::start_threads() {
  if (Result<void> started = detacher_.start(); !started) return started;
  Result<std::thread> thread = start_thread([this] { loop_.run(); });
  if (!thread) return Error{thread.error()};
  thread_ = std::move(*thread);
  return {};
}

PanicSwitch::PanicSwitch(Planes& planes, Store& store, TargetTimes times, Hooks hooks, Place place)
    : planes_(planes), store_(store), times_(times), hooks_(std::move(hooks)), place_(std::move(place)) {
  for (Fd& spare : detach_spares_) spare = spare_descriptor();
  wanted_ = store_.ordered_bypass();
  if (!wanted_) return;
  on_ = *wanted_;
  orders_ = 1;
  if (!*wanted_) to_be_told_ = orders_;
}

PanicSwitch::~PanicSwitch() {
  loop_.stop();
  if (thread_.joinable()) thread_.join();
}

void PanicSwitch::Line::close() {
  readable.reset();
  sockets.give_back(std::move(connection));
}

void PanicSwitch::set_targets(std::vector<TargetSpec> targets) {
  if (!place_.path.empty()) {
    disk_.submit([this, targets] {
      place_.targets = targets;
      const Result<void> written = write_place(place_);
      if (written) return;
      log({log::Level::warning,
           "controlctl would not find the targets without this controld",
           {{"error", written.error()}}});
    });
  }
  loop_.post([this, targets = std::move(targets)] {
    lines_.remove_if(
        [&](const Line& line) { return std::find(targets.begin(), targets.end(), line.spec) == targets.end(); });
    for (const TargetSpec& target : targets) {
      if (find(target.name) != nullptr) continue;
      Line& line = lines_.emplace_back();
      line.spec = target;
      if (newest_order_ == 0) continue;  // no order was given since this start: it is told what the disk says then
      line.wanted = ++orders_;
      line.is_news = true;
      tell(line);  // not first when it is reached: XDP takes the verifier's time for that
    }
    waits_.check();
    forget_when_told();
  });
}

void PanicSwitch::order(bool on, std::function<void(const Report&)> done) {
  loop_.post([this, on, done = std::move(done)] { take_order(on, done); });
}

void PanicSwitch::take_order(bool on, const std::function<void(const Report&)>& done) {
  on_ = on;
  wanted_ = on;
  const uint64_t number = ++orders_;
  newest_order_ = number;
  to_be_told_ = on ? 0 : number;
  for (Line& line : lines_) {
    line.wanted = number;
    line.is_news = true;
    line.pause_ms = 0;
    line.error.clear();
    tell(line);
  }
  remember(on, number);  // second: nobody but who gave the order waits for the disk
  const Clock::time_point now = Clock::now();
  const auto is_done = [this, number, reached = now + kReach] {
    const bool is_late = Clock::now() >= reached;
    const auto is_settled = [is_late](const Line& line) { return line.is_confirmed() || (is_late && line.is_away()); };
    return remembered_order_ >= number && std::all_of(lines_.begin(), lines_.end(), is_settled);
  };
  waits_.add(is_done, now + std::chrono::milliseconds(times_.switched),
             [this, on, number, done] { done(report(on, number)); });
  wait_no_longer_ = loop_.timer(now + kReach, [this] { waits_.check(); });
}

void PanicSwitch::remember(bool on, uint64_t number) {
  remember_again_.reset();
  disk_.submit([this, on, number] {
    // Of orders that piled up while the disk did not answer only the last one goes there. Else all of them would, one
    // after the other, and a crash in between would leave one that was taken back.
    const auto is_newest = [this, number] { return newest_order_ == number; };
    if (!is_newest()) return;
    Result<void> written = store_.set_bypass(on, is_newest);
    if (!is_newest()) return;  // the one that overtook it tells, also for this one
    mailbox_->post([this, on, number, written] {
      if (!written && remembered_) {
        log({log::Level::error, "bypass would not outlive a restart of controld", {{"error", written.error()}}, false});
      }
      remembered_order_ = number;
      remembered_ = written;
      {
        const std::lock_guard lock(mutex_);
        disk_error_ = written ? "" : written.error();
      }
      waits_.check();
      forget_when_told();
      if (written || number != newest_order_) return;
      remember_again_ = loop_.timer(Clock::now() + kRememberAgain, [this, on, number] { remember(on, number); });
    });
  });
}

std::string PanicSwitch::disk_error() const {
  const std::lock_guard lock(mutex_);
  return disk_error_;
}

void PanicSwitch::log(log::Event event) {
  log_.submit([event = std::move(event)] { log::write(event); });
}

// What controlctl may have changed there; then goes on. A disk that does not answer is not waited for: controlctl could
// not change it, either.
void PanicSwitch::ask_disk(const std::function<void()>& then) {
  const uint64_t number = newest_order_;
  if (remembered_order_ != number || !remembered_) return then();  // ours is on its way there: that is the last one
  const auto is_over = std::make_shared<bool>(false);
  disk_.submit([this, number, then, is_over] {
    const std::optional<bool> ordered = store_.ordered_bypass();
    mailbox_->post([this, number, then, is_over, ordered] {
      if (newest_order_ == number) adopt(ordered);
      if (!std::exchange(*is_over, true)) then();
      waits_.check();
    });
  });
  waits_.add([is_over] { return *is_over; }, Clock::now() + kDiskAnswers,
             [then, is_over] {
               if (!std::exchange(*is_over, true)) then();
             });
}

void PanicSwitch::adopt(std::optional<bool> ordered) {
  const bool on = ordered.value_or(false);
  if (on == wanted_.value_or(false) && (wanted_ || !ordered)) return;
  log({log::Level::notice,
       on ? "bypass ordered ON" : "bypass ordered off",
       {{"cause", "controlctl gave the order while this controld did not answer"}},
       false});
  wanted_ = on;
  on_ = on;
  to_be_told_ = on ? 0 : orders_ + 1;
  for (Line& line : lines_) {  // also those that it could not reach
    line.wanted = ++orders_;
    line.is_news = true;
    tell(line);
  }
}

void PanicSwitch::look_again() {
  loop_.post([this] { ask_disk([] {}); });
}

void PanicSwitch::detach(const std::string& interface, std::function<void(const XdpPlane::Names&)> done) {
  detacher_.submit([this, interface, done = std::move(done)] {
    detach_spares_ = {};
    const XdpPlane::Names off = planes_.xdp.detach(interface);
    for (Fd& spare : detach_spares_) spare = spare_descriptor();
    for (const std::string& name : off ? *off : std::vector<std::string>()) {
      log({log::Level::notice,
           "xdp detached, until the next reload or start",
           {{"interfaces", name}, {"cause", "asked for"}},
           false});
    }
    mailbox_->post([off, done] { done(off); });
  });
}

PanicSwitch::Report PanicSwitch::report(bool on, uint64_t number) const {
  Report report;
  report.on = on;
  for (const Line& line : lines_) {
    TargetOutcome& outcome =
        report.targets.emplace_back(TargetOutcome{line.spec.name, line.confirmed >= number, line.error});
    if (!outcome.acknowledged) {
      const std::string& why = line.error.empty() ? line.lost : line.error;
      outcome.error = why.empty() ? "no answer yet: it is told until it confirms"
                                  : "not reached, and told when it comes back: " + why;
    }
    if (outcome.acknowledged && !line.not_durable.empty()) {
      outcome = {line.spec.name, false, "in force, not durable: " + line.not_durable};
    }
    if (on != wanted_) outcome = {line.spec.name, false, "a later order says otherwise"};
  }
  report.remembered = remembered_order_ >= number ? remembered_ : Error{"the disk has not answered yet"};
  return report;
}

void PanicSwitch::greet(const std::string& target, bool known, std::function<void()> done) {
  loop_.post([this, target, known, done = std::move(done)] {
    if (Line* line = find(target); line != nullptr) line->lost.clear();
    ask_disk([this, target, known, done] {
      Line* line = find(target);
      if (line == nullptr || !wanted_) return done();
      line->wanted = ++orders_;
      line->is_news = line->is_news || known != *wanted_;
      line->close();  // it may lead to one that has ended
      tell(*line);
      const auto is_done = [this, target, number = line->wanted] {
        const Line* now = find(target);
        return now == nullptr || now->confirmed >= number;
      };
      waits_.add(is_done, Clock::now() + std::chrono::milliseconds(times_.answer), done);
    });
  });
}

void PanicSwitch::lose(const std::string& target, const std::string& why) {
  loop_.post([this, target, why] {
    if (Line* line = find(target); line != nullptr) line->lost = why;
    waits_.check();
  });
}

PanicSwitch::Line* PanicSwitch::find(const std::string& target) {
  const auto found = std::find_if(lines_.begin(), lines_.end(), [&](const Line& l) { return l.spec.name == target; });
  return found == lines_.end() ? nullptr : &*found;
}

// On the connection that is there, when there is one: orders are heard in the order in which they were given.
void PanicSwitch::tell(Line& line) {
  line.again.reset();
  const TargetFunctions& functions = functions_of(line.spec.kind);
  if (functions.bypass != nullptr) {
    if (Result<void> done = functions.bypass(planes_, *wanted_); !done) return tell_later(line, done.error());
    return take_confirmation(line, "");
  }
  if (!line.connection) {
    Result<Fd> connection = functions.connect_now(line.spec, line.sockets);
    if (!connection) return tell_later(line, connection.error());
    line.connection = std::move(*connection);
    line.readable = loop_.io(line.connection.get(), EPOLLIN, [this, &line](uint32_t) { receive(line); });
    if (!line.readable) return tell_later(line, errno_error("its connection cannot be watched").message);
  }
  const wire::BypassBody body{*wanted_ ? 1u : 0u, 0};
  line.sequence = wire::next_sequence();
  const Result<void> sent = wire::send(line.connection.get(), wire::Type::bypass, line.sequence, wire::bytes_of(body));
  if (!sent) return tell_later(line, sent.error());
  line.error.clear();
}

void PanicSwitch::tell_later(Line& line, const std::string& error) {
  line.close();
  line.error = error;
  line.pause_ms = std::min(std::max(2 * line.pause_ms, kLeastPauseMs), times_.retry);
  line.again = loop_.timer(Clock::now() + std::chrono::milliseconds(line.pause_ms), [this, &line] { tell(line); });
}

void PanicSwitch::receive(Line& line) {
  Result<wire::Message> message = wire::receive(line.connection.get());
  const bool is_of_former = message && message->header.type == static_cast<uint16_t>(wire::Type::bypass) &&
                            message->header.sequence != line.sequence;
  if (is_of_former) return;  // overtaken by a later order on this connection
  const Result<wire::Message> answer = wire::answer_to(wire::Type::bypass, line.sequence, std::move(message));
  if (!answer) return tell_later(line, answer.error());
  const std::optional<wire::StatusBody> status = wire::body_as<wire::StatusBody>(*answer);
  if (!status || (status->bypass != 0) != *wanted_) return tell_later(line, "it did not confirm");
  line.close();
  take_confirmation(line, status->bypass_durable != 0 ? "" : wire::get_text(status->disk_error));
}

void PanicSwitch::take_confirmation(Line& line, std::string not_durable) {
  line.confirmed = line.wanted;
  line.pause_ms = 0;
  line.not_durable = std::move(not_durable);
  line.error.clear();
  if (std::exchange(line.is_news, false)) {
    log({log::Level::notice,
         *wanted_ ? "bypass is ON: everything passes" : "bypass is off",
         {{"target", line.spec.name}, {"cause", "the panic switch"}},
         false});
  }
  if (hooks_.confirmed) hooks_.confirmed(line.spec.name, *wanted_);
  waits_.check();
  forget_when_told();
}

// When every target has it off, on its own disk too, the next controld need not tell it: who is switched on by another
// until then stays on.
void PanicSwitch::forget_when_told() {
  const auto has_it = [this](const Line& line) { return line.confirmed >= to_be_told_ && line.not_durable.empty(); };
  if (to_be_told_ == 0 || lines_.empty() || !std::all_of(lines_.begin(), lines_.end(), has_it)) return;
  if (remembered_order_ != newest_order_ || !remembered_) return;  // that it is off is on its way to the disk
  to_be_told_ = 0;
  disk_.submit([this, number = newest_order_.load()] {
    if (newest_order_ == number) (void)Store::forget_off(store_.state_dir());
  });
}

}  // namespace weir::control
