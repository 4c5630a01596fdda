#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "control/policy/feeds/json_text.h"
#include "control/policy/feeds/take.h"

// Readers of JSON documents whose structure is known: each sees every value, and the keys on the way to it.
namespace weir::control::feeds {

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
