#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "control/policy/feeds/csv_layout.h"
#include "control/policy/feeds/csv_text.h"
#include "control/policy/feeds/field_names.h"
#include "control/policy/feeds/format.h"
#include "control/policy/feeds/take.h"
#include "control/policy/feeds/verdict.h"

// Rows of columns. Which column holds the address is decided once, for the whole table: csv_layout.h. No other column
// is read as one: a text that has an address in it is no entry.
namespace weir::control::feeds {
namespace csv {

constexpr Setting kSettings[] = {
    {"address", "column of the address or prefix: its name in the first row, or its number from 1 on"},
    {"last", "column of the last address of a range"},
    {"port", "column of the port; `none`: it has none, whatever it is called"},
    {"length", "column of the prefix length"},
    {"separator", "comma, semicolon, tab, pipe or space (blanks and tabs); left out: what divides most rows"},
};
constexpr const char* kNoNames = "neither an address nor the name of a column of addresses";

// Tells the verdict of a column on each row. It keeps the last one: most fields repeat the field before.
class VerdictColumn {
 public:
  explicit VerdictColumn(std::string name) : name_(std::move(name)) {}
  Verdict of(std::string_view field) {
    if (field == last_) return verdict_;
    last_ = field;
    return verdict_ = verdict_of_member(name_.empty() ? "column" : name_, field);
  }

 private:
  std::string name_, last_;
  Verdict verdict_ = Verdict::none;
};

class Reader {
 public:
  Reader(Options options, std::string_view beginning) : options_(std::move(options)), records_('\0') {
    plan(beginning, beginning.size() < kBeginningBytes);
  }

  void read(std::string_view part, ListDraft& list) {
    const uint64_t before = list.entries();
    if (layout_.separator == '\0' && !part.empty()) plan(part, true);  // it began with comments alone
    if (layout_.fault) {
      list.fault = layout_.fault;
      return;
    }
    if (part.empty()) end(list);
    while (!part.empty() && !list.fault) {
      std::string_view line = next_line(part);
      list.feed.lines++;
      if (line.ends_with('\r')) line.remove_suffix(1);
      read_line(line, static_cast<uint32_t>(list.feed.lines), list);
    }
    list.feed.entries += list.entries() - before;
  }

 private:
  void plan(std::string_view text, bool is_whole) {
    layout_ = layout_of(text, is_whole, options_);
    records_ = Records(layout_.separator);
    doubts_.resize(layout_.maybe_lengths.size());
    verdicts_.clear();
  }

  void end(ListDraft& list) const {
    for (const FeedNote& note : layout_.notes) list.feed.notes.push_back(note);
    if (records_.is_open()) {
      list.fault = FeedFault{fmt::format("ends inside of the quotes of line {}", records_.opened_at()),
                             "get the file again: it is cut off", true};
      return;
    }
    for (size_t i = 0; i < doubts_.size(); i++) {
      const LengthDoubt& doubt = doubts_[i];
      if (!doubt.is_founded()) continue;
      const auto value = [&](size_t column) {
        const bool is_named = column < layout_.names.size() && !layout_.names[column].empty();
        return is_named ? shortened(layout_.names[column], 40) : fmt::format("{}", column + 1);
      };
      const std::string address = value(*layout_.columns[static_cast<size_t>(Part::address)]);
      list.fault = FeedFault{
          fmt::format("has {} beside {} on line {}, which may be a prefix length", shortened(doubt.number(), 4),
                      shortened(doubt.address(), 45), doubt.line()),
          fmt::format("say so: `format: {{csv: {{address: {0}, length: {1}}}}}`, or that `{{address: {0}}}` is all",
                      address, value(layout_.maybe_lengths[i]))};
      return;
    }
  }

  void read_line(std::string_view line, uint32_t number, ListDraft& list) {
    if (!records_.is_open()) {
      const std::string_view text = trim(line);
      if (text.empty() || text[0] == '#') return;
    }
    if (records_.read(line, number, record_)) {
      end_record(line, list);
    } else if (records_.is_too_long()) {
      give_up(list);
    }
  }

  // The quote was a stray one: what follows its line are rows.
  void give_up(ListDraft& list) {
    constexpr const char* kOpen = "the quotes are not closed";
    uint32_t number = records_.opened_at();
    const std::string record = records_.give_up();
    std::string_view lines = record;
    add_bad_line(list.feed, number, next_line(lines), kOpen);
    while (!lines.empty() && !list.fault) {
      const std::string_view line = next_line(lines);
      number++;
      const std::string_view text = trim(line);
      if (text.empty() || text[0] == '#') continue;
      if (records_.read(line, number, record_)) {
        end_record(line, list);
      } else {
        records_.give_up();
        add_bad_line(list.feed, number, line, kOpen);
      }
    }
  }

  void end_record(std::string_view row, ListDraft& list) {
    if (record_.line == layout_.names_line) return;
    const Outcome outcome = take_record(list);
    if (outcome.kind != Outcome::fine) add_outcome(outcome, list.feed, record_.line, row);
  }

  std::string_view field(const std::optional<size_t>& column) const {
    return column && *column < record_.fields.size() ? std::string_view(record_.fields[*column]) : std::string_view();
  }
  std::string_view field(Part part) const { return field(layout_.columns[static_cast<size_t>(part)]); }

  Outcome take_record(ListDraft& list) {
    if (!layout_.columns[static_cast<size_t>(Part::address)]) return kNoNames;
    const PartTexts parts = {field(Part::address), field(Part::last), field(Part::port),
                             length_beside(field(Part::address))};
    if (parts.address.empty()) return "the column of the address is empty";
    if (const Outcome outcome = look_at_others(); outcome.kind != Outcome::fine) return outcome;
    for (size_t i = 0; i < doubts_.size(); i++) {
      doubts_[i].look(record_.line, parts.address, field(layout_.maybe_lengths[i]));
    }
    return take_parts(parts, {record_.line}, options_, list);
  }

  // Other columns may say that the address is none of this list; another address may stand in the row.
  Outcome look_at_others() {
    constexpr size_t kLongest = 40;  // of a verdict
    for (size_t i = 0; i < record_.fields.size(); i++) {
      const bool is_part =
          std::find(layout_.columns.begin(), layout_.columns.end(), std::optional(i)) != layout_.columns.end();
      if (is_part) continue;
      const std::string& text = record_.fields[i];
      if (text.empty() || text.size() > kLongest) continue;
      if (layout_.is_by_content && (text[0] == '[' || (text.find_first_of(".:") != std::string::npos)) &&
          is_entry(text)) {
        return "a second address stands in the row";
      }
      while (verdicts_.size() <= i) {
        const size_t column = verdicts_.size();
        const bool is_verdict = column < layout_.are_verdicts.size() && layout_.are_verdicts[column];
        verdicts_.emplace_back(is_verdict ? "verdict" : column < layout_.names.size() ? layout_.names[column] : "");
      }
      if (const char* why = why_not_of(verdicts_[i].of(text), options_.action)) return Outcome::skip(why);
    }
    return {};
  }

  std::string_view length_beside(std::string_view address) const {
    const std::string_view length = field(Part::length);
    const bool has_own = address.find_first_of("/-") != std::string_view::npos;
    if (layout_.length_column != LengthColumn::sure && has_own) return {};
    if (layout_.length_column == LengthColumn::of_masks && !parse_ipv4(length)) return {};
    return layout_.length_column == LengthColumn::of_numbers && !is_length(length) ? std::string_view() : length;
  }

  const Options options_;
  Layout layout_;
  Records records_;
  Record record_ = {};
  std::vector<LengthDoubt> doubts_;  // of layout_.maybe_lengths
  std::vector<VerdictColumn> verdicts_;
};

// Names of columns, or quotes, or an address among other fields.
bool is_like(std::string_view line) {
  if (line.find_first_of(",;\t|\"") == std::string_view::npos) return false;
  for (const char separator : {',', ';', '\t', '|'}) {
    std::vector<std::string> fields;
    if (!split(line, separator, fields) || (fields.size() < 2 && !line.starts_with('"'))) continue;
    const auto is_one = [](const std::string& field) {
      const auto named = field_named(field);
      return (named && named->part == Part::address) || is_entry(field);
    };
    if (std::any_of(fields.begin(), fields.end(), is_one)) return true;
  }
  return false;
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
  for (const char separator : {',', ';', '\t', '|'}) {
    std::vector<std::string> names, fields;
    // Empty fields at its end were trimmed away.
    const bool are_rows = split(first, separator, names) && split(second, separator, fields);
    if (!are_rows || names.size() < 2 || fields.size() < 2 || fields.size() > names.size()) continue;
    const bool has_address = std::any_of(names.begin(), names.end(), [](const std::string& name) {
      const auto named = field_named(name);
      return named && named->part == Part::address;
    });
    if (has_address) return number;
  }
  return 0;
}

// Rows of three columns and more, divided by TAB or semicolon, look like plain entries with remarks, too.
bool is_table(std::string_view text, char separator) {
  constexpr size_t kMostRows = 1000;
  size_t rows = 0, alike = 0, with_entry = 0, columns = 0;
  while (!text.empty() && rows < kMostRows) {
    const bool is_last = text.find('\n') == std::string_view::npos;
    std::string_view line = next_line(text);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string_view trimmed = trim(line);
    if (trimmed.empty() || trimmed[0] == '#' || trimmed[0] == ';' || (is_last && rows > 1)) continue;
    if (line.find('#') != std::string_view::npos) return false;  // comments are of plain lists
    std::vector<std::string> fields;
    rows++;
    const bool is_row =
        split(line, separator, fields) && fields.size() > 2 &&
        std::count(fields.begin(), fields.end(), std::string()) + 1 < static_cast<ptrdiff_t>(fields.size());
    if (!is_row) continue;
    if (columns == 0) columns = fields.size();
    alike += fields.size() == columns;
    with_entry += std::any_of(fields.begin(), fields.end(), is_meant_as_address);
  }
  return rows > 1 && alike * 10 >= rows * 9 && with_entry * 2 >= rows;
}

std::string why_table(std::string_view beginning) {
  if (const unsigned number = line_of_names(beginning)) return fmt::format("line {} names columns", number);
  if (is_table(beginning, '\t')) return "its lines have columns divided by TAB";
  if (is_table(beginning, ';')) return "its lines have columns divided by semicolons";
  return "";
}

std::string recognise(std::string_view beginning) {
  if (std::string why = why_table(beginning); !why.empty()) return why;
  constexpr unsigned kAsked = 1000;
  return recognise_lines(beginning, is_like, "has columns, one of them of addresses", nullptr, kAsked);
}

Read start(const Options& options, std::string_view beginning) {
  auto reader = std::make_shared<Reader>(options, beginning);
  return [reader](std::string_view part, ListDraft& list) { reader->read(part, list); };
}

}  // namespace csv

extern const Format kCsvFormat;
const Format kCsvFormat = {
    "csv",
    "columns; the address in the one that the settings or the first row name, or the only one that has any",
    csv::recognise,
    csv::start,
    Parts::lines,
    false,
    csv::kSettings};

}  // namespace weir::control::feeds
