#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "control/policy/model/entry.h"
#include "control/policy/model/field_names.h"
#include "filter/format/packet.h"
#include "filter/format/snapshot.h"

// How the fields of filter/format/fields.h are written: in a policy file, and in the one line of text that messages
// show. One row each, in the same order.
namespace weir::control {

// Why a text says nothing. reason stands behind "`dport` is `x`: ".
struct FieldError {
  std::string reason, hint;
};

// How a policy file gives a field its value.
enum class FieldForm : uint8_t {
  scalar,  // proto: tcp
  list,    // dscp: [46, 10-14], or one of these alone
  number,  // icmp: {type: 8}: a number from 0 to 255, under `inner` of the map that `key` has
  bits,    // tcp_flags: {set: [syn], mask: [syn, ack]}: names of bits
};

struct Field {
  weir_asks asks;
  std::string_view key;    // in an entry's map; rows that share a map stand together
  std::string_view inner;  // form number: in that map; else empty
  std::string_view label;  // in front of the value, in texts
  FieldForm form;
  bool (*is_asked)(const Flow&);
  // Reads what print() writes, and what a policy file has. Form list: adds to what the flow asks for.
  std::optional<FieldError> (*parse)(const Field&, std::string_view text, Flow& flow);
  std::string (*print)(const Flow&);  // of a flow that asks for it
  const char* help = "";              // for the manual: what it matches, and how its value is written
  const char* inner_help = "";        // form number: of `inner`
  const char* pattern = "";           // for editors: a regular expression (ECMA-262) of values that are texts
  const char* example = "";           // hint for a map that asks for nothing
  // Form bits: their names, and how errors call one.
  std::span<const NamedBit> (*names)() = nullptr;
  const char* name_noun = "";
};

std::span<const Field> fields();
// Null: there is none.
const Field* find_field(std::string_view key, std::string_view inner = {});

// Label and value, as in `dport 8000-8010`; a protocol with a name is its name alone.
std::string field_text(const Field& field, const Flow& flow);

// Mask of weir_asks: the fields that the flow asks for. Addresses and expiry are none.
unsigned fields_asked(const Flow& flow);
// Mask of weir_has: what a packet must have for these (mask of weir_asks).
unsigned needs_of(unsigned asked);

// Why no packet can match, where that is not for its protocol: `field` is the one to blame.
struct Contradiction {
  const Field* field;
  std::string reason, hint;
};
std::optional<Contradiction> contradiction_in(const Flow& flow);

// What only packets of some protocols have.
struct Carried {
  uint8_t needs;          // mask of enum weir_has: any of these
  const char* absent;     // "packets of `gre` have no ..."
  const char* present;    // "packets with ..."
  const char* keep;       // "keep ..."
  const char* goes_with;  // which protocols have it
};
std::span<const Carried> carried();

}  // namespace weir::control
