#include "control/enforce/past/feed_line.h"

#include <algorithm>
#include <span>
#include <utility>

#include "common/printable.h"
#include "control/policy/feeds/csv_text.h"
#include "control/policy/feeds/entry_text.h"
#include "control/policy/feeds/json_text.h"
#include "control/policy/feeds/take.h"
#include "control/policy/feeds/unpack.h"

namespace weir::control {
namespace {

constexpr size_t kMostLine = 400, kMostValue = 100, kMostColumns = 32;  // characters that are shown, and values
constexpr size_t kMostBytes = 4096;                                     // of a line that are looked at
constexpr size_t kMostHead = 64;  // lines, among which the one with names of columns is

constexpr std::string_view kBlanks = " \t\r\v\f";

std::string_view trimmed(std::string_view text, std::string_view what = kBlanks) {
  text.remove_prefix(std::min(text.find_first_not_of(what), text.size()));
  return text.substr(0, text.find_last_not_of(what) + 1);
}

std::string shown(std::string_view text) {
  return shortened(text, kMostValue);
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
  line.text = shortened(text, kMostLine);
  if (format == "csv") {
    read_row(text, trimmed(names.substr(0, kMostBytes)), line);
  } else if (text.starts_with('{')) {
    read_object(text, line);
  } else if (format == "plain" || format == "spamhaus") {
    const std::string_view rest = text.substr(std::min(text.find_first_of(" \t;#"), text.size()));
    line.comment = shortened(trimmed(rest, ";# \t\r"), kMostLine);
  }
  return line;
}

// Of a whole file.
FeedLines::Index FeedLines::make_index(FeedParts& file, std::string_view format) {
  Index index;
  index.file = file.file();
  std::vector<std::string> head;  // the first lines
  std::string rest;               // of what was read, until the block is whole
  uint32_t number = 1;
  bool is_packed = false;
  const auto add_block = [&](std::string_view block) {
    index.line_at.push_back(number);
    for (std::string_view left = block; number <= kMostHead && !left.empty();) {
      head.resize(number);
      const size_t end = left.find('\n');
      head.back() += left.substr(0, std::min(end, kMostBytes - std::min(kMostBytes, head.back().size())));
      left.remove_prefix(end == std::string_view::npos ? left.size() : end + 1);
      number += end != std::string_view::npos;
      block = left;
    }
    number += static_cast<uint32_t>(std::count(block.begin(), block.end(), '\n'));
  };
  const Result<Digest> read = file.visit([&](std::string_view bytes) {
    if (index.line_at.empty() && rest.empty()) is_packed = feeds::Unpacker::of(bytes) != nullptr;
    rest += bytes;
    size_t at = 0;
    for (; rest.size() - at >= kBlock; at += kBlock) add_block(std::string_view(rest).substr(at, kBlock));
    rest.erase(0, at);
    return !is_packed;
  });
  if (!rest.empty()) add_block(rest);
  if (!read || is_packed) return {index.file, {}, {}, {}};
  index.digest = *read;
  if (format == "csv") index.names = names_in(head);
  return index;
}

std::map<uint32_t, FeedLine> FeedLines::read(const std::string& path, const Digest& digest, std::string_view format,
                                             const std::set<uint32_t>& lines) {
  Result<FeedParts> file = FeedParts::open(path);
  if (!file) return {};
  // Links to a file change when it was changed last, and not what is in it.
  const auto is_same = [&](const FileIdentity& known) {
    const FileIdentity& now = file->file();
    return known.device == now.device && known.inode == now.inode && known.size_bytes == now.size_bytes &&
           known.modified_ns == now.modified_ns;
  };
  auto known = known_.find(path);
  if (known == known_.end() || !is_same(known->second.file) || !file->settled()) {
    if (known_.size() >= kMostFiles) known_.clear();
    known = known_.insert_or_assign(path, make_index(*file, format)).first;
  }
  const Index& index = known->second;
  if (index.line_at.empty() || index.digest != digest) return {};
  std::map<uint32_t, FeedLine> found;
  for (const uint32_t wanted : lines) {
    // The last block that begins before the line does.
    const auto behind = std::lower_bound(index.line_at.begin(), index.line_at.end(), wanted);
    const auto block = static_cast<size_t>(behind - index.line_at.begin());
    uint64_t at = block == 0 ? 0 : (block - 1) * kBlock;
    uint32_t number = block == 0 ? 1 : index.line_at[block - 1];
    std::string line, bytes;
    while (number <= wanted && file->read_at(at, kBlock, bytes) && !bytes.empty()) {
      at += bytes.size();
      for (std::string_view left = bytes; !left.empty() && number <= wanted;) {
        const size_t end = left.find('\n');
        if (number == wanted) line += left.substr(0, std::min(end, kMostBytes - std::min(kMostBytes, line.size())));
        number += end != std::string_view::npos;
        left.remove_prefix(end == std::string_view::npos ? left.size() : end + 1);
      }
    }
    const bool is_there = number > wanted || (number == wanted && !line.empty());
    if (is_there) found.emplace(wanted, understand_feed_line(line, format, index.names));
  }
  return found;
}

}  // namespace weir::control
