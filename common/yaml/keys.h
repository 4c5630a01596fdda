#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The keys of a YAML file as plain rows. MapReader reads through them, so that nothing is read that has no row; manual
// pages and the schemas of editors are made of them (common/manual/).
namespace weir::yaml {

// What a value may be; a mask, because some keys take one thing or another.
enum Form : uint16_t {
  kText = 1 << 0,
  kBoolean = 1 << 1,
  kInteger = 1 << 2,
  kNumber = 1 << 3,  // with its unit, as in 50%
  kSize = 1 << 4,    // 4096, 64KiB, 1GiB
  kTime = 1 << 5,    // 30s, 10m, 1h, 7d
  kChoice = 1 << 6,  // one of some words
  kSequence = 1 << 7,
  kMap = 1 << 8,
  kLater = 1 << 9,  // in the design, not built yet
};

struct Section;

struct Key {
  std::string_view name;
  uint16_t forms = kText;            // mask of Form
  std::string_view help = {};        // what it means: sentences, without the name
  std::string_view usual = {};       // what holds when it is left out, as it would be written; empty: help says it
  std::string_view choices = {};     // kChoice: words, ` | ` between them
  std::string_view pattern = {};     // kText: a regular expression of ECMA-262 for all of it; empty: any text
  std::string_view unit = {};        // kNumber
  std::string_view noun = "text";    // kText: what people call its value
  uint64_t least = 0, most = 0;      // kInteger; kSize: bytes; kTime: seconds
  double low = 0, high = 0;          // kNumber
  const Section* section = nullptr;  // kMap: its keys
  const Key* item = nullptr;         // kSequence: what each item is
  bool is_required = false;

 private:  // before what uses it: clang 14 asks for that in constants
  template <class Member, class Value>
  constexpr Key with(Member Key::*member, Value value) const {
    Key changed = *this;
    changed.*member = value;
    return changed;
  }
  constexpr Key also(Form form) const { return with(&Key::forms, static_cast<uint16_t>(forms | form)); }

 public:
  constexpr Key by_default(std::string_view written) const { return with(&Key::usual, written); }
  constexpr Key matching(std::string_view expression) const { return with(&Key::pattern, expression); }
  constexpr Key called(std::string_view value) const { return with(&Key::noun, value); }
  constexpr Key required() const { return with(&Key::is_required, true); }
  constexpr bool may_be(unsigned form) const { return (forms & form) != 0; }
  // Or one of these words, or a map, or a sequence.
  constexpr Key or_word(std::string_view words) const { return also(kChoice).with(&Key::choices, words); }
  constexpr Key or_map(const Section& keys) const { return also(kMap).with(&Key::section, &keys); }
  constexpr Key or_sequence(const Key& of) const { return also(kSequence).with(&Key::item, &of); }
};

struct Section {
  std::string_view what;  // how errors call it, e.g. "the list"
  std::span<const Key> keys;
  bool is_one_of = false;  // the map has exactly one of them
};

// The words of `choices`.
std::vector<std::string_view> words_of(std::string_view choices);
// 1GiB, 7d: as MapReader reads them.
std::string size_text(uint64_t bytes);
std::string time_text(uint64_t seconds);
std::string number_text(double value);

// To write rows.
namespace row {

constexpr Key text(std::string_view name, std::string_view help) {
  return {.name = name, .help = help};
}
constexpr Key boolean(std::string_view name, std::string_view help) {
  return {.name = name, .forms = kBoolean, .help = help};
}
constexpr Key integer(std::string_view name, uint64_t least, uint64_t most, std::string_view help) {
  return {.name = name, .forms = kInteger, .help = help, .least = least, .most = most};
}
constexpr Key number(std::string_view name, double low, double high, std::string_view unit, std::string_view help) {
  return {.name = name, .forms = kNumber, .help = help, .unit = unit, .low = low, .high = high};
}
constexpr Key size(std::string_view name, uint64_t least, uint64_t most, std::string_view help) {
  return {.name = name, .forms = kSize, .help = help, .least = least, .most = most};
}
constexpr Key time(std::string_view name, uint64_t least, uint64_t most, std::string_view help) {
  return {.name = name, .forms = kTime, .help = help, .least = least, .most = most};
}
constexpr Key choice(std::string_view name, std::string_view choices, std::string_view help) {
  return {.name = name, .forms = kChoice, .help = help, .choices = choices};
}
constexpr Key map(std::string_view name, const Section& section, std::string_view help) {
  return {.name = name, .forms = kMap, .help = help, .section = &section};
}
constexpr Key sequence(std::string_view name, const Key& item, std::string_view help) {
  return {.name = name, .forms = kSequence, .help = help, .item = &item};
}
constexpr Key later(std::string_view name) {
  return {.name = name, .forms = kLater, .help = "not supported yet"};
}

}  // namespace row
}  // namespace weir::yaml
