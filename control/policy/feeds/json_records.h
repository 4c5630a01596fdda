#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/policy/feeds/field_names.h"
#include "control/policy/feeds/json_text.h"
#include "control/policy/feeds/take.h"
#include "control/policy/feeds/verdict.h"

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
  bool has_no_port = false;                            // whatever is called so
  std::vector<std::string> others;
  bool has_array = true;  // false: the root itself is the object (JSON lines)
  // Of an object in its place. Outcome() without an entry: it says nothing. Null: what the parts say, and what other
  // members say of them.
  std::function<Outcome(const JsonRecord& record, const Options& options, ListDraft& list)> take;
};

// What a record says by its parts.
Outcome take_parts(const JsonRecord& record, At at, const Options& options, ListDraft& list);

// A handler of JsonText. Every address in the document is taken, or skipped with its reason, or makes a bad object, or
// stands in a member that is told of at the end.
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

  // The end of the document: what all of it says, which no record says alone.
  void finish();

 private:
  struct Number {  // of a record: it may be the prefix length of its address
    std::string key, text;
  };
  struct Frame {
    bool is_array = false, is_record = false, has_texts = false;
    size_t record_at = kNoRecord;     // the frame of the object that this is in, or is
    unsigned arrays = 0;              // around it, itself included
    Verdict verdict = Verdict::none;  // what the names on the way to it say
    uint64_t entries_before = 0;      // of the document
    std::string path;
    JsonRecord record;
    std::array<unsigned, kParts> ranks = {};
    std::array<std::string, kParts> keys;  // that the parts are called
    FieldName::Side address_side = FieldName::any, port_side = FieldName::any;
    bool begins_range = false, is_network = false, is_length_vague = false, has_last = false, has_decimal = false;
    bool tells_of_attack = false, tells_of_server = false;
    const char* why_skipped = nullptr;
    std::string second;                // the key of another address
    std::vector<std::string> strange;  // the paths of addresses that are not read
    std::vector<Number> numbers;
    std::string count_key;  // of a number of addresses
  };
  struct Meaning {  // of a key
    std::optional<FieldName> part;
    bool may_be_length = false;  // when its value is a number
    bool is_attack = false, is_server = false;
    bool may_doubt = false;  // a number may be a prefix length that nobody named
  };

  static constexpr size_t kNoRecord = SIZE_MAX;

  bool is_auto() const { return shape_.paths.empty() && shape_.take == nullptr; }
  bool is_path(std::string_view path) const;
  std::string path_of_value() const;
  Meaning meaning_of(const std::string& key);
  void keep(Frame& frame, std::string_view text, bool is_string);
  void keep_address(Frame& frame, const FieldName& named, std::string_view text);
  void look_at_other(Frame& record, std::string_view key, std::string_view text, bool is_string);
  Outcome take_record(Frame& frame);
  Outcome judge_port(Frame& frame);
  void look_at_document(std::string_view text, bool is_string);
  bool says_allowed(std::string_view key, std::string_view text) const;
  void name_whole(std::string_view key, std::string_view text);
  void skip_address(std::string_view text, const Frame& frame);
  void tell(const Outcome& outcome, uint32_t line, std::string_view text);
  std::string format_name() const { return shape_.has_array ? "json" : "jsonl"; }

  const JsonShape shape_;
  const Options options_;
  ListDraft* list_ = nullptr;
  const JsonText<JsonRecords>* text_ = nullptr;
  size_t depth_ = 0;
  std::array<Frame, JsonText<JsonRecords>::kMostDepth> frames_;
  std::string key_;
  std::map<std::string, Meaning, std::less<>> known_keys_;
  std::map<std::string, LengthDoubt, std::less<>> doubts_;  // by key
  std::map<std::string, uint64_t, std::less<>> strange_;    // objects with an address that is not read, by its path
  std::string address_key_;                                 // of the first object
  uint64_t records_ = 0, taken_ = 0, two_ = 0;              // two_: with two addresses
  std::array<std::string, 2> two_keys_;                     // of the first of them
  std::string error_;           // what the document says of an error: `error: rate limit exceeded`
  bool is_sure_error_ = false;  // it is none of a list
  std::string error_key_;       // of the root, whose value is being read: `errors`
};

// A reader of a whole document (Parts::bytes).
Read read_json(JsonShape shape, const Options& options);
// Of one object a line (Parts::lines); a line that is no JSON is a bad one.
Read read_json_lines(JsonShape shape, const Options& options);

// `[` or `{` and what belongs behind it. [2001:db8::7]:443 is none.
bool begins_json(std::string_view text);

}  // namespace weir::control::feeds
