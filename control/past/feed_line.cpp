#include "control/past/feed_line.h"

#include <algorithm>
#include <span>
#include <utility>

#include "control/read/feed_parts.h"
#include "control/read/feeds/csv_text.h"
#include "control/read/feeds/entry_text.h"
#include "control/read/feeds/json_text.h"
#include "control/read/feeds/take.h"
#include "control/read/feeds/unpack.h"

namespace weir::control {
namespace {

constexpr size_t kMostLine = 400, kMostValue = 100, kMostColumns = 32;  // characters that are shown, and values
constexpr size_t kMostBytes = 4096;                                     // of a line that are looked at
constexpr size_t kCounted = 4096;                                       // bytes
constexpr size_t kMostHead = 64;  // lines, among which the one with names of columns is

constexpr std::string_view kBlanks = " \t\r\v\f";

std::string_view trimmed(std::string_view text, std::string_view what = kBlanks) {
  text.remove_prefix(std::min(text.find_first_not_of(what), text.size()));
  return text.substr(0, text.find_last_not_of(what) + 1);
}

std::string shown(std::string_view text) {
  return feeds::printable(text, kMostValue);
}

// Scalars of the outermost object.
class Members {
 public:
  explicit Members(FeedLine& line) : line_(line) {}
  void open(bool is_array) { is_object_ |= depth_++ == 0 && !is_array; }
  void close() { depth_--; }
  void key(std::string_view text) {
    if (depth_ == 1) key_ = shown(text);
  }
  void scalar(std::string_view text, bool) {
    if (depth_ != 1 || !is_object_ || line_.columns.size() == kMostColumns) return;
    line_.columns.push_back({key_, shown(text)});
  }

 private:
  FeedLine& line_;
  std::string key_;
  int depth_ = 0;
  bool is_object_ = false;
};

void read_object(std::string_view text, FeedLine& line) {
  FeedLine found;
  Members members(found);
  feeds::JsonText<Members> json;
  if (json.read(text, members) && !json.is_inside()) line.columns = std::move(found.columns);
}

void read_row(std::string_view text, std::string_view names, FeedLine& line) {
  std::vector<std::string> values, titles;
  const char separator = feeds::csv::separator_of(text);
  if (separator == '\0' || !feeds::csv::split(text, separator, values)) return;
  const bool has_names = feeds::csv::split(names, separator, titles) && titles.size() == values.size();
  for (size_t i = 0; i < std::min(values.size(), kMostColumns); i++) {
    line.columns.push_back({has_names ? shown(titles[i]) : std::to_string(i + 1), shown(values[i])});
  }
}

bool is_entry(std::string_view text) {
  return !text.empty() && !std::holds_alternative<EntryError>(parse_entry(text));
}

// The first row when none of its fields is an address, else the last comment before it.
std::string names_in(const std::vector<std::string>& head) {
  std::string comment;
  for (const std::string& line : head) {
    const std::string_view text = trimmed(line);
    if (text.starts_with('#')) {
      const std::string_view rest = trimmed(text, "#-=* \t\r");
      if (!rest.empty()) comment = rest;
    }
    if (text.empty() || text.starts_with('#')) continue;
    std::vector<std::string> fields;
    feeds::csv::split(text, feeds::csv::separator_of(text), fields);
    return std::any_of(fields.begin(), fields.end(), is_entry) ? comment : std::string(text);
  }
  return comment;
}

}  // namespace

FeedLine understand_feed_line(std::string_view text, std::string_view format, std::string_view names) {
  text = trimmed(text.substr(0, kMostBytes));
  FeedLine line;
  line.text = feeds::printable(text, kMostLine);
  if (format == "csv") {
    read_row(text, trimmed(names.substr(0, kMostBytes)), line);
  } else if (text.starts_with('{')) {
    read_object(text, line);
  } else if (format == "plain" || format == "spamhaus") {
    const std::string_view rest = text.substr(std::min(text.find_first_of(" \t;#"), text.size()));
    line.comment = feeds::printable(trimmed(rest, ";# \t\r"), kMostLine);
  }
  return line;
}

std::map<uint32_t, FeedLine> read_feed_lines(const std::string& path, const Digest& digest, std::string_view format,
                                             const std::set<uint32_t>& lines) {
  std::map<uint32_t, std::string> found;
  std::vector<std::string> head;
  Result<FeedParts> file = FeedParts::open(path);
  if (!file) return {};
  uint32_t number = 1;
  bool is_packed = false, is_first = true;
  const auto take = [&](std::string_view part) {  // of the line `number`
    const auto append = [&](std::string& line) {
      line += part.substr(0, kMostBytes - std::min(kMostBytes, line.size()));
    };
    if (lines.contains(number)) append(found[number]);
    if (number > kMostHead) return;
    head.resize(number);
    append(head.back());
  };
  const Result<Digest> read = file->visit([&](std::string_view bytes) {
    if (std::exchange(is_first, false)) is_packed = feeds::Unpacker::of(bytes) != nullptr;
    while (!bytes.empty()) {
      // Most of a file is of no interest: there only ends of lines are counted, which takes a tenth of the time.
      const std::string_view block = bytes.substr(0, kCounted);
      const auto ends = static_cast<uint32_t>(std::count(block.begin(), block.end(), '\n'));
      const auto next = lines.lower_bound(number);
      if (number > kMostHead && (next == lines.end() || *next > number + ends)) {
        number += ends;
        bytes.remove_prefix(block.size());
        continue;
      }
      const size_t end = bytes.find('\n');
      take(bytes.substr(0, end));
      if (end == std::string_view::npos) break;
      bytes.remove_prefix(end + 1);
      number++;
    }
    return !is_packed;
  });
  if (!read || is_packed || *read != digest) return {};
  const std::string names = format == "csv" ? names_in(head) : "";
  std::map<uint32_t, FeedLine> understood;
  for (const auto& [at, line] : found) understood.emplace(at, understand_feed_line(line, format, names));
  return understood;
}

}  // namespace weir::control
