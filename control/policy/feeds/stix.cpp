#include <array>
#include <vector>

#include "control/policy/feeds/json_records.h"
#include "control/policy/feeds/json_text.h"
#include "control/policy/feeds/statements.h"
#include "control/policy/feeds/verdict.h"
#include "control/policy/model/time_text.h"

// STIX 2: indicators of a bundle, of a TAXII envelope or of an array. Addresses are those of patterns that compare
// addresses alone, joined by OR (STIX 2.1, section 9).
namespace weir::control::feeds {
namespace stix {

constexpr const char* kOther = "an indicator of another kind";
constexpr const char* kComplex = "a pattern that asks for more than addresses joined by OR";

// The addresses that a pattern names, or why it is no pattern of addresses alone.
class Pattern {
 public:
  explicit Pattern(std::string_view text) : rest_(text) {}

  Outcome read() {
    do {
      if (!take_sign('[')) return "a pattern that does not begin with `[`";
      if (const Outcome outcome = read_comparisons(); outcome.kind != Outcome::fine) return outcome;
      if (!take_sign(']')) return is_at_end() ? Outcome("a pattern that is not closed") : Outcome::skip(kComplex);
    } while (take_word("OR"));
    return is_at_end() ? Outcome() : Outcome::skip(kComplex);
  }
  const std::vector<std::string>& addresses() const { return addresses_; }

 private:
  Outcome read_comparisons() {
    unsigned open = 0;
    do {
      while (take_sign('(')) open++;
      if (const Outcome outcome = read_comparison(); outcome.kind != Outcome::fine) return outcome;
      while (open > 0 && take_sign(')')) open--;
    } while (take_word("OR"));
    return open == 0 ? Outcome() : Outcome::skip(kComplex);
  }

  Outcome read_comparison() {
    skip_blanks();
    if (!take_text("ipv4-addr:value") && !take_text("ipv6-addr:value")) return Outcome::skip(kOther);
    if (take_sign('=') || take_word("ISSUBSET")) return read_address();
    if (!take_word("IN")) return Outcome::skip(kComplex);
    if (!take_sign('(')) return "`IN` without its list";
    do {
      if (const Outcome outcome = read_address(); outcome.kind != Outcome::fine) return outcome;
    } while (take_sign(','));
    return take_sign(')') ? Outcome() : Outcome("a list that is not closed");
  }

  // 'TEXT'; a backslash takes away what the next letter means.
  Outcome read_address() {
    if (!take_sign('\'')) return "a comparison without a text";
    std::string& address = addresses_.emplace_back();
    for (; !rest_.empty() && rest_[0] != '\''; rest_.remove_prefix(1)) {
      if (rest_[0] == '\\' && rest_.size() > 1) rest_.remove_prefix(1);
      address += rest_[0];
    }
    return take_sign('\'') ? Outcome() : Outcome("a text that is not closed");
  }

  void skip_blanks() {
    while (!rest_.empty() && is_blank(rest_[0])) rest_.remove_prefix(1);
  }
  bool is_at_end() {
    skip_blanks();
    return rest_.empty();
  }
  bool take_text(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  bool take_sign(char sign) {
    skip_blanks();
    return take_text({&sign, 1});
  }
  bool take_word(std::string_view word) {
    skip_blanks();
    const bool ends = rest_.size() > word.size() && (is_blank(rest_[word.size()]) || rest_[word.size()] == '[' ||
                                                     rest_[word.size()] == '(' || rest_[word.size()] == '\'');
    return ends && take_text(word);
  }

  std::string_view rest_;
  std::vector<std::string> addresses_;
};

// The members of an object that an indicator has.
struct Object {
  std::string pattern, pattern_type, type, valid_until;
  uint32_t line = 0;
  bool has_pattern = false, is_revoked = false;
  Verdict verdict = Verdict::none;  // of its types and labels: one that allows counts
};

struct Handler {
  static constexpr size_t kMostText = size_t{64} << 10;  // bytes of a pattern

  JsonReading reading;
  const JsonText<Handler>* text = nullptr;
  std::array<Object, JsonPlace::kMostDepth> objects = {};  // by depth; arrays have one, too
  bool is_labels = false;                                  // inside of an array of labels

  void begin(ListDraft& list, const JsonText<Handler>& where) {
    reading.list = &list;
    text = &where;
  }
  void finish() {}

  void open(bool is_array) {
    const std::string_view key = reading.place.key();
    // Labels are of the object around the array.
    const size_t depth = reading.place.depth();
    is_labels = is_array && depth > 0 && (key == "labels" || key == "indicator_types");
    reading.place.enter(is_array);
    Object& object = objects[depth];
    object = {};
    object.line = text->line();
  }

  void close() {
    const bool is_array = reading.place.is_in_array();
    reading.place.leave();
    is_labels = false;
    Object& object = objects[reading.place.depth()];
    if (!is_array && object.has_pattern) take_indicator(object);
  }

  void key(std::string_view name) { reading.place.name(name); }

  void scalar(std::string_view value, bool is_string) {
    const size_t depth = reading.place.depth();
    if (depth == 0) return;
    const std::string_view key = reading.place.key();
    if (is_labels && depth > 1) {
      Object& labelled = objects[depth - 2];
      const Verdict verdict = verdict_of_member("label", value);
      if (labelled.verdict != Verdict::pass && verdict != Verdict::none) labelled.verdict = verdict;
      return;
    }
    Object& object = objects[depth - 1];
    const bool is_member = !reading.place.is_in_array();
    if (is_member && key == "revoked" && value == "true") {
      object.is_revoked = true;
    } else if (is_string && is_member && key == "pattern") {
      object.pattern = value;
      object.has_pattern = true;
    } else if (is_string && is_member && key == "pattern_type") {
      object.pattern_type = value.substr(0, 64);
    } else if (is_string && is_member && key == "type") {
      object.type = value.substr(0, 64);
    } else if (is_string && is_member && key == "valid_until") {
      object.valid_until = value.substr(0, 64);
    } else if (is_string && is_entry(trim(value))) {
      reading.tell(Outcome::skip("an address that is no indicator"), text->line(), value);
    }
  }

  void take_indicator(const Object& object) const {
    const std::string_view shown = std::string_view(object.pattern).substr(0, 256);
    At at = {object.line};
    const Outcome outcome = judge(object, at);
    if (outcome.kind != Outcome::fine) return reading.tell(outcome, object.line, shown);
    Pattern pattern(object.pattern);
    if (const Outcome read = pattern.read(); read.kind != Outcome::fine) return reading.tell(read, object.line, shown);
    for (const std::string& address : pattern.addresses()) {
      reading.tell(take(address, at, reading.options, *reading.list), object.line, address);
    }
  }

  Outcome judge(const Object& object, At& at) const {
    if (!object.type.empty() && object.type != "indicator") return Outcome::skip("a pattern that is of no indicator");
    const bool is_stix = object.pattern_type.empty() || object.pattern_type == "stix";
    if (!is_stix) return Outcome::skip("a pattern of another language than STIX");
    if (object.is_revoked) return Outcome::skip("an indicator that is revoked");
    if (const char* why = why_not_of(object.verdict, reading.options.action)) return Outcome::skip(why);
    if (object.pattern.size() >= kMostText) return Outcome::skip("a pattern of more than 64 KiB");
    if (object.valid_until.empty()) return {};
    const auto until = parse_time(object.valid_until);
    if (!until) return "`valid_until` is no time";
    at.expires = *until;
    return {};
  }
};

std::string recognise(std::string_view beginning) {
  const bool has_marks = has_key(beginning, "spec_version") || has_key(beginning, "pattern_type") ||
                         beginning.find("\"bundle--") != std::string_view::npos;
  const bool has_objects = has_key(beginning, "pattern") || has_key(beginning, "objects");
  return begins_json(trim(beginning)) && has_key(beginning, "type") && has_marks && has_objects
             ? "it begins with the keys of STIX"
             : "";
}

Read start(const Options& options, std::string_view /*beginning*/) {
  return read_document(Handler{JsonReading{options}});
}

}  // namespace stix

extern const Format kStixFormat;
const Format kStixFormat = {
    "stix", "STIX 2: indicators whose patterns are addresses", stix::recognise, stix::start, Parts::bytes, true};

}  // namespace weir::control::feeds
