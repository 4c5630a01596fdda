#pragma once

#include <string>
#include <string_view>
#include <vector>

// Rows of columns (RFC 4180): what divides them.
namespace weir::control::feeds::csv {

char separator_named(std::string_view name);  // comma, semicolon, ...; 0: it is none
// What the row has most of, outside of quotes.
char separator_of(std::string_view row);
// Trimmed fields, 256 at most. False: a quote is open at the end of the row.
bool split(std::string_view row, char separator, std::vector<std::string>& fields);

}  // namespace weir::control::feeds::csv
