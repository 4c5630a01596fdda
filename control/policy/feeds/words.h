#pragma once

#include <algorithm>
#include <string>
#include <string_view>

// Tables of words, and how a word is looked up in them.
namespace weir::control::feeds::words {

template <size_t N>
bool is_one_of(std::string_view word, const std::string_view (&table)[N]) {
  return std::find(std::begin(table), std::end(table), word) != std::end(table);
}

template <size_t N>
bool begins_with_one_of(std::string_view word, const std::string_view (&table)[N]) {
  return std::any_of(std::begin(table), std::end(table), [&](auto one) { return word.starts_with(one); });
}

template <size_t N>
bool holds_one_of(std::string_view text, const std::string_view (&table)[N]) {
  return std::any_of(std::begin(table), std::end(table), [&](auto one) { return text.find(one) != text.npos; });
}

// Letters and digits alone, in lower case: `Src_IP` -> srcip. Of the first `longest` bytes.
inline std::string letters_of(std::string_view text, size_t longest) {
  std::string letters;
  for (const char c : text.substr(0, longest)) {
    if (c >= 'A' && c <= 'Z') letters += static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) letters += c;
  }
  return letters;
}

}  // namespace weir::control::feeds::words
