#include <array>

#include "control/policy/feeds/json_records.h"
#include "control/policy/feeds/json_text.h"
#include "control/policy/feeds/statements.h"
#include "control/policy/feeds/verdict.h"

// Events of MISP, or attributes that its search found: objects in arrays called `Attribute`. Addresses count that MISP
// marks as indicators to act on (`to_ids`).
namespace weir::control::feeds {
namespace misp_event {

constexpr size_t kMostMember = 128;  // bytes of a value that is kept

struct Object {
  std::string type, value;
  uint32_t line = 0;
  bool is_attribute = false, is_for_ids = false, is_deleted = false, has_warnings = false, is_false_positive = false;
};

struct Handler {
  JsonReading reading;
  const JsonText<Handler>* text = nullptr;
  std::array<Object, JsonPlace::kMostDepth> objects = {};  // by depth; arrays have one, too

  void begin(ListDraft& list, const JsonText<Handler>& where) {
    reading.list = &list;
    text = &where;
  }
  void finish() {}

  void open(bool is_array) {
    const size_t depth = reading.place.depth();
    if (depth > 0 && reading.place.key() == "warnings") objects[depth - 1].has_warnings = true;
    Object& object = objects[depth];
    object = {};
    object.line = text->line();
    object.is_attribute = !is_array && reading.place.key() == "Attribute";
    reading.place.enter(is_array);
  }

  void close() {
    reading.place.leave();
    Object& object = objects[reading.place.depth()];
    if (object.is_attribute) reading.tell(take_attribute(object), object.line, object.value);
  }

  void key(std::string_view name) { reading.place.name(name); }

  void scalar(std::string_view value, bool is_string) {
    const size_t depth = reading.place.depth();
    if (depth == 0) return;
    value = trim(value);
    const std::string_view key = reading.place.key();
    Object& object = objects[depth - 1];
    const bool is_yes = value == "true" || value == "1";
    if (object.is_attribute && key == "type") {
      object.type = value.substr(0, kMostMember);
    } else if (object.is_attribute && key == "value") {
      object.value = value.substr(0, kMostMember);
    } else if (object.is_attribute && key == "to_ids") {
      object.is_for_ids = is_yes;
    } else if (object.is_attribute && key == "deleted") {
      object.is_deleted = is_yes;
    } else if (key == "name" && depth > 2 && objects[depth - 3].is_attribute) {
      objects[depth - 3].is_false_positive |= is_tag_of_false_positive(value);
    } else if (is_string && is_entry(value)) {
      reading.tell(Outcome::skip("an address that is no attribute's value"), text->line(), value);
    }
  }

  // Of MISP's taxonomy `false-positive`.
  static bool is_tag_of_false_positive(std::string_view tag) {
    return tag == "false-positive:risk=\"high\"" || tag == "false-positive:confirmed=\"true\"";
  }

  Outcome take_attribute(const Object& attribute) const {
    const std::string_view type = attribute.type;
    const bool has_port = type == "ip-src|port" || type == "ip-dst|port";
    if (!has_port && type != "ip-src" && type != "ip-dst") return Outcome::skip("an attribute of another type");
    if (attribute.is_deleted) return Outcome::skip("an attribute that is deleted");
    if (!attribute.is_for_ids) return Outcome::skip("an attribute without `to_ids`: no indicator to act on");
    if (attribute.has_warnings) return Outcome::skip("an attribute that a warninglist names");
    if (attribute.is_false_positive) return Outcome::skip("an attribute that is tagged as a false positive");
    if (const char* why = why_not_of(Verdict::block, reading.options.action)) return Outcome::skip(why);
    const At at = {attribute.line};
    const std::string_view value = attribute.value;
    const size_t pipe = value.find('|');
    if (!has_port || pipe == std::string_view::npos) return take(value, at, reading.options, *reading.list);
    return take_port(value.substr(0, pipe), value.substr(pipe + 1), at, reading.options, *reading.list);
  }
};

std::string recognise(std::string_view beginning) {
  return begins_json(trim(beginning)) && has_key(beginning, "Attribute") && has_key(beginning, "to_ids")
             ? "it begins with the keys of a MISP event"
             : "";
}

Read start(const Options& options, std::string_view /*beginning*/) {
  return read_document(Handler{JsonReading{options}});
}

}  // namespace misp_event

extern const Format kMispEventFormat;
const Format kMispEventFormat = {"misp-event",          "events of MISP: attributes of addresses with `to_ids`",
                                 misp_event::recognise, misp_event::start,
                                 Parts::bytes,          true};

}  // namespace weir::control::feeds
