#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "dataplane/doctor/subject.h"

// Which interfaces somebody depends on: default routes and SSH sessions. Linux: proc_net(5), net/ipv4/fib_trie.c,
// net/ipv6/route.c, net/ipv4/tcp_ipv4.c print these files.
namespace weir::dataplane::doctor {

namespace {

constexpr int64_t kUp = 0x1, kReject = 0x200;  // RTF_UP, RTF_REJECT of linux/route.h
constexpr int64_t kSshPort = 22;
constexpr std::string_view kEstablished = "01";

// proc/net/route: Iface Destination Gateway Flags RefCnt Use Metric Mask ...
void add_default_routes_v4(const Tree& tree, std::vector<Carrier>& carriers) {
  const std::string text = tree.text("proc/net/route").value_or("");
  for (const std::string_view line : split_at(text, '\n')) {
    const std::vector<std::string_view> words = words_of(line);
    if (words.size() < 8 || words[1] != "00000000" || words[7] != "00000000") continue;
    const int64_t flags = parse_number(words[3], 16).value_or(0);
    if ((flags & kUp) != 0 && (flags & kReject) == 0) carriers.push_back({std::string(words[0]), "the default route"});
  }
}

// proc/net/ipv6_route: destination prefix source prefix next-hop metric references uses flags interface
void add_default_routes_v6(const Tree& tree, std::vector<Carrier>& carriers) {
  const std::string text = tree.text("proc/net/ipv6_route").value_or("");
  for (const std::string_view line : split_at(text, '\n')) {
    const std::vector<std::string_view> words = words_of(line);
    if (words.size() < 10 || words[1] != "00" || words[0].find_first_not_of('0') != words[0].npos) continue;
    const int64_t flags = parse_number(words[8], 16).value_or(kReject);
    if ((flags & kUp) != 0 && (flags & kReject) == 0 && words[9] != "lo") {
      carriers.push_back({std::string(words[9]), "the IPv6 default route"});
    }
  }
}

// Hexadecimal words in the byte order of the machine, each 4 bytes of the address. An IPv4-mapped one becomes IPv4.
std::string address_text(std::string_view hex) {
  if (hex.size() != 8 && hex.size() != 32) return "";
  unsigned char bytes[16];
  for (size_t i = 0; i < hex.size() / 8; i++) {
    const std::optional<int64_t> word = parse_number(hex.substr(i * 8, 8), 16);
    if (!word || *word < 0) return "";
    const auto value = static_cast<uint32_t>(*word);
    memcpy(bytes + i * 4, &value, sizeof value);
  }
  constexpr unsigned char kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  char text[INET6_ADDRSTRLEN];
  const bool mapped = hex.size() == 32 && memcmp(bytes, kMapped, sizeof kMapped) == 0;
  const int family = hex.size() == 8 || mapped ? AF_INET : AF_INET6;
  return inet_ntop(family, mapped ? bytes + 12 : bytes, text, sizeof text) == nullptr ? "" : text;
}

// proc/net/tcp: sl local_address rem_address st ...
void add_ssh_addresses(const Tree& tree, const std::string& file, std::vector<std::string>& addresses) {
  const std::string text = tree.text(file).value_or("");
  for (const std::string_view line : split_at(text, '\n')) {
    const std::vector<std::string_view> words = words_of(line);
    if (words.size() < 4 || words[3] != kEstablished) continue;
    const size_t colon = words[1].find(':');
    if (colon == words[1].npos || parse_number(words[1].substr(colon + 1), 16) != kSshPort) continue;
    addresses.push_back(address_text(words[1].substr(0, colon)));
  }
}

std::string carried_by(const Tree& tree, const std::vector<Carrier>& carriers, const std::string& interface,
                       int depth) {
  constexpr int kDeepest = 8;  // interfaces on interfaces; a made-up tree may have a circle
  std::string what;
  for (const Carrier& carrier : carriers) {
    if (carrier.interface != interface || what.find(carrier.what) != std::string::npos) continue;
    what.append(what.empty() ? "" : ", ").append(carrier.what);
  }
  if (!what.empty() || depth == kDeepest) return what;
  for (const std::string& name : tree.names("sys/class/net/" + interface)) {
    if (!name.starts_with("upper_")) continue;
    const std::string upper = name.substr(6);
    what = carried_by(tree, carriers, upper, depth + 1);
    if (!what.empty()) return what + " (of " + upper + ")";
  }
  return "";
}

}  // namespace

std::vector<Carrier> find_carriers(const Tree& tree, const Inputs& inputs) {
  std::vector<Carrier> carriers;
  std::vector<std::string> addresses;
  add_ssh_addresses(tree, "proc/net/tcp", addresses);
  add_ssh_addresses(tree, "proc/net/tcp6", addresses);
  const std::vector<std::string_view> words = words_of(inputs.ssh_connection);  // client port server port
  if (words.size() == 4) addresses.emplace_back(words[2].substr(0, words[2].find('%')));
  for (const InterfaceAddress& own : inputs.addresses) {
    if (std::find(addresses.begin(), addresses.end(), own.address) == addresses.end()) continue;
    carriers.push_back({own.interface, "an SSH session (" + own.address + ")"});
  }
  add_default_routes_v4(tree, carriers);
  add_default_routes_v6(tree, carriers);
  return carriers;
}

std::string carried_by(const Tree& tree, const std::vector<Carrier>& carriers, const std::string& interface) {
  return carried_by(tree, carriers, interface, 0);
}

}  // namespace weir::dataplane::doctor
