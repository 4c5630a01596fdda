#pragma once

#include <cstdint>
#include <string_view>

#include "filter/format/snapshot.h"

// What a feed says of an address beside it: to block it, to let it through, or that it no longer counts. One table of
// words for all formats; a new word is added to verdict.cpp, nowhere else.
namespace weir::control::feeds {

enum class Verdict : uint8_t {
  none,   // it says nothing of the kind
  block,  // `deny`, `blacklisted`
  pass,   // `allow`, `whitelisted`, `false positive`
  off,    // `disabled`, `expired`: of no list
};

// A whole value, or a word behind an address: `allow`, `OK`, `False Positive`. Case and punctuation do not count.
Verdict verdict_of_word(std::string_view text);

// A column or a member, and its value: {active: false}, {isWhitelisted: true}, {action: allow}, {verdict: benign}.
Verdict verdict_of_member(std::string_view name, std::string_view value);

// The name of a set, a path, a section or an object: `whitelist_v4`, `knownBad`, `disallow`.
Verdict verdict_of_name(std::string_view name);

// Why what has this verdict is no entry of a list with this action; null: it may be one.
const char* why_not_of(Verdict verdict, weir_action action);
// The same of what lies below a name with this verdict.
const char* why_not_named(Verdict verdict, weir_action action);

}  // namespace weir::control::feeds
