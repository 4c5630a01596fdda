#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <istream>
#include <streambuf>

#include "common/yaml/events.h"

namespace weir::yaml {
namespace {

// A text as a stream, without a copy. Nobody writes through it: what yaml-cpp puts back is what it read.
class TextBuffer : public std::streambuf {
 public:
  explicit TextBuffer(std::string_view text) {
    char* const begin = const_cast<char*>(text.data());
    setg(begin, begin, begin + text.size());
  }
};

// yaml-cpp counts from 0.
Event at(const YAML::Mark& mark, Event event) {
  if (mark.is_null()) return event;
  event.line = static_cast<uint32_t>(mark.line) + 1;
  event.column = static_cast<uint32_t>(mark.column) + 1;
  return event;
}

class Translator : public YAML::EventHandler {
 public:
  explicit Translator(const TakeEvent& take) : take_(take) {}

  void OnDocumentStart(const YAML::Mark& mark) override { tell(Event::Kind::document, mark); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { tell(Event::Kind::null, mark, anchor); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override { tell(Event::Kind::alias, mark, anchor); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    tell(Event::Kind::scalar, mark, anchor, tag, value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    tell(Event::Kind::sequence, mark, anchor, tag);
  }
  void OnSequenceEnd() override { take_({Event::Kind::sequence_end}); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    tell(Event::Kind::map, mark, anchor, tag);
  }
  void OnMapEnd() override { take_({Event::Kind::map_end}); }

 private:
  // "?": none; "!": in quotes, or a block scalar.
  static Event::Tag tag_of(const std::string& tag) {
    if (tag.empty() || tag == "?") return Event::Tag::none;
    return tag == "!" ? Event::Tag::quotes : Event::Tag::other;
  }

  void tell(Event::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor = 0, const std::string& tag = "",
            std::string_view text = {}) {
    take_(at(mark, {kind, tag_of(tag), 0, 0, static_cast<uint32_t>(anchor), text}));
  }

  const TakeEvent& take_;
};

// yaml-cpp 0.8 names the anchor, 0.7 does not; the line that is shown has it.
std::string_view text_of(const YAML::Exception& error) {
  constexpr std::string_view kUnknownAnchor = "the referenced anchor is not defined";
  return error.msg.starts_with(kUnknownAnchor) ? kUnknownAnchor : std::string_view(error.msg);
}

}  // namespace

Result<void> parse_here(std::string_view text, const TakeEvent& take) {
  try {
    TextBuffer buffer(text);
    std::istream stream(&buffer);
    YAML::Parser parser(stream);
    Translator translator(take);
    // A second document is an error to whoever takes it. After `,` yaml-cpp finds documents without end.
    if (parser.HandleNextDocument(translator)) parser.HandleNextDocument(translator);
  } catch (const YAML::Exception& e) {
    take(at(e.mark, {Event::Kind::error, Event::Tag::none, 0, 0, 0, text_of(e)}));
    return {};
  }
  take({Event::Kind::end});
  return {};
}

}  // namespace weir::yaml
