#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "control/policy/model/feed.h"
#include "control/policy/model/policy.h"

// This file knows all feed formats, and recognises which one a text is of.
namespace weir::control::feeds {

class NamedSets;

constexpr size_t kBeginningBytes = size_t{64} << 10;  // by which text is recognised

struct Options {
  uint8_t directions = WEIR_AS_SOURCE;  // of every entry: the list's `match`
  weir_action action = WEIR_DROP;       // of the list: what the feed marks for the other side is no entry of it
  bool allow_any = false;               // /0 is an entry, not a bad line
  uint8_t source = 1;                   // of every entry: Entry::source
  uint32_t written = 0;                 // Unix seconds when the file was written: what its timeouts count from
  std::string settings = {};            // of the format, as find_setting() reads them: "address=dst_ip,port=dst_port"
  NamedSets* sets = nullptr;            // gets the entries set by set, too; outlives the reading
};

// Reads the next part of a feed's text; an empty one is its end. Appends the entries to list.v4 and list.v6, and fills
// list.feed: lines (of the parts before, too), entries, bad and skipped ones with samples. Any bytes are a feed: what
// is not understood is a bad line (add_bad_line). A text that as a whole is no feed of the format gets a list.fault.
using Read = std::function<void(std::string_view part, ListDraft& list)>;

enum class Parts : uint8_t {
  lines,  // whole ones; of one longer than kMostTextBytes only the beginning is there
  bytes,  // any; the text may be one line
};

struct Setting {
  const char* name;
  const char* what;  // one line for people
};

// A new one is a file beside this one and a row in format.cpp.
struct Format {
  const char* name;
  const char* what;  // one line for people
  // Why a feed that begins like this is of the format: "line 3 begins with `add `". Empty: nothing speaks for it.
  std::string (*recognise)(std::string_view beginning);
  // beginning: of the text, kBeginningBytes or more where there are as many; good until it returns.
  Read (*start)(const Options& options, std::string_view beginning);
  Parts parts = Parts::lines;
  bool is_json = false;  // JSON is no wonder
  std::span<const Setting> settings = {};
};

// In the order in which `auto` asks them: what is more special stands before what is less. The last one is plain.
std::span<const Format* const> formats();
const Format& plain_format();

// By name. nullptr: there is no such format.
const Format* find_format(std::string_view name);

// What `auto` takes for a feed that begins like this, and why.
struct Recognised {
  const Format* format;
  std::string why;
  std::optional<FeedFault> fault = {};  // it is a known structure that no format reads
};
Recognised recognise(std::string_view beginning);

// The value of one setting; empty: it has none.
std::string_view find_setting(std::string_view settings, std::string_view name);

// A whole text at once, without a byte order mark at its start.
void read_text(const Format& format, std::string_view text, const Options& options, ListDraft& list);

// What a file holds that is no list of lines.
struct Content {
  const char* what;  // as in "FILE is ...": "a zip archive", "an HTML page"
  const char* hint;  // the way out
  bool is_json = false;
};

// By how it begins (some kilobytes are enough). Null: nothing speaks against text.
const Content* content_of(std::string_view beginning);

// A short text with at most three entries may be an error answer, in words of HTTP or in prose. Its
// entries are addresses of whoever asked. Empty: it says nothing of the kind. JSON says so itself: json_records.h.
std::optional<FeedFault> error_answer(std::string_view text);

// Whether a plain feed may have this line (trimmed, and more than a comment): what is in doubt is plain.
bool is_plain_entry(std::string_view line);

}  // namespace weir::control::feeds
