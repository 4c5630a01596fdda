#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <utility>

#include "common/printable.h"

// The one way to a terminal, for all that controlctl prints as lines: values are anybody's text, so it is printable.
namespace weir::control::ctl {

// Columns that a line of a table may take: those of the terminal. 0: any; nobody looks, or --wide asks for all of it.
size_t columns_to_print();
void print_wide();  // --wide

template <class... Values>
void print(FILE* to, fmt::format_string<Values...> format, Values&&... values) {
  print_text(to, fmt::format(format, std::forward<Values>(values)...));
}

template <class... Values>
void print(fmt::format_string<Values...> format, Values&&... values) {
  print_text(stdout, fmt::format(format, std::forward<Values>(values)...));
}

}  // namespace weir::control::ctl
