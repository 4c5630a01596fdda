#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/read/feeds/field_names.h"
#include "control/read/feeds/json_text.h"
#include "control/read/feeds/take.h"
#include "control/read/feeds/verdict.h"

// Which values of a JSON document are entries.
namespace weir::control::feeds {

// An object that may say an entry, or a text in an array.
struct JsonRecord {
  std::array<std::string, kParts> parts;                   // by Part; empty: not there
  std::map<std::string, std::string, std::less<>> others;  // the keys that JsonShape::others names
  uint32_t line = 0;
  std::string_view path;  // of the object
};

struct JsonShape {
  // Where entries are: keys from the root on, joined by dots; arrays in between do not count. "" is the root. Empty:
  // objects in the first array on their way, and texts in it when it is the root or has a name like `list`.
  std::vector<std::string> paths;
  std::array<std::vector<std::string>, kParts> names;  // of keys, by Part; empty: the usual ones (field_names.h)
  std::vector<std::string> others;
  bool has_array = true;  // false: the root itself is the object (JSON lines)
  // Of an object in its place. Outcome() without an entry: it says nothing.
  std::function<Outcome(const JsonRecord& record, const Options& options, ListDraft& list)> take;
};

// What a record says by its parts.
Outcome take_parts(const JsonRecord& record, At at, const Options& options, ListDraft& list);

// A handler of JsonText.
class JsonRecords {
 public:
  JsonRecords(JsonShape shape, Options options) : shape_(std::move(shape)), options_(std::move(options)) {}
  // Before each part. line: where the text is, which the handler looks at.
  void begin(ListDraft& list, const JsonText<JsonRecords>& text) {
    list_ = &list;
    text_ = &text;
  }

  void open(bool is_array);
  void close();
  void key(std::string_view text);
  void scalar(std::string_view text, bool is_string);

  // The end of the document: a fault, when what is allowed and what is blocked were read alike.
  void finish();

 private:
  struct Frame {
    bool is_array = false, is_record = false, has_texts = false;
    bool is_in_record = false;
    unsigned arrays = 0;  // around it, itself included
    std::string path;
    JsonRecord record;
    std::array<unsigned, kParts> ranks = {};
    bool begins_range = false, is_length_vague = false;
  };
  struct Meaning {  // of a key
    std::optional<FieldName> part;
    bool may_be_length = false;  // when its value is a number
  };

  bool is_path(std::string_view path) const;
  std::string path_of_value() const;
  Meaning meaning_of(const std::string& key);
  void keep(Frame& frame, std::string_view text, bool is_string);
  void choose_side(std::string_view path);
  void skip_address(std::string_view text);
  void tell(const Outcome& outcome, uint32_t line, std::string_view text);

  const JsonShape shape_;
  const Options options_;
  ListDraft* list_ = nullptr;
  const JsonText<JsonRecords>* text_ = nullptr;
  size_t depth_ = 0;
  std::array<Frame, JsonText<JsonRecords>::kMostDepth> frames_;
  std::string key_;
  std::map<std::string, Meaning, std::less<>> known_keys_;
  Verdict side_ = Verdict::none;  // of the list that is being read, and its path
  std::string list_path_;
  std::array<std::string, 4> list_from_;  // by Verdict: the path of a list that entries were taken from
};

// A reader of a whole document (Parts::bytes).
Read read_json(JsonShape shape, const Options& options);
// Of one object a line (Parts::lines); a line that is no JSON is a bad one.
Read read_json_lines(JsonShape shape, const Options& options);

// `[` or `{` and what belongs behind it. [2001:db8::7]:443 is none.
bool begins_json(std::string_view text);

}  // namespace weir::control::feeds
