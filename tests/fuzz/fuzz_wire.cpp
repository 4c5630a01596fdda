// Any bytes as a message of a peer: nothing outside is read, and what is accepted is within its limits.
#include <cstdint>
#include <cstdlib>

#include "common/wire.h"

using namespace weir;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Result<wire::Message> message = wire::decode(std::as_bytes(std::span(data, size)), Fd());
  if (!message) return message.error().empty() ? (abort(), 0) : 0;
  if (message->body.size() + sizeof(wire::Header) != size) abort();
  if (const auto stats = wire::stats_from(*message)) {
    if (stats->lists.size() * sizeof(wire::ListStats) > size) abort();
    for (const wire::ListStats& list : stats->lists) {
      if (wire::get_text(list.name).size() > sizeof list.name) abort();
    }
  }
  if (const auto published = wire::body_as<wire::PublishedBody>(*message)) {
    if (wire::step_name(published->failed_step) == nullptr) abort();
    (void)wire::get_text(published->reason);
  }
  return 0;
}
