#include "common/yaml/events.h"

#include <cstring>

namespace weir::yaml {

EventHead head_of(const Event& event) {
  return {static_cast<uint8_t>(event.kind),
          static_cast<uint8_t>(event.tag),
          0,
          event.line,
          event.column,
          event.anchor,
          static_cast<uint32_t>(event.text.size())};
}

bool EventReader::read(std::span<const std::byte> bytes) {
  rest_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::string_view left = rest_;
  while (left.size() >= sizeof(EventHead)) {
    EventHead head;
    memcpy(&head, left.data(), sizeof head);
    if (head.kind > static_cast<uint8_t>(Event::Kind::no_memory) ||
        head.tag > static_cast<uint8_t>(Event::Tag::other) || head.zero != 0 || head.text_bytes > most_text_) {
      return false;
    }
    if (left.size() - sizeof head < head.text_bytes) break;
    take_({static_cast<Event::Kind>(head.kind), static_cast<Event::Tag>(head.tag), head.line, head.column, head.anchor,
           left.substr(sizeof head, head.text_bytes)});
    left.remove_prefix(sizeof head + head.text_bytes);
  }
  rest_.erase(0, rest_.size() - left.size());
  return true;
}

}  // namespace weir::yaml
