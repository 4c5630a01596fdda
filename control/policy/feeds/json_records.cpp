#include "control/policy/feeds/json_records.h"

#include <fmt/format.h>

#include <memory>

#include "control/policy/feeds/json_text.h"
#include "control/policy/feeds/words.h"

namespace weir::control::feeds {
namespace {

constexpr size_t kMostKnownKeys = 256, kMostPath = 256, kMostOther = 4096, kMostWord = 60, kMostDoubts = 8;
constexpr unsigned kLastRank = 1000;  // behind those of names

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const std::string& text_of(const JsonRecord& record, Part part) {
  return record.parts[static_cast<size_t>(part)];
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
  // Of the elements of an array the key is that of the array.
  const Verdict named = around == nullptr || around->is_array ? Verdict::none : verdict_of_name(key_);
  if (depth_ == 1 && around != nullptr && !around->is_array && names_error(key_)) error_key_ = key_;
  Frame& frame = frames_[depth_++];
  frame.is_array = is_array;
  frame.arrays = arrays;
  frame.is_record = frame.has_texts = false;
  frame.record_at = around == nullptr ? kNoRecord : around->record_at;
  frame.verdict = named != Verdict::none || around == nullptr ? named : around->verdict;
  if (!shape_.paths.empty()) {
    frame.is_record = !is_array && is_path(path);
    frame.has_texts = is_array && is_path(path);
  } else if (is_array) {
    const bool is_list = depth_ == 1 || is_list_name(key_) || named != Verdict::none;
    frame.has_texts = shape_.has_array && arrays == 1 && is_list;
  } else {
    frame.is_record = shape_.has_array ? arrays == 1 && around->is_array : depth_ == 1;
  }
  frame.path = std::move(path);
  frame.entries_before = list_->entries() + list_->feed.entries;
  if (!frame.is_record) return;
  frame.record_at = depth_ - 1;
  for (std::string& part : frame.record.parts) part.clear();
  for (std::string& key : frame.keys) key.clear();
  frame.record.others.clear();
  frame.record.line = text_->line();
  frame.record.path = frame.path;
  frame.address_side = frame.port_side = FieldName::any;
  frame.begins_range = frame.is_network = frame.is_length_vague = frame.has_last = frame.has_decimal = false;
  frame.tells_of_attack = frame.tells_of_server = false;
  frame.why_skipped = nullptr;
  frame.second.clear();
  frame.strange.clear();
  frame.numbers.clear();
  frame.count_key.clear();
}

void JsonRecords::close() {
  Frame& frame = frames_[--depth_];
  if (depth_ == 1) error_key_.clear();
  if (!frame.is_record) return;
  records_++;
  const bool by_name = !shape_.names[static_cast<size_t>(Part::last)].empty();
  std::string& last = frame.record.parts[static_cast<size_t>(Part::last)];
  const bool is_end = is_entry(last);
  const bool begins = frame.begins_range && shape_.names[0].empty();
  if (!begins && !by_name && !is_end) last.clear();  // `until` may be a time
  if (frame.is_length_vague && text_of(frame.record, Part::address).find_first_of("/-") != std::string::npos) {
    frame.record.parts[static_cast<size_t>(Part::length)].clear();
  }
  const Outcome outcome = shape_.take != nullptr ? shape_.take(frame.record, options_, *list_) : take_record(frame);
  tell(outcome, frame.record.line, text_of(frame.record, Part::address));
}

// Of an object whose members are all known.
Outcome JsonRecords::take_record(Frame& frame) {
  const std::string& address = text_of(frame.record, Part::address);
  const bool is_taken = !address.empty();
  for (const std::string& path : frame.strange) {
    if (strange_.size() < kMostKnownKeys || strange_.contains(path)) strange_[path]++;
  }
  if (const char* why = why_not_named(frame.verdict, options_.action); why != nullptr && is_taken)
    return Outcome::skip(why);
  if (frame.why_skipped != nullptr) return Outcome::skip(frame.why_skipped);
  if (!is_taken && frame.has_decimal) return "its address is a decimal number, which is not read";
  if (!is_taken) return "an object without the key of an address";
  if (!frame.second.empty() && two_++ == 0) two_keys_ = {frame.keys[0], frame.second};
  if (!frame.second.empty())
    return "an object with two addresses: the setting `address` of the format says which is meant";
  if (!shape_.names[0].empty()) return take_parts(frame.record, {frame.record.line}, options_, *list_);

  const bool is_bare = address.find_first_of("/-") == std::string::npos && text_of(frame.record, Part::last).empty() &&
                       text_of(frame.record, Part::length).empty();
  if (is_bare && frame.begins_range && !frame.has_last) return "the beginning of a range without its end";
  if (is_bare && !frame.count_key.empty() && counts_addresses(frame.count_key, frame.is_network)) {
    return "a number of addresses beside the address, which is not read";
  }
  if (const Outcome outcome = judge_port(frame); outcome.kind != Outcome::fine) return outcome;
  for (const Number& number : frame.numbers) {
    if (!is_bare || (doubts_.size() >= kMostDoubts && !doubts_.contains(number.key))) continue;
    doubts_[number.key].look(frame.record.line, address, number.text);
  }
  if (address_key_.empty()) address_key_ = frame.keys[0];
  taken_++;
  return take_parts(frame.record, {frame.record.line}, options_, *list_);
}

// Whether the port is that of the host that is listed: else a list of attackers gets ports that they attacked.
Outcome JsonRecords::judge_port(Frame& frame) {
  std::string& port = frame.record.parts[static_cast<size_t>(Part::port)];
  if (port.empty() || !shape_.names[static_cast<size_t>(Part::port)].empty()) return {};
  const bool is_own = frame.port_side == frame.address_side && frame.address_side != FieldName::any;
  const bool is_others = frame.port_side != frame.address_side && frame.port_side != FieldName::any &&
                         frame.address_side != FieldName::any;
  if (shape_.has_no_port || is_others) return port.clear(), Outcome();
  const bool is_server =
      frame.address_side == FieldName::destination || (frame.tells_of_server && !frame.tells_of_attack);
  if (is_own || is_server || options_.directions != WEIR_AS_SOURCE) return {};
  if (list_->fault) return {};
  constexpr size_t kShown = 40;
  const std::string address = shortened(frame.keys[0], kShown),
                    ports = shortened(frame.keys[static_cast<size_t>(Part::port)], kShown);
  list_->fault = FeedFault{
      fmt::format("has ports in `{}` on line {}: of the hosts in `{}`, or those that they attacked", ports,
                  frame.record.line, address),
      fmt::format("say so: `format: {{{0}: {{address: {1}, port: {2}}}}}`, or `format: {{{0}: {{address: {1}, port: "
                  "none}}}}`",
                  format_name(), address, ports)};
  return {};
}

void JsonRecords::key(std::string_view text) {
  key_ = text;
  if (!is_auto() || text.size() < 2 || !is_entry(text)) return;
  tell(Outcome::skip("an address that is a key: weir reads values"), text_->line(), text);
}

JsonRecords::Meaning JsonRecords::meaning_of(const std::string& key) {
  if (const auto known = known_keys_.find(key); known != known_keys_.end()) return known->second;
  Meaning meaning;
  for (size_t i = 0; i < kParts; i++) {
    const auto& names = shape_.names[i];
    const auto found = std::find(names.begin(), names.end(), key);
    if (found != names.end()) {
      const auto rank = static_cast<unsigned>(found - names.begin());
      meaning.part = FieldName{.part = static_cast<Part>(i), .rank = rank, .begins_range = true};
    }
  }
  if (!meaning.part) {
    meaning.part = field_named(key);
    meaning.may_be_length = shape_.names[static_cast<size_t>(Part::length)].empty() && may_name_length(key);
    // Once an address is named, it is that one; other parts keep their usual names.
    if (meaning.part && !shape_.names[static_cast<size_t>(meaning.part->part)].empty()) meaning.part.reset();
  }
  meaning.is_attack = tells_of_attack(key);
  meaning.is_server = tells_of_server(key);
  meaning.may_doubt = !meaning.part && !rules_out_length(key);
  if (known_keys_.size() < kMostKnownKeys) known_keys_.emplace(key, meaning);
  return meaning;
}

void JsonRecords::keep(Frame& frame, std::string_view text, bool is_string) {
  if (!is_string && text == "null") return;
  if (contains(shape_.others, key_)) frame.record.others[key_] = text.substr(0, kMostOther);
  Meaning meaning = meaning_of(key_);
  std::optional<FieldName>& part = meaning.part;
  frame.tells_of_attack |= meaning.is_attack;
  frame.tells_of_server |= meaning.is_server || (is_string && text.size() < kMostWord && tells_of_server(text));
  if (meaning.may_be_length && is_length(text))
    part = FieldName{.part = Part::length, .rank = kLastRank, .is_vague = true};
  if (!is_string && counts_addresses(key_, true) && is_number(text) && text != "1" && text != "0")
    frame.count_key = key_;
  if (meaning.may_doubt && is_length(text) && frame.numbers.size() < kMostDoubts)
    frame.numbers.push_back({key_, std::string(text)});
  if (!part) return look_at_other(frame, key_, text, is_string);
  if (part->part == Part::address && !is_string) {
    frame.has_decimal |= is_number(text);
    return;
  }
  if (part->part == Part::address) return keep_address(frame, *part, text);
  if (part->part == Part::last) frame.has_last = true;
  if (part->part == Part::port && text == "none") return;
  const auto which = static_cast<size_t>(part->part);
  std::string& kept = frame.record.parts[which];
  if (!kept.empty() && frame.ranks[which] <= part->rank) return;
  kept = text;
  frame.ranks[which] = part->rank;
  frame.keys[which] = key_;
  if (part->part == Part::length) frame.is_length_vague = part->is_vague;
  if (part->part == Part::port) frame.port_side = part->side;
}

// Of two members the one whose name is more likely; when both hold an address, nobody knows.
void JsonRecords::keep_address(Frame& frame, const FieldName& named, std::string_view text) {
  std::string& kept = frame.record.parts[0];
  // Or it was meant as one: 192.0.2.300.
  const auto is_meant = [](std::string_view one) {
    if (is_entry(one)) return true;
    const auto digits = std::count_if(one.begin(), one.end(), [](char c) { return c >= '0' && c <= '9'; });
    const auto letters =
        std::count_if(one.begin(), one.end(), [](char c) { return (c | 0x20) >= 'g' && (c | 0x20) <= 'z'; });
    return digits > letters && (one.find_first_of(".:") != std::string_view::npos || digits > 5);
  };
  if (text.empty()) return;
  if (!kept.empty()) {
    const bool has_both = is_meant(kept) && is_meant(text) && kept != text;
    if (has_both && shape_.names[0].empty()) frame.second = key_;
    const bool is_better = is_meant(text) && !is_meant(kept);
    if (!is_better && (frame.ranks[0] <= named.rank || (is_meant(kept) && !is_meant(text)))) return;
  }
  kept = text;
  frame.ranks[0] = named.rank;
  frame.keys[0] = key_;
  frame.address_side = named.side;
  frame.begins_range = named.begins_range;
  frame.is_network = named.is_network;
}

// Of a member that is no part, or lies deeper in the object.
void JsonRecords::look_at_other(Frame& record, std::string_view key, std::string_view text, bool is_string) {
  if (shape_.take != nullptr || text.empty() || text.size() > kMostWord) return;
  if (record.why_skipped == nullptr) record.why_skipped = why_not_of(verdict_of_member(key, text), options_.action);
  const bool may_be = is_string && text.size() > 2 && text.find_first_of(".:") != std::string_view::npos;
  if (!may_be || !is_entry(text)) return;
  std::string path = path_of_value();
  const std::string& around = record.path;
  if (!around.empty() && path.starts_with(around + ".")) path.erase(0, around.size() + 1);
  if (!contains(record.strange, path) && record.strange.size() < kMostDoubts) record.strange.push_back(std::move(path));
}

void JsonRecords::scalar(std::string_view text, bool is_string) {
  if (depth_ == 0) return;
  text = trim(text);
  Frame& frame = frames_[depth_ - 1];
  if (!frame.is_array || !error_key_.empty()) look_at_document(text, is_string);
  if (frame.is_record) return keep(frame, text, is_string);
  const bool is_listed = frame.is_array ? frame.has_texts : !shape_.paths.empty() && is_path(path_of_value());
  if (is_listed && (is_string || frame.is_array)) {
    if (!is_string) return tell("a number or a word in a list of texts", text_->line(), text);
    const char* why = is_auto() ? why_not_named(frame.verdict, options_.action) : nullptr;
    if (why != nullptr) return tell(Outcome::skip(why), text_->line(), text);
    return tell(take(text, {text_->line()}, options_, *list_), text_->line(), text);
  }
  if (!is_auto()) return;
  if (frame.record_at != kNoRecord) return look_at_other(frames_[frame.record_at], key_, text, is_string);
  skip_address(text, frame);
}

// Nobody said that these are not meant: addresses, whole, among text, broken or as numbers.
void JsonRecords::skip_address(std::string_view text, const Frame& frame) {
  const auto digits = std::count_if(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  const bool has_signs =
      text.find_first_of(".:") != std::string_view::npos || text.starts_with("0x") || text.size() >= 8;
  const bool may_be = frame.is_array ? digits >= 4 && has_signs : has_address_inside(text);
  if (!may_be) return;
  const char* why = why_not_named(frame.verdict, options_.action);
  tell(Outcome::skip(why != nullptr ? why : "an address in a place of unknown meaning: its path can be named"),
       text_->line(), text);
}

// `action: allow`
bool JsonRecords::says_allowed(std::string_view key, std::string_view text) const {
  constexpr std::string_view kNames[] = {"action", "access",      "mode",    "type", "effect",
                                         "policy", "disposition", "verdict", "kind"};
  return options_.action == WEIR_DROP && words::is_one_of(lower(key), kNames) &&
         verdict_of_member("member", text) == Verdict::pass;
}

// What members beside the list say of the document: that it is an error, or a list of what is allowed.
void JsonRecords::look_at_document(std::string_view text, bool is_string) {
  Frame& around = frames_[depth_ - 1];
  if (!around.is_record && !around.is_array && is_auto() && says_allowed(key_, text)) {
    if (list_->entries() + list_->feed.entries > around.entries_before && !list_->fault) {
      list_->fault = FeedFault{
          fmt::format("says `{}: {}` of what it lists, and its list drops", shortened(key_, kMostWord),
                      shortened(text, kMostWord)),
          "take it into a list with `action: pass`; or name what is to be blocked: `format: {json: {path: ...}}`"};
    }
    around.verdict = Verdict::pass;
  }
  const bool is_root = depth_ == 1 || !error_key_.empty() || frames_[depth_ - 1].is_record;
  if (!is_root || (!is_string && (text == "null" || text == "0"))) {
    return frames_[depth_ - 1].is_record ? void() : name_whole(key_, text);
  }
  const std::string name = lower(key_);
  const bool is_no = text == "false" || text == "0";
  const bool says_no = (name == "success" || name == "ok") && is_no;
  const bool is_code = (name == "status" || name == "code" || name == "statuscode" || name == "status_code") &&
                       text.size() == 3 && is_number(text) && (text[0] == '4' || text[0] == '5');
  const std::string said = lower(text.substr(0, kMostWord));
  const bool is_word =
      name == "status" && (said == "error" || said == "fail" || said == "failed" || said == "failure" ||
                           said == "denied" || said == "forbidden" || said == "unauthorized");
  const bool is_error = (names_error(key_) || !error_key_.empty()) && !is_no && !text.empty();
  if ((says_no || is_code || is_word || is_error) && error_.empty()) {
    error_ = fmt::format("`{}: {}`", shortened(key_, kMostWord), shortened(text, kMostWord));
  }
  const bool is_named = name.find("err") != std::string::npos || !error_key_.empty();
  is_sure_error_ |= !frames_[depth_ - 1].is_record && (says_no || is_code || is_word || (is_error && is_named));
  if (!frames_[depth_ - 1].is_record && is_string) name_whole(key_, text);
}

// `Name: allow-office`, `type: whitelist`, `description: Known good networks`.
void JsonRecords::name_whole(std::string_view key, std::string_view text) {
  if (options_.action != WEIR_DROP || list_->fault || shape_.take != nullptr) return;
  constexpr std::string_view kNames[] = {"name", "title",   "list",  "listname", "list_name",
                                         "set",  "setname", "label", "id"};
  constexpr std::string_view kPhrases[] = {"whitelist",         "allowlist",   "allow list",     "white list",
                                           "known good",        "known-good",  "false positive", "warninglist",
                                           "not to be blocked", "do not block"};
  const std::string called = lower(key), said = lower(text);
  const bool is_name = std::find(std::begin(kNames), std::end(kNames), called) != std::end(kNames);
  const bool is_prose = is_name || called == "description" || called == "comment" || called == "type";
  const bool says = (is_name && text.size() <= kMostWord && verdict_of_name(text) == Verdict::pass) ||
                    (is_prose && std::any_of(std::begin(kPhrases), std::end(kPhrases),
                                             [&](auto phrase) { return said.find(phrase) != std::string::npos; }));
  if (!says) return;
  list_->fault =
      FeedFault{fmt::format("is a list of what is allowed, by `{}: {}` on line {}, and its list drops",
                            shortened(key, kMostWord), shortened(text, kMostWord), text_->line()),
                "take it into a list with `action: pass`; or name what is to be blocked: `format: {json: {path: "
                "...}}`"};
}

void JsonRecords::tell(const Outcome& outcome, uint32_t line, std::string_view text) {
  add_outcome(outcome, list_->feed, line, text);
}

void JsonRecords::finish() {
  if (list_->fault) return;
  constexpr size_t kShown = 40;
  if (!error_.empty() && (is_sure_error_ || records_ <= 1) && (shape_.take == nullptr || is_sure_error_)) {
    list_->fault = FeedFault{fmt::format("is an error answer, no list: it says {}", error_),
                             "look at what its server says, and at the address of the list"};
    return;
  }
  for (const auto& [key, doubt] : doubts_) {
    if (!doubt.is_founded()) continue;
    const std::string address = shortened(address_key_, kShown), length = shortened(key, kShown);
    list_->fault = FeedFault{
        fmt::format("has {} in `{}` beside {} on line {}, which may be a prefix length", shortened(doubt.number(), 4),
                    length, shortened(doubt.address(), 45), doubt.line()),
        fmt::format("say so: `format: {{{0}: {{address: {1}, length: {2}}}}}`, or that `{{address: {1}}}` is all",
                    format_name(), address, length)};
    return;
  }
  if (!is_auto() || !shape_.names[0].empty()) return;
  if (two_ * 10 >= records_ && two_ > 0) {
    const std::string first = shortened(two_keys_[0], kShown), second = shortened(two_keys_[1], kShown);
    list_->fault = FeedFault{
        fmt::format("has two addresses, `{}` and `{}`, in {} of its {} objects, and nothing says which is meant", first,
                    second, two_, records_),
        fmt::format("say which: `format: {{{0}: {{address: {1}}}}}`, or `format: {{{0}: {{address: {2}}}}}`",
                    format_name(), first, second)};
    return;
  }
  for (const auto& [path, n] : strange_) {
    const std::string shown = shortened(path, kShown);
    const std::string setting =
        path.find('.') == std::string::npos
            ? fmt::format("`format: {{{}: {{address: {}}}}}`", format_name(), shown)
            : fmt::format("`format: {{{}: {{path: ...}}}}`, with the path to it", format_name());
    if (taken_ == 0) {
      list_->fault = FeedFault{fmt::format("has addresses in `{}` of its objects, which no setting names", shown),
                               "name them: " + setting};
      return;
    }
    if (n * 10 < records_) continue;
    list_->feed.notes.push_back(
        {fmt::format("has addresses in `{}` of {} of its {} objects too, which are not read", shown, n, records_),
         "another member is named like this: " + setting});
    return;
  }
}

Read read_json(JsonShape shape, const Options& options) {
  return read_document(JsonRecords(std::move(shape), options));
}

Read read_json_lines(JsonShape shape, const Options& options) {
  shape.has_array = false;
  auto records = std::make_shared<JsonRecords>(std::move(shape), options);
  return [records](std::string_view part, ListDraft& list) {
    if (part.empty() && !list.fault) {
      const JsonText<JsonRecords> none;
      records->begin(list, none);
      records->finish();
    }
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
  if (text[0] == '[') {
    const std::string_view word = trim(inside.substr(0, inside.find_first_of(",]")));
    if (word == "null" || word == "true" || word == "false" || is_number(word)) return true;
  }
  return text[0] == '{' ? inside[0] == '"' || inside[0] == '}'
                        : std::string_view("{[\"]").find(inside[0]) != std::string_view::npos;
}

}  // namespace weir::control::feeds
