#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "control/policy/model/feed.h"

// Texts of other tools that hold addresses, and that no format reads: `auto` refuses them by their name.
namespace weir::control::feeds {

struct Structure {
  const char* name;  // "rules of iptables-save"
  bool (*is_like)(std::string_view line);
  const char* hint;  // the way to a list that weir reads
};

// A row in structures.cpp each.
std::span<const Structure> structures();

enum class Share : uint8_t {
  most,    // of the lines that are no comments; of structures that a format like `ipset` would take
  entries  // as many lines as there are plain entries
};

// Of a text that begins like this; empty: it is none of them, by the share of lines that are like it.
std::optional<FeedFault> structure_fault(std::string_view beginning, Share share);

}  // namespace weir::control::feeds
