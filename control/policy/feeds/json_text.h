#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "control/policy/feeds/take.h"

// These types read JSON (RFC 8259) in parts, cut anywhere, and keep only what a value is inside of.
namespace weir::control::feeds {

// Handler: open(is_array), close(), key(text), scalar(text, is_string); `text` is good until it returns. Several
// values may follow each other.
template <class Handler>
class JsonText {
 public:
  static constexpr size_t kMostDepth = 64;
  static constexpr size_t kMostText =
      512;  // bytes of a key or a scalar; the rest is dropped; Handler::kMostText: its own

  explicit JsonText(uint32_t line = 1) : line_(line) {}

  uint32_t line() const { return line_; }                                   // where the reading is, from 1
  bool is_inside() const { return depth_ > 0 || lexeme_ != Lexeme::none; }  // of a value
  const std::string& error() const { return error_; }                       // why the text is no JSON: "line 3: ..."

  // False: it is no JSON, and is not read on.
  bool read(std::string_view part, Handler& handler) {
    for (size_t at = 0; at < part.size() && error_.empty();) {
      if (lexeme_ == Lexeme::string) {
        at = read_string(part, at, handler);
      } else if (!take_letter(part[at], handler)) {
        continue;  // the letter ended a word, and is one of its own
      } else {
        line_ += part[at++] == '\n';
      }
    }
    return error_.empty();
  }

  // The end of the text. False: a value is cut off.
  bool finish(Handler& handler) {
    if (error_.empty() && lexeme_ == Lexeme::word) end_word(handler);
    if (error_.empty() && is_inside()) error_ = "ends inside of a value";
    return error_.empty();
  }

 private:
  enum class Lexeme : uint8_t { none, string, escape, unicode, word };
  enum class Next : uint8_t { value, value_or_end, key, key_or_end, colon, comma_or_end };

  size_t read_string(std::string_view part, size_t at, Handler& handler) {
    const size_t begin = at;
    while (at < part.size() && part[at] != '"' && part[at] != '\\' && static_cast<uint8_t>(part[at]) >= ' ') at++;
    keep(part.substr(begin, at - begin));
    if (at == part.size()) return at;
    if (part[at] == '\\') {
      lexeme_ = Lexeme::escape;
    } else if (part[at] == '"') {
      lexeme_ = Lexeme::none;
      end_string(handler);
    } else {
      fail("a control character inside of a text");
    }
    return at + 1;
  }

  // False: the letter is to be taken once more.
  bool take_letter(char c, Handler& handler) {
    switch (lexeme_) {
      case Lexeme::escape:
        return escape(c);
      case Lexeme::unicode:
        return unicode(c);
      case Lexeme::word:
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.' || c == '-' || c == '+' || c == 'E') {
          keep({&c, 1});
          return true;
        }
        end_word(handler);
        return false;
      default:
        return structure(c, handler);
    }
  }

  bool structure(char c, Handler& handler) {
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') return true;
    const bool wants_value = next_ == Next::value || next_ == Next::value_or_end;
    const bool wants_key = next_ == Next::key || next_ == Next::key_or_end;
    if (c == '"' && (wants_value || wants_key)) {
      lexeme_ = Lexeme::string;
      text_.clear();
    } else if ((c == '{' || c == '[') && wants_value) {
      open(c == '[', handler);
    } else if (c == '}' && depth_ > 0 && !is_array() && (next_ == Next::key_or_end || next_ == Next::comma_or_end)) {
      close(handler);
    } else if (c == ']' && depth_ > 0 && is_array() && (next_ == Next::value_or_end || next_ == Next::comma_or_end)) {
      close(handler);
    } else if (c == ':' && next_ == Next::colon) {
      next_ = Next::value;
    } else if (c == ',' && next_ == Next::comma_or_end) {
      next_ = is_array() ? Next::value : Next::key;
    } else if (wants_value && ((c >= '0' && c <= '9') || c == '-' || (c >= 'a' && c <= 'z'))) {
      lexeme_ = Lexeme::word;
      text_.assign(1, c);
    } else {
      fail(c >= ' ' && c <= '~' ? fmt::format("`{}` stands where it cannot", c) : "a letter that is not of JSON");
    }
    return true;
  }

  void open(bool array, Handler& handler) {
    if (depth_ == kMostDepth) return fail(fmt::format("values lie more than {} deep in each other", kMostDepth));
    arrays_[depth_++] = array;
    next_ = array ? Next::value_or_end : Next::key_or_end;
    handler.open(array);
  }
  void close(Handler& handler) {
    depth_--;
    end_value();
    handler.close();
  }

  void end_string(Handler& handler) {
    if (next_ == Next::key || next_ == Next::key_or_end) {
      next_ = Next::colon;
      handler.key(text_);
    } else {
      end_value();
      handler.scalar(text_, true);
    }
  }
  void end_word(Handler& handler) {
    lexeme_ = Lexeme::none;
    const bool is_number = text_[0] == '-' || (text_[0] >= '0' && text_[0] <= '9');
    if (!is_number && text_ != "true" && text_ != "false" && text_ != "null") {
      return fail("a word that is neither true, false nor null");
    }
    end_value();
    handler.scalar(text_, false);
  }
  void end_value() { next_ = depth_ == 0 ? Next::value : Next::comma_or_end; }

  bool escape(char c) {
    constexpr std::string_view kLetters = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    lexeme_ = Lexeme::string;
    if (c == 'u') {
      lexeme_ = Lexeme::unicode;
      code_ = 0;
      digits_ = 0;
    } else if (const size_t which = kLetters.find(c); which != std::string_view::npos) {
      keep(kMeant.substr(which, 1));
    } else {
      fail("an escape that is not of JSON");
    }
    return true;
  }
  // No address has a letter outside of ASCII: each of those is a `?`.
  bool unicode(char c) {
    const bool is_digit = c >= '0' && c <= '9', is_lower = c >= 'a' && c <= 'f', is_upper = c >= 'A' && c <= 'F';
    if (!is_digit && !is_lower && !is_upper) return fail("an escape that is not of JSON"), true;
    code_ = code_ * 16 + static_cast<unsigned>(is_digit ? c - '0' : is_lower ? c - 'a' + 10 : c - 'A' + 10);
    if (++digits_ < 4) return true;
    lexeme_ = Lexeme::string;
    const char letter = code_ < 0x80 ? static_cast<char>(code_) : '?';
    keep({&letter, 1});
    return true;
  }

  static constexpr size_t most_text() {
    if constexpr (requires { Handler::kMostText; }) return Handler::kMostText;
    return kMostText;
  }
  void keep(std::string_view more) { text_ += more.substr(0, most_text() - std::min(most_text(), text_.size())); }
  bool is_array() const { return arrays_[depth_ - 1]; }
  void fail(const std::string& why) { error_ = fmt::format("line {}: {}", line_, why); }

  uint32_t line_;
  Lexeme lexeme_ = Lexeme::none;
  Next next_ = Next::value;
  unsigned code_ = 0, digits_ = 0;
  size_t depth_ = 0;
  std::array<bool, kMostDepth> arrays_ = {};
  std::string text_, error_;
};

// Readers of JSON documents whose structure is known: each sees every value, and the keys on the way to it.

// Where in a document the reader is.
class JsonPlace {
 public:
  static constexpr size_t kMostDepth = 64;  // as JsonText has it

  // The value that begins or comes next: keys from the root on, joined by dots; arrays do not count.
  std::string path() const;
  // Its own key; in an array: the array's key.
  std::string_view key() const { return depth_ == 0 ? std::string_view() : is_in_array() ? at().key : key_; }
  bool is_in_array() const { return depth_ > 0 && at().is_array; }
  size_t depth() const { return depth_; }

  void enter(bool is_array);
  void leave() { depth_ -= depth_ > 0 ? 1 : 0; }
  void name(std::string_view key) { key_ = key; }

 private:
  struct Level {
    bool is_array = false;
    std::string key, path;
  };
  const Level& at() const { return levels_[depth_ - 1]; }

  std::array<Level, kMostDepth> levels_;
  size_t depth_ = 0;
  std::string key_;
};

// What the readers share. `list` and `line` are set before each part and each value.
struct JsonReading {
  const Options options;
  JsonPlace place = {};
  ListDraft* list = nullptr;

  void tell(const Outcome& outcome, uint32_t line, std::string_view text) const {
    add_outcome(outcome, list->feed, line, text);
  }
};

FeedFault json_fault(const std::string& error);

// A reader of a whole document (Parts::bytes). Handler: a handler of JsonText, which hears begin(list, text) before
// each part and finish() at the end of a document that is whole.
template <class Handler>
Read read_document(Handler made) {
  struct State {
    JsonText<Handler> text;
    Handler handler;
    bool ends_in_newline = true;
  };
  auto state = std::make_shared<State>(State{JsonText<Handler>(), std::move(made)});
  return [state](std::string_view part, ListDraft& list) {
    if (list.fault) return;
    const uint64_t before = list.entries();
    state->handler.begin(list, state->text);
    const bool is_good = part.empty() ? state->text.finish(state->handler) : state->text.read(part, state->handler);
    if (!part.empty()) state->ends_in_newline = part.back() == '\n';
    list.feed.entries += list.entries() - before;
    list.feed.lines = state->text.line() - 1;
    if (part.empty() && !state->ends_in_newline) list.feed.lines++;
    if (!is_good) {
      list.fault = json_fault(state->text.error());
    } else if (part.empty()) {
      state->handler.finish();
    }
  };
}

}  // namespace weir::control::feeds
