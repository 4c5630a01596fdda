#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "control/policy/model/list.h"

// The entries of a text set by set, with their comments: for `controlctl restore`. A feed is one list and keeps none of
// this. Only formats whose texts hold named sets fill it (ipset.cpp, nft.cpp).
namespace weir::control::feeds {

struct SetEntry {
  std::string text;  // as range_text() writes it
  uint32_t expires = kNever;
  std::string comment;
  bool has_port = false;
};

// Elements of a set that gave no entry, for one reason.
struct LeftOut {
  static constexpr size_t kMostFirst = 3, kMostShown = 80;
  std::string why;
  uint64_t n = 0;
  std::vector<std::string> first;  // printable, shortened
};

struct NamedSet {
  static constexpr size_t kMostName = 255;  // bytes; longer ones are shortened
  std::string name, type;  // printable; type: as the text has it: `hash:ip`, `ipv4_addr`; empty: it does not say
  std::vector<SetEntry> entries;
  std::vector<LeftOut> left_out;        // of the set without a name: lines that belong to no set
  std::vector<std::string> exceptions;  // `nomatch`: what the set does not hold, although another entry does
};

class NamedSets {
 public:
  static constexpr size_t kMostSets = 4096;  // what further ones hold is passed over: has_too_many()

  // Makes it when it is not there. Null: there are too many.
  NamedSet* of(std::string_view name);
  void declare(std::string_view name, std::string_view type);
  // The entry that the list got last; n_v4: how many IPv4 entries it had before.
  void took(std::string_view name, const ListDraft& list, size_t n_v4, std::string_view comment);
  void left_out(std::string_view name, std::string_view text, const char* why);
  void exception(std::string_view name, std::string_view text);

  bool has_too_many() const { return has_too_many_; }
  // In the order of the text.
  const std::deque<NamedSet>& all() const { return sets_; }

 private:
  std::deque<NamedSet> sets_;  // a deque: what of() returned stays where it is
  std::map<std::string, NamedSet*, std::less<>> by_name_;
  bool has_too_many_ = false;
};

}  // namespace weir::control::feeds
