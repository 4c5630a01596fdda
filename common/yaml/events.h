#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "common/result.h"

// What a YAML text says, one thing after the other, as plain data: what parses YAML may be another process.
namespace weir::yaml {

struct Event {
  enum class Kind : uint8_t {
    document,  // begins
    null,
    scalar,
    alias,
    sequence,
    map,  // keys and values by turns
    sequence_end,
    map_end,
    // The last one is one of these.
    end,       // of the text
    error,     // it is no YAML
    no_memory  // to parse it
  };
  enum class Tag : uint8_t { none, quotes, other };  // quotes: a scalar in quotes, or a block

  Kind kind = Kind::end;
  Tag tag = Tag::none;
  uint32_t line = 0, column = 0;  // from 1; 0: not known
  uint32_t anchor = 0;            // of an alias: that of its node; else its own, 0: it has none
  std::string_view text = {};     // of a scalar; of an error what is wrong
};

// Whoever takes them may throw: that ends the parsing.
using TakeEvent = std::function<void(const Event&)>;
// Error: the parser came to no end.
using Parse = std::function<Result<void>(std::string_view text, const TakeEvent& take)>;

// By this process, with yaml-cpp. Throws std::bad_alloc instead of telling no_memory.
Result<void> parse_here(std::string_view text, const TakeEvent& take);

// Events as bytes, one after the other.
struct EventHead {
  uint8_t kind, tag;
  uint16_t zero;
  uint32_t line, column, anchor;
  uint32_t text_bytes;  // that follow
};
EventHead head_of(const Event& event);

constexpr const char* kNoEvents = "the process that parses it gave what no YAML holds";

class EventReader {
 public:
  // most_text: bytes of an event's text.
  EventReader(size_t most_text, TakeEvent take) : most_text_(most_text), take_(std::move(take)) {}
  // Takes every event that is complete. False: these are no events.
  bool read(std::span<const std::byte> bytes);

 private:
  const size_t most_text_;
  const TakeEvent take_;
  std::string rest_;  // of an event that is not complete yet
};

}  // namespace weir::yaml
