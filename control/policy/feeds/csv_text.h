#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// This file cuts a table into rows (RFC 4180), and says what its columns hold.
namespace weir::control::feeds::csv {

char separator_named(std::string_view name);  // comma, semicolon, ...; 0: it is none
// What the row has most of, outside of quotes.
char separator_of(std::string_view row);
// Trimmed fields, 256 at most. False: a quote is open at the end of the row.
bool split(std::string_view row, char separator, std::vector<std::string>& fields);

// A survey counts the kinds of values in each column, before any column is chosen.

constexpr size_t kMostRecordBytes = size_t{64} << 10, kMostRecordLines = 64;  // of one that a quote keeps open

// An entry, or what was meant as one: 192.0.2.300, 203.0.113.*.
bool is_meant_as_address(std::string_view text);

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

struct Rows {
  std::vector<Record> rows;  // the first 1,000
  std::string comment;       // the last one before the first row
};
// is_whole: the text ends with a whole line.
Rows rows_of(std::string_view text, bool is_whole, char separator);

// The one that divides an entry off in most rows; of as many, the one that makes rows of one width.
char choose_separator(std::string_view text, bool is_whole);

// Of the fields of one column, how many are what.
struct Column {
  size_t entries = 0;   // an entry, or meant as one
  size_t bare = 0;      // of these, without a length or a range
  size_t netmasks = 0;  // of these: 255.255.255.0
  size_t inside = 0;    // an address among other text
  size_t numbers = 0, usual_ports = 0;
  size_t others = 0;  // words
  size_t verdicts = 0, answers = 0, noes = 0,
         yeses = 0;  // of numbers and words: `allow`; yes, no, 0, 1; `no`; the rest of them
};
// names_line: of the row that is left out; 0: none.
std::vector<Column> survey(const std::vector<Record>& rows, uint32_t names_line);

bool is_nothing(std::string_view text);  // `-`, `n/a`, ``
bool has_entry(const Record& row);       // or what was meant as one
// A row of names has neither numbers nor dates nor hosts in it.
bool may_be_name(std::string_view field);

}  // namespace weir::control::feeds::csv
