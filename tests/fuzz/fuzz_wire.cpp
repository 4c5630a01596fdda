// Any bytes as a message of a peer: nothing outside is read, and what is accepted is within its limits and comes back
// from encode() byte by byte.
#include <cstdint>
#include <cstdlib>

#include "common/probes.h"
#include "common/shadow.h"
#include "common/telemetry.h"
#include "common/wire.h"

using namespace weir;

namespace {

void require(bool holds) {
  if (!holds) abort();
}

template <size_t N>
void require_text(const char (&field)[N]) {
  require(wire::get_text(field).size() <= N);
}

// What a peer says is an answer to what it was asked, or an error that says why not.
void require_answer(const wire::Message& message, wire::Type type, uint32_t sequence) {
  const auto is_of = [&](wire::Type other) { return message.header.type == static_cast<uint16_t>(other); };
  const bool is_due = is_of(type) && message.header.sequence == sequence;
  wire::Message copy;
  copy.header = message.header;
  copy.body = message.body;
  const Result<wire::Message> answer = wire::answer_to(type, sequence, std::move(copy));
  require(static_cast<bool>(answer) == (is_due && !is_of(wire::Type::refused)));
  require(answer ? answer->body == message.body : !answer.error().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span packet = std::as_bytes(std::span(data, size));
  const Result<wire::Message> message = wire::decode(packet, Fd());
  if (!message) {
    require(!message.error().empty());
    return 0;
  }
  require(message->body.size() + sizeof(wire::Header) == size);
  const auto type = static_cast<wire::Type>(message->header.type);
  const std::vector<std::byte> again = wire::encode(type, message->header.sequence, message->body);
  require(again.size() == size && memcmp(again.data(), data, size) == 0);

  require_answer(*message, type, message->header.sequence);
  require_answer(*message, type, message->header.sequence + 1);
  require_answer(*message, wire::Type::status, wire::next_sequence());

  // Whatever its type: a peer may put any body behind any header.
  if (const auto stats = wire::stats_from(*message)) {
    require(stats->lists.size() * sizeof(wire::ListStats) <= size);
    for (const wire::ListStats& list : stats->lists) require_text(list.name);
  }
  if (const auto telemetry = wire::telemetry_from(*message)) {
    require((telemetry->pass_cycles.size() + telemetry->latency_cycles.size()) * sizeof(Bucket) <= size);
    require(wire::rest_name(telemetry->body.rest) != nullptr);
    require(telemetry->queues.size() * sizeof(wire::QueueCount) <= size);
    require(telemetry->sources.size() * sizeof(wire::SourceCount) <= size);
    for (const wire::SourceCount& source : telemetry->sources) require(!wire::source_text(source).empty());
    require(wire::encode_telemetry(*telemetry) == message->body);
  }
  if (const auto probes = wire::probes_from(*message)) {
    require(probes->shapes.size() <= wire::kMaxProbed);
    require(wire::encode_probes(*probes) == message->body);
  }
  if (const auto ports = wire::ports_from(*message)) {
    require(ports->ports.size() * sizeof(wire::PortStats) <= size);
    for (const wire::PortStats& port : ports->ports) require_text(port.name);
  }
  if (const auto samples = wire::samples_from(*message)) {
    std::vector<std::byte> body(sizeof samples->body);
    for (const wire::SampledFrame& frame : samples->frames) {
      require_text(frame.sample.list);
      require(frame.bytes.size() == frame.sample.captured_bytes);
      wire::append_sample(body, frame.sample, frame.bytes.data());
    }
    require(body.size() == message->body.size());
  }
  if (const auto traffic = wire::traffic_from(*message)) {
    std::vector<std::byte> body(sizeof traffic->body);
    memcpy(body.data(), &traffic->body, sizeof traffic->body);
    for (const wire::SampledTraffic& sampled : traffic->samples) wire::append_traffic(body, sampled);
    require(body == message->body);
  }
  if (const auto shadow = wire::shadow_from(*message)) {
    for (const wire::ShadowList& list : shadow->lists) require_text(list.name);
    for (const wire::ShadowSample& sample : shadow->samples) {
      require_text(sample.by_running.list);
      require(sample.by_running.dropped != sample.by_candidate.dropped);
    }
    if (shadow->lists.size() <= wire::kMaxShadowLists) require(wire::encode_shadow(*shadow) == message->body);
  }
  if (const auto interfaces = wire::interfaces_from(*message)) {
    require(interfaces->size() * sizeof(wire::InterfaceBody) <= size);
    for (const wire::InterfaceBody& interface : *interfaces) {
      require_text(interface.name);
      require_text(interface.error);
    }
    require(wire::encode_interfaces(*interfaces).size() == message->body.size());
  }
  if (const auto detach = wire::body_as<wire::DetachBody>(*message)) require_text(detach->interface);
  if (const auto published = wire::body_as<wire::PublishedBody>(*message)) {
    require(wire::step_name(published->failed_step) != nullptr);
    require_text(published->reason);
  }
  if (const auto status = wire::body_as<wire::StatusBody>(*message)) {
    require_text(status->version);
    require_text(status->isa);
  }
  if (const auto text = wire::body_as<wire::TextBody>(*message)) require_text(text->text);
  require(!wire::body_as<wire::PublishBody>(*message) || message->body.size() == sizeof(wire::PublishBody));
  require(!wire::body_as<wire::BypassBody>(*message) || message->body.size() == sizeof(wire::BypassBody));
  return 0;
}
