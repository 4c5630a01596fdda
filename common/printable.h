#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

// Text of strangers (policies, feeds, comments, peers) as it leaves for a terminal, a log, a label or a page. Whoever
// writes the text calls this, not whoever has it. UTF-8 stays. A character that a reader cannot see, or that a terminal
// obeys, becomes an escape: \x1b, \u202e; a byte that is no UTF-8, too: \x9b.
namespace weir {

struct Character {
  char32_t code = 0;
  size_t bytes = 0;  // 0: it is no UTF-8
};
// The text is not empty. RFC 3629: no longer form than needed, no surrogates, U+10FFFF at most.
Character first_character(std::string_view text);

// C0 and C1 controls and DEL; what changes the direction of text (Unicode TR 9), ends lines (U+2028, U+2029) or has no
// width. Not U+200C and U+200D, which words of some languages need.
bool is_hidden(char32_t code);

// Appends the first character of the text as it is shown, and takes it off. \n, \t and \r are two letters.
void append_printable(std::string& to, std::string_view& text);

std::string printable(std::string_view text);        // as one line
std::string printable_lines(std::string_view text);  // \n and \t stay
// A JSON text whose members have such characters: they become escapes of JSON, \u009b.
std::string printable_json(std::string_view json);

// printable_lines(), written.
void print_text(FILE* to, std::string_view text);

// The beginning, at most so many bytes; no character is cut in two.
std::string shortened(std::string_view text, size_t most_bytes);

}  // namespace weir
