#include "control/read/feeds/json_records.h"

#include <fmt/format.h>

#include <memory>

namespace weir::control::feeds {
namespace {

constexpr size_t kMostKnownKeys = 256, kMostPath = 256, kMostOther = 64;
constexpr unsigned kLastRank = 1000;  // behind those of names

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const std::string& text_of(const JsonRecord& record, Part part) {
  return record.parts[static_cast<size_t>(part)];
}

FeedFault fault_of(const std::string& error) {
  return {error.starts_with("ends") ? error : "is no JSON: " + error, "get the file again: it is broken, or cut off",
          error.starts_with("ends")};
}

}  // namespace

Outcome take_parts(const JsonRecord& record, At at, const Options& options, ListDraft& list) {
  const PartTexts parts = {text_of(record, Part::address), text_of(record, Part::last), text_of(record, Part::port),
                           text_of(record, Part::length)};
  if (parts.address.empty()) return "an object without the key of an address";
  return take_parts(parts, at, options, list);
}

bool JsonRecords::is_path(std::string_view path) const {
  return contains(shape_.paths, path);
}

// Of the value that follows.
std::string JsonRecords::path_of_value() const {
  if (depth_ == 0) return "";
  const Frame& around = frames_[depth_ - 1];
  if (around.is_array || around.path.size() > kMostPath) return around.path;
  return around.path.empty() ? key_ : around.path + "." + key_;
}

void JsonRecords::open(bool is_array) {
  std::string path = path_of_value();
  const Frame* around = depth_ == 0 ? nullptr : &frames_[depth_ - 1];
  const unsigned arrays = (around == nullptr ? 0 : around->arrays) + (is_array ? 1 : 0);
  Frame& frame = frames_[depth_++];
  frame.is_array = is_array;
  frame.arrays = arrays;
  frame.is_record = frame.has_texts = false;
  frame.is_in_record = around != nullptr && (around->is_record || around->is_in_record);
  if (!shape_.paths.empty()) {
    frame.is_record = !is_array && is_path(path);
    frame.has_texts = is_array && is_path(path);
  } else if (is_array) {
    frame.has_texts = shape_.has_array && arrays == 1 && (depth_ == 1 || is_list_name(key_));
    if (arrays == 1) choose_side(path);
  } else {
    frame.is_record = shape_.has_array ? arrays == 1 && around->is_array : depth_ == 1;
  }
  frame.path = std::move(path);
  if (!frame.is_record) return;
  for (std::string& part : frame.record.parts) part.clear();
  frame.record.others.clear();
  frame.record.line = text_->line();
  frame.record.path = frame.path;
  frame.begins_range = frame.is_length_vague = false;
}

void JsonRecords::close() {
  Frame& frame = frames_[--depth_];
  if (!frame.is_record) return;
  const bool by_name = !shape_.names[static_cast<size_t>(Part::last)].empty();
  if (!frame.begins_range && !by_name) frame.record.parts[static_cast<size_t>(Part::last)].clear();
  if (frame.is_length_vague && text_of(frame.record, Part::address).find_first_of("/-") != std::string::npos) {
    frame.record.parts[static_cast<size_t>(Part::length)].clear();
  }
  const At at = {frame.record.line};
  tell(shape_.take != nullptr ? shape_.take(frame.record, options_, *list_)
                              : take_parts(frame.record, at, options_, *list_),
       frame.record.line, text_of(frame.record, Part::address));
}

void JsonRecords::key(std::string_view text) {
  key_ = text;
}

JsonRecords::Meaning JsonRecords::meaning_of(const std::string& key) {
  if (const auto known = known_keys_.find(key); known != known_keys_.end()) return known->second;
  Meaning meaning;
  for (size_t i = 0; i < kParts; i++) {
    const auto& names = shape_.names[i];
    const auto found = std::find(names.begin(), names.end(), key);
    if (found != names.end())
      meaning.part = FieldName{
          .part = static_cast<Part>(i), .rank = static_cast<unsigned>(found - names.begin()), .begins_range = true};
  }
  if (!meaning.part) {
    meaning.part = field_named(key);
    meaning.may_be_length = shape_.names[static_cast<size_t>(Part::length)].empty() && may_name_length(key);
    // Once an address is named, it is that one; other parts keep their usual names.
    if (meaning.part && !shape_.names[static_cast<size_t>(meaning.part->part)].empty()) meaning.part.reset();
  }
  if (known_keys_.size() < kMostKnownKeys) known_keys_.emplace(key, meaning);
  return meaning;
}

void JsonRecords::keep(Frame& frame, std::string_view text, bool is_string) {
  if (!is_string && text == "null") return;
  if (contains(shape_.others, key_)) frame.record.others[key_] = text.substr(0, kMostOther);
  auto [part, may_be_length] = meaning_of(key_);
  if (may_be_length && is_length(text)) part = FieldName{.part = Part::length, .rank = kLastRank, .is_vague = true};
  if (!part || (part->part == Part::address && !is_string)) return;
  if (part->part == Part::port && text == "none") return;
  const auto which = static_cast<size_t>(part->part);
  std::string& kept = frame.record.parts[which];
  if (!kept.empty() && frame.ranks[which] <= part->rank) return;
  kept = text;
  frame.ranks[which] = part->rank;
  if (part->part == Part::address) frame.begins_range = part->begins_range;
  if (part->part == Part::length) frame.is_length_vague = part->is_vague;
}

void JsonRecords::scalar(std::string_view text, bool is_string) {
  if (depth_ == 0) return;
  text = trim(text);
  Frame& frame = frames_[depth_ - 1];
  if (frame.is_record) return keep(frame, text, is_string);
  if (!is_string) return;
  const bool is_entry = frame.is_array ? frame.has_texts : !shape_.paths.empty() && is_path(path_of_value());
  if (is_entry) return tell(take(text, {text_->line()}, options_, *list_), text_->line(), text);
  if (frame.is_array && !frame.is_in_record && shape_.paths.empty()) skip_address(text);
}

// Nobody said that these arrays are not meant.
void JsonRecords::skip_address(std::string_view text) {
  if (std::holds_alternative<EntryError>(parse_entry(text, LeadingZeros::decimal))) return;
  tell(Outcome::skip("an address in an array of unknown meaning: its path can be named"), text_->line(), text);
}

void JsonRecords::tell(const Outcome& outcome, uint32_t line, std::string_view text) {
  add_outcome(outcome, list_->feed, line, text);
  if (outcome.kind != Outcome::fine || side_ == Verdict::none) return;
  std::string& from = list_from_[static_cast<size_t>(side_)];
  if (from.empty()) from = list_path_;
}

// Of the list that begins: what its path says, where nobody named one.
void JsonRecords::choose_side(std::string_view path) {
  side_ = Verdict::none;
  list_path_ = path;
  while (!path.empty() && side_ == Verdict::none) {
    const size_t end = std::min(path.find('.'), path.size());
    side_ = verdict_of_name(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
}

void JsonRecords::finish() {
  const std::string &allowed = list_from_[2], &blocked = list_from_[1];
  if (allowed.empty() || blocked.empty()) return;
  constexpr size_t kShown = 40;
  list_->fault = FeedFault{
      fmt::format("has a list of what is allowed, `{}`, beside one of what is blocked, `{}`",
                  printable(allowed, kShown), printable(blocked, kShown)),
      fmt::format("name the one that is meant: `format: {{json: {{path: {}}}}}`", printable(blocked, kShown))};
}

Read read_json(JsonShape shape, const Options& options) {
  struct State {
    JsonText<JsonRecords> text;
    JsonRecords records;
    bool ends_in_newline = true;
  };
  auto state = std::make_shared<State>(State{JsonText<JsonRecords>(), JsonRecords(std::move(shape), options)});
  return [state](std::string_view part, ListDraft& list) {
    const uint64_t before = list.entries();
    state->records.begin(list, state->text);
    if (list.fault) return;
    const bool is_good = part.empty() ? state->text.finish(state->records) : state->text.read(part, state->records);
    if (!part.empty()) state->ends_in_newline = part.back() == '\n';
    list.feed.entries += list.entries() - before;
    list.feed.lines = state->text.line() - 1;
    if (part.empty() && !state->ends_in_newline) list.feed.lines++;
    if (!is_good) {
      list.fault = fault_of(state->text.error());
    } else if (part.empty()) {
      state->records.finish();
    }
  };
}

Read read_json_lines(JsonShape shape, const Options& options) {
  shape.has_array = false;
  auto records = std::make_shared<JsonRecords>(std::move(shape), options);
  return [records](std::string_view part, ListDraft& list) {
    read_lines(part, list, [&](std::string_view line, uint32_t number) -> Outcome {
      if (line[0] != '{') return "no JSON object";
      // Whether it is whole is known before any of it counts.
      struct Nobody {
        void open(bool) {}
        void close() {}
        void key(std::string_view) {}
        void scalar(std::string_view, bool) {}
      } nobody;
      JsonText<Nobody> check;
      if (!check.read(line, nobody) || !check.finish(nobody)) return "no whole JSON object";
      JsonText<JsonRecords> text(number);
      records->begin(list, text);
      text.read(line, *records);
      text.finish(*records);
      return {};
    });
  };
}

bool begins_json(std::string_view text) {
  if (text.empty() || (text[0] != '{' && text[0] != '[')) return false;
  const std::string_view inside = trim(text.substr(1));
  if (inside.empty()) return true;
  return text[0] == '{' ? inside[0] == '"' || inside[0] == '}'
                        : std::string_view("{[\"]").find(inside[0]) != std::string_view::npos;
}

}  // namespace weir::control::feeds
