#include "common/printable.h"

#include <algorithm>
#include <iterator>

namespace weir {
namespace {

struct CodeRange {
  char32_t first, last;
};
// Unicode categories Cc, Cf, Zl and Zp.
constexpr CodeRange kHidden[] = {
    {0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},   {0x180e, 0x180e}, {0x200b, 0x200b},
    {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f},
};

void append_hex(std::string& to, const char* begin, char32_t value, unsigned digits) {
  to += begin;
  for (unsigned i = digits; i-- > 0;) to += "0123456789abcdef"[value >> 4 * i & 15];
}

// \u202e; past the first plane a pair of surrogates, as JSON has it (RFC 8259, section 7).
void append_unicode(std::string& to, char32_t code) {
  if (code > 0xffff) {
    append_hex(to, "\\u", 0xd800 + ((code - 0x10000) >> 10), 4);
    code = 0xdc00 + ((code - 0x10000) & 0x3ff);
  }
  append_hex(to, "\\u", code, 4);
}

bool is_plain(char c) {
  return c >= ' ' && c <= '~';
}

// Plain ASCII goes by as a whole, what `keeps` names too; append(text) takes a character off the text.
template <class Keeps, class Append>
std::string each_shown(std::string_view text, Keeps keeps, Append append) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const auto end = std::find_if_not(text.begin(), text.end(), [&](char c) { return is_plain(c) || keeps(c); });
    const auto plain = static_cast<size_t>(end - text.begin());
    shown += text.substr(0, plain);
    text.remove_prefix(plain);
    if (!text.empty()) append(shown, text);
  }
  return shown;
}

bool keeps_none(char) {
  return false;
}
bool keeps_lines(char c) {
  return c == '\n' || c == '\t';
}

}  // namespace

Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first >= 0xc2 && first < 0xe0   ? 2
                       : (first & 0xf0) == 0xe0        ? 3
                       : first >= 0xf0 && first < 0xf5 ? 4
                                                       : 0;
  if (bytes == 0 || text.size() < bytes) return {};
  char32_t code = first & (0xffu >> (bytes + 1));
  for (size_t i = 1; i < bytes; i++) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  return code < kLeast[bytes] || is_surrogate || code > 0x10ffff ? Character{} : Character{code, bytes};
}

bool is_hidden(char32_t code) {
  return std::any_of(std::begin(kHidden), std::end(kHidden),
                     [&](const CodeRange& range) { return range.first <= code && code <= range.last; });
}

void append_printable(std::string& to, std::string_view& text) {
  const Character next = first_character(text);
  if (next.bytes == 0) {
    append_hex(to, "\\x", static_cast<unsigned char>(text[0]), 2);
  } else if (next.code == '\n' || next.code == '\t' || next.code == '\r') {
    to += next.code == '\n' ? "\\n" : next.code == '\t' ? "\\t" : "\\r";
  } else if (!is_hidden(next.code)) {
    to += text.substr(0, next.bytes);
  } else if (next.bytes == 1) {
    append_hex(to, "\\x", next.code, 2);
  } else {
    append_unicode(to, next.code);
  }
  text.remove_prefix(std::max<size_t>(1, next.bytes));
}

std::string printable(std::string_view text) {
  return each_shown(text, keeps_none, append_printable);
}

std::string printable_lines(std::string_view text) {
  return each_shown(text, keeps_lines, append_printable);
}

std::string printable_json(std::string_view json) {
  return each_shown(
      json, [](char c) { return c == '\n'; },
      [](std::string& to, std::string_view& text) {
        const Character next = first_character(text);
        if (next.bytes == 0 || !is_hidden(next.code)) {
          to += text.substr(0, std::max<size_t>(1, next.bytes));
        } else {
          append_unicode(to, next.code);
        }
        text.remove_prefix(std::max<size_t>(1, next.bytes));
      });
}

void print_text(FILE* to, std::string_view text) {
  const std::string shown = printable_lines(text);
  (void)fwrite(shown.data(), 1, shown.size(), to);
}

std::string shortened(std::string_view text, size_t most_bytes) {
  if (text.size() <= most_bytes) return std::string(text);
  size_t end = most_bytes;
  // Four bytes at most are one character: more of them that go on are no UTF-8.
  for (unsigned back = 0; back < 4 && end > 0; back++, end--) {
    if ((static_cast<unsigned char>(text[end]) & 0xc0) != 0x80) return std::string(text.substr(0, end));
  }
  return std::string(text.substr(0, most_bytes));
}

}  // namespace weir
