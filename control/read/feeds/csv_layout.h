#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/read/feeds/field_names.h"
#include "control/read/feeds/format.h"

// Which columns of a table are meant. All rows at hand are asked, never one alone: settings decide, else names of
// columns, else what the columns hold. Where two readings are left, the table is refused.
namespace weir::control::feeds::csv {

constexpr size_t kMostRecordBytes = size_t{64} << 10, kMostRecordLines = 64;       // of one that a quote keeps open
constexpr const char* kPartNames[kParts] = {"address", "last", "port", "length"};  // in the order of Part

// An entry, or what was meant as one: 192.0.2.300, 203.0.113.*.
bool is_meant_as_address(std::string_view text);

// Why a text that begins like this is a table; empty: it is none. Its first row names columns, or its lines have three
// and more, divided by TAB or semicolons, though they look like plain entries with remarks, too.
std::string why_table(std::string_view beginning);

struct Record {
  uint32_t line;  // of its beginning
  std::vector<std::string> fields;
};

// What tells one record after the other from lines.
class Records {
 public:
  explicit Records(char separator) : separator_(separator) {}
  char separator() const { return separator_; }

  // The next line, without its LF. True: it ends a record, which is in `record`.
  bool read(std::string_view line, uint32_t number, Record& record);
  bool is_open() const { return !open_.empty(); }
  uint32_t opened_at() const { return opened_at_; }
  // Whether the open record is longer than one may be: its quote was a stray one.
  bool is_too_long() const { return open_.size() > kMostRecordBytes || open_lines_ >= kMostRecordLines; }
  // The lines of the open record, which is forgotten.
  std::string give_up();

 private:
  char separator_;
  std::string open_;  // whose quotes go on in the next line
  size_t open_lines_ = 0;
  uint32_t opened_at_ = 0;
};

// sure: whatever the address is. Others: beside an address that has a length itself, it is something else; of_numbers
// and of_masks: so is what is no number, or no netmask.
enum class LengthColumn : uint8_t { sure, vague, of_numbers, of_masks };

struct Layout {
  char separator = '\0';                              // 0: there was no row to tell it by
  std::array<std::optional<size_t>, kParts> columns;  // by Part
  LengthColumn length_column = LengthColumn::sure;
  std::vector<std::string> names;     // of all columns; empty: nobody names them
  uint32_t names_line = 0;            // of the row that names them; 0: there is none
  std::vector<bool> are_verdicts;     // columns that hold nothing else, whatever they are called
  std::vector<size_t> maybe_lengths;  // columns of numbers that nobody ruled out to be prefix lengths
  bool is_by_content = false;         // by what the columns hold: a second address in a row makes it a bad one
  std::optional<FeedFault> fault;
  std::vector<FeedNote> notes;
};

// text: the beginning of the table, or a part of it. is_whole: it ends with a whole line.
Layout layout_of(std::string_view text, bool is_whole, const Options& options);

// `format: {csv: {address: src_ip}}`, with the name or the number of the column.
std::string setting_of(const Layout& layout, Part part, size_t column);

}  // namespace weir::control::feeds::csv
