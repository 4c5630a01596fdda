#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "control/read/feeds/csv_text.h"
#include "control/read/feeds/field_names.h"
#include "control/read/feeds/length_doubt.h"
#include "control/read/feeds/plain.h"
#include "control/read/feeds/take.h"

// Rows of columns: which column holds the address is decided once, by the settings, by the names in the first row or in
// the last comment before it, or by the only address in it. No other column is ever looked at: a text that has an
// address in it is no entry.
namespace weir::control::feeds {
namespace csv {

constexpr size_t kMostRecordBytes = size_t{64} << 10, kMostRecordLines = 64;  // of one that a quote keeps open
constexpr const char* kSayWhich = "say which column it is, as in `format: {csv: {address: 2, port: 3}}`";

constexpr Setting kSettings[] = {
    {"address", "column of the address or prefix: its name in the first row, or its number from 1 on"},
    {"last", "column of the last address of a range"},
    {"port", "column of the port; `none`: it has none, whatever it is called"},
    {"length", "column of the prefix length"},
    {"separator", "comma, semicolon, tab, pipe or space; left out: what divides the first row"},
};
constexpr const char* kPartNames[kParts] = {"address", "last", "port", "length"};  // in the order of Part

bool is_entry(std::string_view text) {
  return !text.empty() && !std::holds_alternative<EntryError>(parse_entry(text, LeadingZeros::decimal));
}

bool names_address(std::string_view field) {
  const auto named = part_named(field);
  return named && named->part == Part::address;
}

class Reader {
 public:
  explicit Reader(Options options)
      : options_(std::move(options)), separator_(separator_named(find_setting(options_.settings, "separator"))) {}

  void read(std::string_view part, ListDraft& list) {
    const uint64_t before = list.entries();
    if (part.empty()) end(list);
    while (!part.empty() && !list.fault) {
      std::string_view line = next_line(part);
      list.feed.lines++;
      if (line.ends_with('\r')) line.remove_suffix(1);
      read_line(line, list);
    }
    list.feed.entries += list.entries() - before;
  }

 private:
  void end(ListDraft& list) const {
    if (!open_.empty()) {
      list.fault = FeedFault{fmt::format("ends inside of the quotes of line {}", record_line_),
                             "get the file again: it is cut off", true};
    } else if (doubt_.is_founded()) {
      list.fault = FeedFault{
          fmt::format("has {} beside {} on line {}, which may be a prefix length", printable(doubt_.number(), 4),
                      printable(doubt_.address(), 45), doubt_.line()),
          fmt::format("say so: `format: {{csv: {{address: {0}, length: {1}}}}}`, or that `{{address: {0}}}` is all",
                      *columns_[static_cast<size_t>(Part::address)] + 1, *beside_ + 1)};
    }
  }

  void read_line(std::string_view line, ListDraft& list) {
    if (open_.empty()) {
      record_line_ = static_cast<uint32_t>(list.feed.lines);
      if (!read_row(line, list)) {
        open_ = line;
        open_lines_ = 1;
      }
      return;
    }
    open_ += '\n';
    open_ += line;
    open_lines_++;
    if (split(open_, separator_, fields_)) {
      end_record(open_, list);
      open_.clear();
    } else if (open_.size() > kMostRecordBytes || open_lines_ >= kMostRecordLines) {
      give_up(std::exchange(open_, {}), list);
    }
  }

  // False: a quote is open at its end.
  bool read_row(std::string_view line, ListDraft& list) {
    const std::string_view text = trim(line);
    if (text.starts_with('#') && !is_decided_) keep_comment(text);
    if (text.empty() || text[0] == '#') return true;
    if (separator_ == '\0') separator_ = separator_of(line);
    if (!split(line, separator_, fields_)) return false;
    end_record(line, list);
    return true;
  }

  // The quote was a stray one: what follows its line are rows.
  void give_up(const std::string& record, ListDraft& list) {
    constexpr const char* kOpen = "the quotes are not closed";
    std::string_view lines = record;
    add_bad_line(list.feed, record_line_, next_line(lines), kOpen);
    while (!lines.empty() && !list.fault) {
      const std::string_view line = next_line(lines);
      record_line_++;
      if (!read_row(line, list)) add_bad_line(list.feed, record_line_, line, kOpen);
    }
  }

  void keep_comment(std::string_view text) {
    text = trim(text.substr(std::min(text.find_first_not_of("#-=* "), text.size())));  // lines are drawn, too
    if (!text.empty() && text.size() <= kMostRecordBytes) comment_ = text;
  }

  void end_record(std::string_view row, ListDraft& list) {
    if (!is_decided_ && !decide(row, list)) return;
    if (const Outcome outcome = take_record(list); outcome.kind != Outcome::fine) {
      add_outcome(outcome, list.feed, record_line_, row);
    }
  }

  std::string_view field(const std::optional<size_t>& column) const {
    return column && *column < fields_.size() ? std::string_view(fields_[*column]) : std::string_view();
  }
  std::string_view field(Part part) const { return field(columns_[static_cast<size_t>(part)]); }

  Outcome take_record(ListDraft& list) {
    const PartTexts parts = {field(Part::address), field(Part::last), field(Part::port),
                             length_beside(field(Part::address))};
    if (parts.address.empty()) return "the column of the address is empty";
    if (beside_) doubt_.look(record_line_, parts.address, field(beside_));
    return take_parts(parts, {record_line_}, options_, list);
  }

  std::string_view length_beside(std::string_view address) const {
    const std::string_view length = field(Part::length);
    const bool has_own = address.find_first_of("/-") != std::string_view::npos;
    if (length_column_ != LengthColumn::sure && has_own) return {};
    return length_column_ == LengthColumn::of_numbers && !is_length(length) ? std::string_view() : length;
  }

  // True: the row is one of entries. False: it has the names of the columns, or says nothing about them.
  bool decide(std::string_view row, ListDraft& list) {
    bool has_setting = false, has_name = false;
    for (const char* part : kPartNames) {
      const std::string_view wanted = find_setting(options_.settings, part);
      has_setting |= !wanted.empty() && wanted != "none";
      has_name |= !wanted.empty() && wanted != "none" && !is_number(wanted);
    }
    const bool is_by_name = has_name || !has_setting;
    if (std::vector<std::string> names = names_in_comment(); is_by_name && !names.empty()) {
      fields_.swap(names);
      has_name ? (void)decide_by_settings(true, list) : decide_by_names(row, list);
      fields_.swap(names);
      return is_decided_;
    }
    if (has_setting) return decide_by_settings(has_name, list);
    const auto n_entries = static_cast<size_t>(std::count_if(fields_.begin(), fields_.end(), is_entry));
    if (n_entries == 0) return decide_by_names(row, list), false;
    return decide_by_content(n_entries, list);
  }

  // Of as many columns as the row has. Empty: the last comment before it names none, or the row does so itself.
  std::vector<std::string> names_in_comment() {
    std::vector<std::string> names;
    const std::string comment = std::exchange(comment_, {});
    if (comment.empty() || !split(comment, separator_, names) || names.size() != fields_.size()) return {};
    const std::string wanted = lower(find_setting(options_.settings, kPartNames[0]));
    bool has_address = false;
    for (size_t i = 0; i < names.size(); i++) {
      if (!names_address(names[i]) && lower(names[i]) != wanted) continue;
      has_address = true;
      if (names_address(fields_[i]) || lower(fields_[i]) == lower(names[i])) return {};
    }
    return has_address && names.size() > 1 ? names : std::vector<std::string>();
  }

  bool decide_by_settings(bool has_name, ListDraft& list) {
    for (size_t part = 0; part < kParts; part++) {
      const std::string_view wanted = find_setting(options_.settings, kPartNames[part]);
      if (wanted.empty() || wanted == "none") continue;
      if (is_number(wanted) && wanted.size() < 4) {
        const size_t number = std::stoul(std::string(wanted));
        columns_[part] = number - 1;  // 0: there is none
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
    find_length(best[static_cast<size_t>(Part::length)]);
    is_decided_ = true;
  }

  // Beside the address, which is decided, and where no range has its end.
  void find_length(const std::optional<NamedPart>& named) {
    if (named && named->is_vague) length_column_ = LengthColumn::vague;
    if (named || columns_[static_cast<size_t>(Part::last)]) return;
    const size_t address = *columns_[static_cast<size_t>(Part::address)];
    for (size_t i = 0; i < fields_.size(); i++) {
      if (i == address || !may_name_length(fields_[i])) continue;
      columns_[static_cast<size_t>(Part::length)] = i;
      length_column_ = LengthColumn::of_numbers;
      return;
    }
    if (address + 1 < fields_.size() && !rules_out_length(fields_[address + 1])) beside_ = address + 1;
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
    columns_[static_cast<size_t>(Part::address)] = column;
    beside_ = column + 1;
    is_decided_ = true;
    return true;
  }

  std::string shown() const {
    constexpr size_t kShown = 120;
    std::string all;
    for (const std::string& field : fields_) all += (all.empty() ? "" : ", ") + field;
    return printable(all, kShown);
  }

  // vague, of_numbers: beside an address that has a length itself, it is something else.
  enum class LengthColumn : uint8_t { sure, vague, of_numbers };

  const Options options_;
  char separator_;  // 0: not known yet
  std::array<std::optional<size_t>, kParts> columns_;
  LengthColumn length_column_ = LengthColumn::sure;
  std::optional<size_t> beside_;  // the column in which there may be a length that nobody named
  LengthDoubt doubt_;
  std::string comment_;  // the last one before the first row
  bool is_decided_ = false;
  std::vector<std::string> fields_;  // of the record
  std::string open_;                 // of a record whose quotes go on in the next line
  size_t open_lines_ = 0;
  uint32_t record_line_ = 0;
};

// Names of columns, or quotes, or an address among other fields.
bool is_like(std::string_view line) {
  std::vector<std::string> fields;
  if (!split(line, separator_of(line), fields) || (fields.size() < 2 && !line.starts_with('"'))) return false;
  return std::any_of(fields.begin(), fields.end(), names_address) ||
         std::any_of(fields.begin(), fields.end(), is_entry);
}

// The next line that is no comment, and its number.
std::string_view next_row(std::string_view& text, unsigned& number) {
  while (!text.empty()) {
    const std::string_view line = trim(next_line(text));
    number++;
    if (!line.empty() && line[0] != '#' && line[0] != ';') return line;
  }
  return {};
}

// The line that names columns, before one of as many: then its rows may well look like plain entries. 0: there is none.
unsigned line_of_names(std::string_view beginning) {
  unsigned number = 0, behind = 0;
  const std::string_view first = next_row(beginning, number), second = next_row(beginning, behind);
  if (second.empty() || is_plain_entry(first)) return 0;
  const char separator = separator_of(first);
  std::vector<std::string> names, fields;
  const bool are_rows = split(first, separator, names) && split(second, separator, fields);
  if (!are_rows || names.size() < 2 || names.size() != fields.size()) return 0;
  return std::any_of(names.begin(), names.end(), names_address) ? number : 0;
}

std::string recognise(std::string_view beginning) {
  if (const unsigned number = line_of_names(beginning)) return fmt::format("line {} names columns", number);
  return recognise_lines(beginning, is_like, "has columns, one of them of addresses");
}

Read start(const Options& options, std::string_view /*beginning*/) {
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
