#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/policy/feeds/field_names.h"
#include "control/policy/feeds/format.h"

// Which columns of a table are meant. All rows at hand are asked, never one alone: settings decide, else names of
// columns, else what the columns hold. Where two readings are left, the table is refused.
namespace weir::control::feeds::csv {

constexpr const char* kPartNames[kParts] = {"address", "last", "port", "length"};  // in the order of Part

// Why a text that begins like this is a table; empty: it is none. Its first row names columns, or its lines have three
// and more, divided by TAB or semicolons, though they look like plain entries with remarks, too.
std::string why_table(std::string_view beginning);

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
