#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

// HTML whose only markup is this program's own. Everything else (names of lists, comments, what a feed's server said)
// is text, and is escaped here and nowhere else.
namespace weir::control::page {

// Of the source of this program: nothing that is known only at run time can become markup.
class Markup {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a literal is markup
  consteval Markup(const char* literal) : text_(literal) {}
  std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

// Anything else. In elements, and in attributes with double quotes.
struct Text {
  explicit Text(std::string_view of) : text(of) {}
  std::string_view text;
};

class Html {
 public:
  Html& operator<<(Markup markup) { return text_ += markup.text(), *this; }
  Html& operator<<(Text text);
  Html& operator<<(std::integral auto number) { return text_ += std::to_string(number), *this; }
  // 0.1: with one digit behind the point, none when that is 0. For places in drawings.
  Html& tenths(double number);
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// & < > " ' become references, what common/printable.h hides becomes an escape.
std::string escaped(std::string_view text);

}  // namespace weir::control::page
