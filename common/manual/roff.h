#pragma once

#include <string>
#include <string_view>

#include "common/options/option.h"

// Manual pages as man(7) describes them.
namespace weir::manual {

// As it is to be read: hyphens, backslashes, dots at the start of a line. Between `backquotes`: bold.
std::string escaped(std::string_view text);
// Paragraphs, an empty line between them; lines that begin with blanks are shown as they are. Long lines are broken.
std::string paragraphs(std::string_view text);
// One item of a list: its roff in front, then what it is.
std::string item(std::string_view head, std::string_view text);
// An item for each of them.
std::string rows(const Options& options);
// The first line of a page. source: what is behind it, as in `weir 0.1.0`.
std::string title(std::string_view name, int section, std::string_view name_of_section);
// Of the version; SOURCE_DATE_EPOCH sets another one. 2026-11-24
std::string date();

}  // namespace weir::manual
