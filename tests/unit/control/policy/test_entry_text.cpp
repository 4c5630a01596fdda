// Every text an entry may have, and every reason why a text is none.
#include <string>

#include "control/policy/feeds/entry_text.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::control;

namespace {

// "FIRST LAST PORT [any] [host-bits]", or "bad: REASON".
std::string described(std::string_view text) {
  const EntryText parsed = parse_entry(text);
  if (const auto* error = std::get_if<EntryError>(&parsed)) {
    CHECK(std::string(error->hint) != "");
    return std::string("bad: ") + error->reason;
  }
  const auto describe = [](const auto& entry) {
    return to_string(entry.first) + " " + to_string(entry.last) + " " + std::to_string(entry.port) +
           (entry.is_any ? " any" : "") + (entry.host_bits_cleared ? " host-bits" : "");
  };
  if (const auto* v4 = std::get_if<ParsedEntry<Ipv4>>(&parsed)) return describe(*v4);
  return describe(std::get<ParsedEntry<Ipv6>>(parsed));
}

struct Row {
  const char* text;
  const char* expected;
};

constexpr Row kGood[] = {
    {"203.0.113.7", "203.0.113.7 203.0.113.7 0"},
    {"0.0.0.0", "0.0.0.0 0.0.0.0 0"},
    {"255.255.255.255", "255.255.255.255 255.255.255.255 0"},
    {"203.0.113.7/32", "203.0.113.7 203.0.113.7 0"},
    {"198.51.100.0/24", "198.51.100.0 198.51.100.255 0"},
    {"198.51.100.1/24", "198.51.100.0 198.51.100.255 0 host-bits"},
    {"128.0.0.0/1", "128.0.0.0 255.255.255.255 0"},
    {"0.0.0.0/0", "0.0.0.0 255.255.255.255 0 any"},
    {"1.2.3.4/0", "0.0.0.0 255.255.255.255 0 any host-bits"},
    {"198.51.100.0/255.255.255.0", "198.51.100.0 198.51.100.255 0"},
    {"198.51.100.7/255.255.255.255", "198.51.100.7 198.51.100.7 0"},
    {"198.51.100.7/255.255.255.252", "198.51.100.4 198.51.100.7 0 host-bits"},
    {"0.0.0.0/0.0.0.0", "0.0.0.0 255.255.255.255 0 any"},
    {"203.0.113.10-203.0.113.99", "203.0.113.10 203.0.113.99 0"},
    {"203.0.113.10 - 203.0.113.99", "203.0.113.10 203.0.113.99 0"},
    {"203.0.113.10 \t-203.0.113.99", "203.0.113.10 203.0.113.99 0"},
    {"203.0.113.10-203.0.113.10", "203.0.113.10 203.0.113.10 0"},
    {"0.0.0.0-255.255.255.255", "0.0.0.0 255.255.255.255 0 any"},
    {"203.0.113.7:443", "203.0.113.7 203.0.113.7 443"},
    {"203.0.113.7:1", "203.0.113.7 203.0.113.7 1"},
    {"203.0.113.7:65535", "203.0.113.7 203.0.113.7 65535"},
    {"2001:db8::7", "2001:db8::7 2001:db8::7 0"},
    {"2001:DB8::ABCD", "2001:db8::abcd 2001:db8::abcd 0"},
    {"::", ":: :: 0"},
    {"::1", "::1 ::1 0"},
    {"2001:db8:0:0:0:0:0:7", "2001:db8::7 2001:db8::7 0"},
    {"64:ff9b::192.0.2.1", "64:ff9b::c000:201 64:ff9b::c000:201 0"},
    {"2001:418::/32", "2001:418:: 2001:418:ffff:ffff:ffff:ffff:ffff:ffff 0"},
    {"2001:db8::1/64", "2001:db8:: 2001:db8::ffff:ffff:ffff:ffff 0 host-bits"},
    {"2001:db8::7/128", "2001:db8::7 2001:db8::7 0"},
    {"::/0", ":: ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 0 any"},
    // Only the lower half of the leading bits are those of IPv4-mapped addresses.
    {"fe80::ffff:ffff:fffe", "fe80::ffff:ffff:fffe fe80::ffff:ffff:fffe 0"},
    {"2001:db8::ffff:0:6", "2001:db8::ffff:0:6 2001:db8::ffff:0:6 0"},
    {"64:ff9b::ffff:c000:201", "64:ff9b::ffff:c000:201 64:ff9b::ffff:c000:201 0"},
    {"::/8", ":: ff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 0"},
    {"2001:db8::1-2001:db8::ff", "2001:db8::1 2001:db8::ff 0"},
    {"::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ":: ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 0 any"},
    {"[2001:db8::7]:443", "2001:db8::7 2001:db8::7 443"},
};

constexpr const char* kNone = "bad: not an address, prefix, range or address:port";
constexpr const char* kLeadingZero = "bad: leading zero in an octet";
constexpr const char* kOctet = "bad: an octet is larger than 255";
constexpr const char* kMapped = "bad: IPv4-mapped IPv6 never appears in a packet";
constexpr const char* kZone = "bad: zone ids name an interface, not a packet";
constexpr const char* kPort = "bad: the port is not a number from 1 to 65535";
constexpr const char* kPortOfMany = "bad: a port needs a single address";
constexpr const char* kBrackets = "bad: brackets hold an IPv6 address with its port";
constexpr const char* kLengthNumber = "bad: the prefix length is not a number";
constexpr const char* kNetmask = "bad: the netmask is not a row of ones, then zeros";
constexpr const char* kRangeEnd = "bad: the range has no address after its hyphen";

constexpr Row kBad[] = {
    {"", kNone},
    {"example.org", kNone},
    {"xn--sf-eka.digital", kNone},
    {"http://104.244.76.15", kNone},
    {"socks4://144.31.222.106:7890", kNone},
    {"/izuku.sh", kNone},
    {"C91.196.152.28", kNone},
    {"1.2.3", kNone},
    {"1.2.3.4.5", kNone},
    {"1.2.3.*", kNone},
    {"1.2.3.4,foo", kNone},
    {"1.2.3.4 ", kNone},
    {" 1.2.3.4", kNone},
    {"1.2.3.", kNone},
    {".1.2.3", kNone},
    {"1..2.3", kNone},
    {"-1.2.3.4", kNone},
    {"+1.2.3.4", kNone},
    {"0x1.2.3.4", kNone},
    {"16909060", kNone},
    {"1.2.3.0004", kNone},
    {"1.2.3.256", kOctet},
    {"1.2.3.04", kLeadingZero},
    {"001.002.004.000", kLeadingZero},
    {"1.2.3.00", kLeadingZero},
    {"2001:db8:::1", kNone},
    {"2001:db8", kNone},
    {"2001:db8:g::", kNone},
    {"1:2:3:4:5:6:7:8:9", kNone},
    {"2001:db8::12345", kNone},
    {"::1.2.3.04", kNone},
    {"::ffff:1.2.3.4", kMapped},
    {"::FFFF:102:304", kMapped},
    {"::ffff:0:0/96", kMapped},
    {"::ffff:1.2.3.0/120", kMapped},
    {"::fffe:0:0-::ffff:1:2", kMapped},
    {"[::ffff:1.2.3.4]:80", kMapped},
    {"fe80::1%eth0", kZone},
    {"[fe80::1%1]:80", kZone},
    {"fe80::1%eth0/64", kZone},
    {"1.2.3.4:0", kPort},
    {"1.2.3.4:65536", kPort},
    {"18.197.239.109:66086", kPort},
    {"1.2.3.4:99999999999999999999", kPort},
    {"1.2.3.4:", kPort},
    {"1.2.3.4:http", kPort},
    {"1.2.3.4:080", kPort},
    {"1.2.3.4:+80", kPort},
    {"[2001:db8::7]:0", kPort},
    {"[2001:db8::7]:", kPort},
    {"[2001:db8::7]:80:80", kPort},
    {"example.org:443", kNone},
    {"1.2.3.0/24:80", kPortOfMany},
    {"[2001:db8::/32]:80", kPortOfMany},
    {"[2001:db8::1-2001:db8::2]:80", kPortOfMany},
    {"[2001:db8::7]", kBrackets},
    {"[2001:db8::7", kBrackets},
    {"[2001:db8::7]80", kBrackets},
    {"[2001:db8::]/32", kBrackets},
    {"[1.2.3.4]:80", kBrackets},
    {"[", kBrackets},
    {"1.2.3.4/33", "bad: the prefix length is larger than 32"},
    {"1.2.3.4/4294967328", "bad: the prefix length is larger than 32"},
    {"2001:db8::/129", "bad: the prefix length is larger than 128"},
    {"1.2.3.0/", "bad: the prefix length is missing"},
    {"1.2.3.0/024", "bad: leading zero in a prefix length"},
    {"1.2.3.0/00", "bad: leading zero in a prefix length"},
    {"1.2.3.0/+24", kLengthNumber},
    {"1.2.3.0/24/24", kLengthNumber},
    {"1.2.3.0/abc", kLengthNumber},
    {"1.2.3.0/255.255.0", kLengthNumber},
    {"1.2.3.0/255.255.255.00", kLengthNumber},
    {"2001:db8::/255.255.0.0", kLengthNumber},
    {"1.2.3/24", kNone},
    {"/24", kNone},
    {"1.2.3.0/0.0.0.255", kNetmask},
    {"1.2.3.0/255.0.255.0", kNetmask},
    {"1.2.3.9-1.2.3.1", "bad: the range ends before it begins"},
    {"2001:db8::2-2001:db8::1", "bad: the range ends before it begins"},
    {"1.2.3.4-2001:db8::1", "bad: the range begins and ends in different families"},
    {"1.2.3.4-", kRangeEnd},
    {"1.2.3.4-9", kRangeEnd},
    {"1.2.3.4-1.2.3.5-1.2.3.6", kRangeEnd},
    {"1.2.3.4-1.2.3.5/24", kRangeEnd},
    {"1.2.3.0/24-1.2.4.0/24", kNone},
    {"1.2.3.4:80-1.2.3.5:80", kNone},
    {"1.2.3.4-1.2.3.05", kLeadingZero},
};

}  // namespace

TEST_CASE("every good text of an entry") {
  for (const Row& row : kGood) {
    INFO(row.text);
    CHECK(described(row.text) == row.expected);
  }
}

TEST_CASE("every bad text of an entry, with its reason") {
  for (const Row& row : kBad) {
    INFO(row.text);
    CHECK(described(row.text) == row.expected);
  }
}

TEST_CASE("a NUL is a letter like any other") {
  CHECK(described(std::string_view("1.2.3.4\0", 8)) == kNone);
  CHECK(described(std::string_view("2001:db8::\0001", 12)) == kNone);
}
