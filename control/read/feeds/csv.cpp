#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "control/read/feeds/field_names.h"
#include "control/read/feeds/take.h"

// Rows of columns (RFC 4180): which column holds the address is decided once, by the settings, by the names in the
// first row, or by the only address in it. No other column is ever looked at: a text that has an address in it is no
// entry.
namespace weir::control::feeds {
namespace csv {

constexpr size_t kMostRecordBytes = size_t{64} << 10, kMostRecordLines = 64;  // of one that a quote keeps open
constexpr size_t kMostColumns = 256;
constexpr const char* kSayWhich = "say which column it is, as in `format: {csv: {address: 2, port: 3}}`";

constexpr Setting kSettings[] = {
    {"address", "column of the address or prefix: its name in the first row, or its number from 1 on"},
    {"last", "column of the last address of a range"},
    {"port", "column of the port; `none`: it has none, whatever it is called"},
    {"length", "column of the prefix length"},
    {"separator", "comma, semicolon, tab, pipe or space; left out: what divides the first row"},
};
constexpr const char* kPartNames[kParts] = {"address", "last", "port", "length"};  // in the order of Part

char separator_named(std::string_view name) {
  constexpr struct {
    std::string_view name;
    char separator;
  } kNames[] = {{"comma", ','}, {"semicolon", ';'}, {"tab", '\t'}, {"pipe", '|'}, {"space", ' '}};
  for (const auto& one : kNames) {
    if (one.name == name) return one.separator;
  }
  return '\0';
}

// What divides the row: what it has most of, outside of quotes.
char separator_of(std::string_view row) {
  constexpr std::string_view kSeparators = ",;\t|";
  std::array<unsigned, kSeparators.size()> counts = {};
  bool in_quotes = false;
  for (const char c : row) {
    in_quotes ^= c == '"';
    const size_t which = kSeparators.find(c);
    if (!in_quotes && which != std::string_view::npos) counts[which]++;
  }
  const auto most = std::max_element(counts.begin(), counts.end());
  return kSeparators[static_cast<size_t>(most - counts.begin())];
}

// False: a quote is open at its end.
bool split(std::string_view row, char separator, std::vector<std::string>& fields) {
  fields.clear();
  size_t at = 0;
  while (true) {
    std::string field;
    while (at < row.size() && row[at] != separator && (row[at] == ' ' || row[at] == '\t')) at++;
    if (at < row.size() && row[at] == '"') {
      for (at++;; at++) {
        if (at >= row.size()) return false;
        if (row[at] != '"') {
          field += row[at];
        } else if (at + 1 < row.size() && row[at + 1] == '"') {
          field += row[at++];
        } else {
          break;
        }
      }
      at++;
    }
    const size_t end = std::min(row.find(separator, at), row.size());
    field += row.substr(at, end - at);
    if (fields.size() < kMostColumns) fields.emplace_back(trim(field));
    if (end == row.size()) return true;
    at = end + 1;
  }
}

bool is_entry(std::string_view text) {
  return !text.empty() && !std::holds_alternative<EntryError>(parse_entry(text, LeadingZeros::decimal));
}

// `2a01:fb00::` beside 29 is hardly a host.
bool may_be_prefix(const std::string& address, const std::string& beside) {
  if (!is_number(beside) || beside.size() > 3) return false;
  const auto v4 = parse_ipv4(address);
  const auto v6 = parse_ipv6(address);
  return (v4 && (*v4 & 0xff) == 0) || (v6 && static_cast<uint64_t>(*v6) == 0);
}

class Reader {
 public:
  explicit Reader(Options options)
      : options_(std::move(options)), separator_(separator_named(find_setting(options_.settings, "separator"))) {}

  void read(std::string_view part, ListDraft& list) {
    const uint64_t before = list.entries();
    if (part.empty() && !open_.empty()) {
      list.fault = FeedFault{fmt::format("ends inside of the quotes of line {}", record_line_),
                             "get the file again: it is cut off"};
    }
    while (!part.empty() && !list.fault) {
      std::string_view line = next_line(part);
      list.feed.lines++;
      if (line.ends_with('\r')) line.remove_suffix(1);
      read_line(line, list);
    }
    list.feed.entries += list.entries() - before;
  }

 private:
  void read_line(std::string_view line, ListDraft& list) {
    if (open_.empty()) {
      record_line_ = static_cast<uint32_t>(list.feed.lines);
      if (trim(line).empty() || trim(line)[0] == '#') return;
      if (separator_ == '\0') separator_ = separator_of(line);
      if (split(line, separator_, fields_)) return end_record(line, list);
      open_ = line;
      open_lines_ = 1;
      return;
    }
    open_ += '\n';
    open_ += line;
    open_lines_++;
    if (split(open_, separator_, fields_)) {
      end_record(open_, list);
      open_.clear();
    } else if (open_.size() > kMostRecordBytes || open_lines_ >= kMostRecordLines) {
      add_bad_line(list.feed, record_line_, open_, "the quotes are not closed");
      open_.clear();
    }
  }

  void end_record(std::string_view row, ListDraft& list) {
    if (!is_decided_ && !decide(row, list)) return;
    if (const Outcome outcome = take_record(list); outcome.kind != Outcome::fine) {
      add_outcome(outcome, list.feed, record_line_, row);
    }
  }

  std::string_view field(Part part) const {
    const auto& column = columns_[static_cast<size_t>(part)];
    return column && *column < fields_.size() ? std::string_view(fields_[*column]) : std::string_view();
  }

  Outcome take_record(ListDraft& list) {
    const std::string_view address = field(Part::address), last = field(Part::last), port = field(Part::port),
                           length = field(Part::length);
    if (address.empty()) return "the column of the address is empty";
    const At at = {record_line_};
    if (columns_[static_cast<size_t>(Part::last)]) return take_range(address, last, at, options_, list);
    if (!length.empty()) return take_prefix(address, length, at, options_, list);
    if (!port.empty()) return take_port(address, port, at, options_, list);
    return take(address, at, options_, list);
  }

  // True: the row is one of entries. False: it has the names of the columns, or says nothing about them.
  bool decide(std::string_view row, ListDraft& list) {
    bool has_setting = false, has_name = false;
    for (const char* part : kPartNames) {
      const std::string_view wanted = find_setting(options_.settings, part);
      has_setting |= !wanted.empty() && wanted != "none";
      has_name |= !wanted.empty() && wanted != "none" && !is_number(wanted);
    }
    if (has_setting) return decide_by_settings(has_name, list);
    const auto n_entries = static_cast<size_t>(std::count_if(fields_.begin(), fields_.end(), is_entry));
    if (n_entries == 0) return decide_by_names(row, list), false;
    return decide_by_content(n_entries, list);
  }

  bool decide_by_settings(bool has_name, ListDraft& list) {
    for (size_t part = 0; part < kParts; part++) {
      const std::string_view wanted = find_setting(options_.settings, kPartNames[part]);
      if (wanted.empty() || wanted == "none") continue;
      if (is_number(wanted) && wanted.size() < 4) {
        const size_t number = std::stoul(std::string(wanted));
        columns_[part] = number == 0 ? kMostColumns : number - 1;
        continue;
      }
      const auto found = std::find_if(fields_.begin(), fields_.end(),
                                      [&](const std::string& name) { return lower(name) == lower(wanted); });
      if (found == fields_.end()) {
        list.fault = FeedFault{fmt::format("has no column `{}` (`format: csv`, {}): line {} names {}", wanted,
                                           kPartNames[part], record_line_, shown()),
                               "name a column of the first row, or give its number"};
        return false;
      }
      columns_[part] = static_cast<size_t>(found - fields_.begin());
    }
    is_decided_ = true;
    return !has_name && is_entry(field(Part::address));  // else it is the row of names
  }

  void decide_by_names(std::string_view row, ListDraft& list) {
    std::array<std::optional<NamedPart>, kParts> best;
    bool has_source = false, has_destination = false;
    for (size_t i = 0; i < fields_.size(); i++) {
      const auto named = part_named(fields_[i]);
      if (!named) continue;
      const auto part = static_cast<size_t>(named->part);
      has_source |= named->part == Part::address && lower(fields_[i]).starts_with("s");
      has_destination |= named->part == Part::address && lower(fields_[i]).starts_with("d");
      if (best[part] && best[part]->rank <= named->rank) continue;
      best[part] = named;
      columns_[part] = i;
    }
    const auto& address = best[static_cast<size_t>(Part::address)];
    if (!address) {
      columns_ = {};
      return add_bad_line(list.feed, record_line_, row, "neither an address nor the name of a column of addresses");
    }
    if (has_source && has_destination && lower(fields_[*columns_[0]])[0] == 'd') {
      list.fault = FeedFault{
          fmt::format("has columns for sources and for destinations: line {} names {}", record_line_, shown()),
          kSayWhich};
      return;
    }
    if (!address->begins_range) columns_[static_cast<size_t>(Part::last)].reset();
    if (find_setting(options_.settings, "port") == "none") columns_[static_cast<size_t>(Part::port)].reset();
    is_decided_ = true;
  }

  bool decide_by_content(size_t n_entries, ListDraft& list) {
    const auto found = std::find_if(fields_.begin(), fields_.end(), is_entry);
    const auto column = static_cast<size_t>(found - fields_.begin());
    if (n_entries > 1) {
      list.fault = FeedFault{
          fmt::format("has no names of columns, and {} addresses on line {}: {}", n_entries, record_line_, shown()),
          "say which column is which: `format: {csv: {address: 1, last: 2}}` are ranges"};
      return false;
    }
    if (column + 1 < fields_.size() && may_be_prefix(*found, fields_[column + 1])) {
      list.fault = FeedFault{fmt::format("has no names of columns, and on line {} {} beside {}, which may be a prefix "
                                         "length",
                                         record_line_, printable(fields_[column + 1], 3), printable(*found, 45)),
                             "say so, as in `format: {csv: {address: 1, length: 2}}`, or that `address` is all"};
      return false;
    }
    columns_[static_cast<size_t>(Part::address)] = column;
    is_decided_ = true;
    return true;
  }

  std::string shown() const {
    constexpr size_t kShown = 120;
    std::string all;
    for (const std::string& field : fields_) all += (all.empty() ? "" : ", ") + field;
    return printable(all, kShown);
  }

  const Options options_;
  char separator_;  // 0: not known yet
  std::array<std::optional<size_t>, kParts> columns_;
  bool is_decided_ = false;
  std::vector<std::string> fields_;  // of the record
  std::string open_;                 // of a record whose quotes go on in the next line
  size_t open_lines_ = 0;
  uint32_t record_line_ = 0;
};

// Names of columns, or quotes, or an address among other fields.
bool is_like(std::string_view line) {
  std::vector<std::string> fields;
  if (!split(line, separator_of(line), fields) || fields.size() < 2) return false;
  const bool names = std::any_of(fields.begin(), fields.end(), [](const std::string& field) {
    const auto named = part_named(field);
    return named && named->part == Part::address;
  });
  return names || std::any_of(fields.begin(), fields.end(), is_entry);
}

std::string recognise(std::string_view beginning) {
  return recognise_lines(beginning, is_like, "has columns, one of them of addresses");
}

Read start(const Options& options) {
  auto reader = std::make_shared<Reader>(options);
  return [reader](std::string_view part, ListDraft& list) { reader->read(part, list); };
}

}  // namespace csv

extern const Format kCsvFormat;
const Format kCsvFormat = {
    "csv",          "columns; the address in the one that a first row names, or that the settings name",
    csv::recognise, csv::start,
    Parts::lines,   false,
    csv::kSettings};

}  // namespace weir::control::feeds
