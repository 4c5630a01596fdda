#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// These functions say what a column or a member means, by its name and by its numbers.
namespace weir::control::feeds {

// What columns of tables and members of JSON are called in lists of addresses, in the words of several languages and
// tools. Case, blanks and punctuation do not count: `srcIp`, `src_ip` and `Src IP` are one name.

enum class Part : uint8_t { address, last, port, length };
constexpr unsigned kParts = 4;

struct FieldName {
  enum Side : uint8_t { any, source, destination };

  Part part;
  unsigned rank;              // of two names of one part, the lower one is more likely meant
  Side side = any;            // of an address or a port: `src_ip`, `dst_port`
  bool begins_range = false;  // an address that goes with Part::last
  bool is_network = false;    // an address that is hardly a single host: `network`, `subnet`, `start`
  bool is_vague = false;      // a length only beside an address that has none itself: `len`, `bits`
};

// Empty: it names something else.
std::optional<FieldName> field_named(std::string_view name);

// `reporter`, `sensor_ip`, `gateway`: the addresses in it are those of somebody who is not listed.
bool names_bystander(std::string_view name);

// `cidr`, `prefix`: beside an address of another name, a number there is its prefix length.
bool may_name_length(std::string_view name);
// `score`, `port`, `asn`: a number there is no prefix length.
bool rules_out_length(std::string_view name);
// `size`, `hosts`: a number there says how many addresses there are. is_network: beside the beginning of a network or a
// range, where `count` says so, too.
bool counts_addresses(std::string_view name, bool is_network);
// `attack`, `service`: beside it, a port is the one that was attacked.
bool tells_of_attack(std::string_view name);
// `c2`, `botnet`, `proxy`, as a name or as a value: beside it, a port is that of the host.
bool tells_of_server(std::string_view text);
// `error`, `message`: an answer that has it, and hardly anything else, is an error.
bool names_error(std::string_view name);

// Whether an array with this key may be the list itself.
bool is_list_name(std::string_view name);

// Whether the numbers in a column beside the addresses are prefix lengths, though nobody says so: `2a01:fb00::` beside
// 29 is hardly a host. All rows are asked, so that a score that fits an address by chance is a score.
class LengthDoubt {
 public:
  void look(uint32_t line, std::string_view address, std::string_view beside);

  // One address is a network of the number beside it, and most others could be.
  bool is_founded() const { return line_ != 0 && fits_ >= misfits_; }
  // The first one that is.
  uint32_t line() const { return line_; }
  const std::string& address() const { return address_; }
  const std::string& number() const { return number_; }

 private:
  uint64_t fits_ = 0, misfits_ = 0;
  uint32_t line_ = 0;
  std::string address_, number_;
};

}  // namespace weir::control::feeds
