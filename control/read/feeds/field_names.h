#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

// What columns of CSV and keys of JSON are called in lists of addresses.
namespace weir::control::feeds {

enum class Part : uint8_t { address, last, port, length };
constexpr unsigned kParts = 4;

struct NamedPart {
  Part part;
  unsigned rank;              // of two names of one part, the lower one is more likely meant
  bool begins_range = false;  // an address that goes with Part::last
  bool is_vague = false;      // a length only beside an address that has none itself: `len`, `bits`
};

// name: whatever its case, its blanks and its punctuation. Empty: it names something else.
std::optional<NamedPart> part_named(std::string_view name);

// `cidr`, `prefix`: beside an address of another name, a number there is its prefix length.
bool may_name_length(std::string_view name);
// `score`, `port`, `asn`: a number there is no prefix length.
bool rules_out_length(std::string_view name);

// Whether an array with this key may be the list itself.
bool is_list_name(std::string_view name);

}  // namespace weir::control::feeds
