#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/ip.h"
#include "control/policy/model/policy.h"

// Random feeds with a known truth: a document knows which entries a careful operator wants of each of its items.
namespace weir::drawn {

struct Range {
  Ipv6 first = 0, last = 0;
  uint16_t port = 0;
  bool is_v4 = true;
  auto operator<=>(const Range&) const = default;
};
using weir::to_string;  // of addresses
std::string to_string(const Range& range);

// An item of a document: a line, a row, an object, or a part of one.
struct Item {
  std::string kind = {};                          // "plain: second address": what a failure is told by
  std::vector<std::vector<Range>> accepted = {};  // each one: the whole of what may be read of the item. None: nothing
  uint32_t must_count = 0;                        // of lines or values, bad and skipped ones
  uint32_t may_count = 0;                         // may be counted although all of it was read
  std::vector<Range> accepted_warned = {};        // as accepted, uncounted, when the reader has a warning
  uint32_t count_if_read = 0;                     // to be counted unless nothing was read: `add` and `del`
};

struct Document {
  std::string drawn_as;         // format
  std::string format = "auto";  // that reads it
  std::string settings;         // of that format
  uint8_t directions = WEIR_AS_SOURCE;
  weir_action action = WEIR_DROP;
  std::string text;
  std::vector<Item> items;
  bool must_read = true;              // plainly good: a refusal is a mistake
  bool must_refuse = false;           // cut off, or an error answer
  std::map<uint32_t, size_t> owners;  // network() of an address: the item that it was drawn for
};

// Drawn addresses of different items differ in this number. Addresses that were never drawn have one, too.
uint32_t network(const Range& range);

enum class Verdict : uint8_t { right, refused, false_refusal, silent_wrong, wrong_count };
constexpr unsigned kVerdicts = 5;
constexpr const char* kVerdictNames[kVerdicts] = {"right", "refused", "false_refusals", "silent_wrong", "wrong_counts"};

struct Judgement {
  Verdict verdict = Verdict::right;
  std::string kind;  // of the item at fault
  std::string why;   // "has 20.1.2.3 too much"
};

// What a reader did: whole, and in parts of these sizes, which must not matter.
struct Reading {
  std::vector<Range> entries;  // sorted, each one once
  uint64_t bad = 0, skipped = 0;
  bool is_refused = false;  // also: nothing was read
  std::string refusal, format;
  std::vector<std::string> samples, notes;
  bool operator==(const Reading& other) const {
    return is_refused == other.is_refused &&
           (is_refused || (entries == other.entries && bad == other.bad && skipped == other.skipped));
  }
};
Reading read(const Document& document, size_t bytes_at_once);

Judgement judge(const Document& document, const Reading& reading);

std::string to_text(const Document& document);  // its text and its truth, for people
std::string to_text(const Reading& reading);

}  // namespace weir::drawn
