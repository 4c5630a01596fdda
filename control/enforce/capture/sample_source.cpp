#include "control/enforce/capture/sample_source.h"

#include <fcntl.h>

#include <utility>

namespace weir::control {

namespace {
constexpr std::chrono::milliseconds kInterval{250};
constexpr std::chrono::seconds kAskAgain{1};
}  // namespace

void SampleSource::ask(Clock::time_point now) {
  if (!connection_) {
    is_asking_ = is_connecting_ = true;
    connect_([this, alive = std::weak_ptr(alive_)](Result<Fd> connection) {
      if (!alive.expired()) take_connection(std::move(connection));
    });
    is_asking_ = false;
    if (!connection_) return;
  }
  Result<void> sent = wire::send(connection_.get(), wire::Type::samples, 0, wire::bytes_of(wanted_));
  if (!sent) return drop(sent.error(), now);
  asked_ = true;
  asked_off_ = finishing_;
}

void SampleSource::take_connection(Result<Fd> connection) {
  is_connecting_ = false;
  if (connection && fcntl(connection->get(), F_SETFL, O_NONBLOCK) == 0) {
    connection_ = std::move(*connection);
    due_ = {};
  } else {
    drop(connection ? "its connection cannot be set up" : connection.error(), Clock::now());
  }
  if (!is_asking_ && connected_) connected_();
}

std::vector<wire::SampledFrame> SampleSource::take(Clock::time_point now) {
  asked_ = false;
  const Result<wire::Message> answer = wire::receive(connection_.get());
  if (!answer) return drop(answer.error(), now), std::vector<wire::SampledFrame>();
  if (answer->header.type != static_cast<uint16_t>(wire::Type::samples)) {
    const auto text = wire::body_as<wire::TextBody>(*answer);
    return drop("refused by the target: " + (text ? wire::get_text(text->text) : std::string("no reason given")), now),
           std::vector<wire::SampledFrame>();
  }
  std::optional<wire::Samples> samples = wire::samples_from(*answer);
  if (!samples) return drop("its samples cannot be understood", now), std::vector<wire::SampledFrame>();
  count(samples->body, samples->frames.size());
  told_off_ = asked_off_;
  error_.clear();
  due_ = samples->body.waiting > 0 ? now : now + kInterval;
  return std::move(samples->frames);
}

// What was told and did not arrive is lost, and so is what waited in a data plane that ended. One that is met for the
// first time has counted for others before; one that started anew counts from 0.
void SampleSource::count(const wire::SamplesBody& now, size_t frames) {
  if (!reached()) {
    last_ = now;
    last_.told = now.told - frames;
    last_.sampled = now.sampled - frames - now.waiting;
  } else if (now.start_time_unix != last_.start_time_unix || now.told < last_.told) {
    counts_.lost += last_.waiting;
    last_ = {};
  }
  const uint64_t lost_on_the_way = now.told - last_.told - frames;
  counts_.sampled += now.sampled - last_.sampled;
  counts_.limited += now.limited - last_.limited;
  counts_.lost += now.lost - last_.lost + lost_on_the_way;
  counts_.waiting = now.waiting;
  last_ = now;
}

void SampleSource::drop(const std::string& error, Clock::time_point now) {
  connection_.reset();
  asked_ = false;
  error_ = error;
  due_ = now + kAskAgain;
}

void SampleSource::finish() {
  finishing_ = true;
  wanted_.one_in = 0;
  due_ = {};
}

}  // namespace weir::control
