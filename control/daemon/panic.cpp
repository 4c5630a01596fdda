#include "control/daemon/panic.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace weir::control {

using std::chrono::milliseconds;

Result<std::unique_ptr<PanicSwitch>> PanicSwitch::start(const std::string& socket, Planes& planes, Store& store,
                                                        int acknowledge_ms, TargetTimes times, Hooks hooks) {
  std::unique_ptr<PanicSwitch> panic(new PanicSwitch(planes, store, acknowledge_ms, times, std::move(hooks)));
  if (!socket.empty()) {
    const auto answer = [raw = panic.get()](const std::string& line, ApiServer::Reply reply) {
      raw->hooks_.answer(*raw, line, std::move(reply));
    };
    Result<std::unique_ptr<ApiServer>> api = ApiServer::start(panic->loop_, socket, {answer, panic->hooks_.failure});
    if (!api) return Error{api.error()};
    panic->api_ = std::move(*api);
  }
  panic->thread_ = std::thread([raw = panic.get()] { raw->loop_.run(); });
  return panic;
}

PanicSwitch::PanicSwitch(Planes& planes, Store& store, int acknowledge_ms, TargetTimes times, Hooks hooks)
    : planes_(planes), store_(store), acknowledge_ms_(acknowledge_ms), times_(times), hooks_(std::move(hooks)) {
  if (!store_.bypass()) return;
  on_ = true;
  wanted_ = true;
  orders_ = 1;
}

PanicSwitch::~PanicSwitch() {
  loop_.stop();
  if (thread_.joinable()) thread_.join();
}

void PanicSwitch::set_targets(std::vector<TargetSpec> targets) {
  loop_.post([this, targets = std::move(targets)] {
    lines_.remove_if(
        [&](const Line& line) { return std::find(targets.begin(), targets.end(), line.spec) == targets.end(); });
    for (const TargetSpec& target : targets) {
      if (find(target.name) == nullptr) lines_.emplace_back().spec = target;
    }
    waits_.check();
  });
}

void PanicSwitch::order(bool on, std::function<void(const Report&)> done) {
  loop_.post([this, on, done = std::move(done)] { take_order(on, done); });
}

void PanicSwitch::take_order(bool on, const std::function<void(const Report&)>& done) {
  on_ = on;
  wanted_ = on;
  const uint64_t number = ++orders_;
  for (Line& line : lines_) {
    line.wanted = number;
    line.is_news = true;
    tell(line);
  }
  // The disk comes second. Nobody but who gave the order waits for it.
  disk_.submit([this, on, number] {
    Result<void> written = store_.set_bypass(on);
    mailbox_->post([this, number, written] {
      remembered_order_ = number;
      remembered_ = written;
      waits_.check();
    });
  });
  const auto is_done = [this, number] {
    return remembered_order_ >= number &&
           std::all_of(lines_.begin(), lines_.end(), [](const Line& line) { return line.is_confirmed(); });
  };
  waits_.add(is_done, Clock::now() + milliseconds(acknowledge_ms_),
             [this, on, number, done] { done(report(on, number)); });
}

PanicSwitch::Report PanicSwitch::report(bool on, uint64_t number) const {
  Report report;
  report.on = on;
  for (const Line& line : lines_) {
    Outcome& outcome = report.targets.emplace_back(Outcome{line.spec.name, line.confirmed >= number, line.error});
    if (on != wanted_) outcome = {line.spec.name, false, "a later order says otherwise"};
    if (!outcome.confirmed && outcome.error.empty()) outcome.error = "no answer";
  }
  report.remembered = remembered_order_ >= number ? remembered_ : Error{"the disk has not answered yet"};
  return report;
}

void PanicSwitch::greet(const std::string& target, bool known, std::function<void()> done) {
  loop_.post([this, target, known, done = std::move(done)] {
    Line* line = find(target);
    if (line == nullptr || !wanted_) return done();
    line->wanted = ++orders_;
    line->is_news = line->is_news || known != *wanted_;
    line->readable.reset();
    line->connection.reset();  // it may lead to one that has ended
    tell(*line);
    const auto is_done = [this, target, number = line->wanted] {
      const Line* now = find(target);
      return now == nullptr || now->confirmed >= number;
    };
    waits_.add(is_done, Clock::now() + milliseconds(times_.answer), done);
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
    return take_confirmation(line);
  }
  if (!line.connection) {
    Result<Fd> connection = functions.connect_now(line.spec);
    if (!connection) return tell_later(line, connection.error());
    line.connection = std::move(*connection);
    line.readable = loop_.io(line.connection.get(), EPOLLIN, [this, &line](uint32_t) { receive(line); });
  }
  const wire::BypassBody body{*wanted_ ? 1u : 0u, 0};
  line.sequence = wire::next_sequence();
  const Result<void> sent = wire::send(line.connection.get(), wire::Type::bypass, line.sequence, wire::bytes_of(body));
  if (!sent) tell_later(line, sent.error());
}

void PanicSwitch::tell_later(Line& line, const std::string& error) {
  line.readable.reset();
  line.connection.reset();
  line.error = error;
  line.again = loop_.timer(Clock::now() + milliseconds(times_.retry), [this, &line] { tell(line); });
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
  line.readable.reset();
  line.connection.reset();
  take_confirmation(line);
}

void PanicSwitch::take_confirmation(Line& line) {
  line.confirmed = line.wanted;
  line.error.clear();
  if (std::exchange(line.is_news, false)) {
    spdlog::warn("target {}: bypass is {}", line.spec.name, *wanted_ ? "ON, everything passes" : "off");
  }
  if (hooks_.confirmed) hooks_.confirmed(line.spec.name, *wanted_);
  waits_.check();
}

}  // namespace weir::control
