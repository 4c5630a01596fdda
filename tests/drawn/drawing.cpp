#include "tests/drawn/drawing.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/policy/feeds/format.h"

namespace weir::drawn {

const std::vector<std::string_view> kPassWords = {
    "nomatch", "except",   "allow",         "allowed",   "permit",      "pass",           "ok",
    "OK",      "dunno",    "DUNNO",         "whitelist", "whitelisted", "allowlisted",    "WHITELISTED",
    "trusted", "benign",   "negated",       "Allow",     "accept",      "false_positive", "false-positive",
    "ACCEPT",  "safelist", "falsepositive", "RELAY",     "exempt",      "known-good"};
const std::vector<std::string_view> kBlockWords = {"block", "deny", "drop", "DROP", "REJECT", "blocked", "blacklisted"};
const std::vector<std::string_view> kRemarks = {"spam",
                                                "Example Ltd",
                                                "host7.example.net",
                                                "2026-11-20 08:00:00",
                                                "AS64500",
                                                "ssh bruteforce",
                                                "C2",
                                                "DE",
                                                "(scanner)",
                                                "http://x.example/y",
                                                "[bad net]",
                                                "Nowhere to be found",
                                                "tor exit node",
                                                "\"quoted text\"",
                                                "b\xc3\xb6se",
                                                "not seen since May",
                                                "user@example.net"};
const std::vector<std::string_view> kComments = {"a comment",
                                                 "was 203.0.113.0/24",
                                                 "see 203.0.113.9, 203.0.113.10",
                                                 "do not allow again",
                                                 "whitelisted until May; blocked since",
                                                 "",
                                                 "SBL123",
                                                 "{ not, json: 1 }",
                                                 "\"quote",
                                                 "----",
                                                 "[ 1 ]"};
const std::vector<std::string_view> kPassNames = {"whitelist",   "allowed",    "white-v4", "trusted_hosts", "knownGood",
                                                  "allowlist",   "exceptions", "safe",     "friends",       "Permitted",
                                                  "bypass_nets", "goodguys",   "ALLOW-v6"};
const std::vector<std::string_view> kBlockNames = {"blacklist", "blocklist", "bad",       "deny_v4",    "disallowed",
                                                   "untrusted", "banned",    "knownBad",  "drop",       "malicious",
                                                   "attackers", "dropNets",  "denylist6", "not_allowed"};
const std::vector<std::string_view> kPlainNames = {"ssh", "web", "set1", "feed_a", "scanners", "v4", "crawl", "mail"};

Range prefix_of(Ipv4 address, unsigned bits) {
  const Ipv4 first = address & prefix_mask<Ipv4>(bits);
  return {first, first | static_cast<Ipv4>(~prefix_mask<Ipv4>(bits)), 0, true};
}
Range prefix_of(Ipv6 address, unsigned bits) {
  const Ipv6 first = address & prefix_mask<Ipv6>(bits);
  return {first, first | static_cast<Ipv6>(~prefix_mask<Ipv6>(bits)), 0, false};
}

Drawing::Drawing(Choices& choices, std::string drawn_as) : random(choices), salt_(choices.below(25600)) {
  document.drawn_as = std::move(drawn_as);
  begin("text around");
}

void Drawing::begin(std::string_view kind) {
  document.items.push_back({fmt::format("{}: {}", document.drawn_as, kind), {}});
}

// 25,600 that differ: the first 16 bits of IPv4, some of the first 32 of IPv6.
uint32_t Drawing::next_network() {
  return (networks_++ * 40503 + salt_) % 25600;
}

Ipv4 Drawing::network4() {
  const uint32_t own = next_network();
  const Ipv4 address = (20 + own / 256) << 24 | (own % 256) << 16 | random.below(256) << 8;
  document.owners[network(range_of(address))] = document.items.size() - 1;
  return address;
}

Ipv4 Drawing::host4() {
  return network4() | (random.below(128) * 2 + 1);
}

Ipv6 Drawing::host6() {
  Ipv6 address = Ipv6{0x2a00'0000u + next_network()} << 96;
  document.owners[network(range_of(address))] = document.items.size() - 1;
  for (int part = 0; part < 5; part++) {
    if (random.one_in(3)) address |= Ipv6{random.below(256) << (8 * random.below(2))} << (16 + 16 * part);
  }
  return address | (random.below(0x7fff) * 2 + 1);
}

std::string Drawing::spelled(Ipv6 address) {
  std::string text = weir::to_string(address);
  switch (random.below(6)) {
    case 1:
      std::transform(text.begin(), text.end(), text.begin(), [](char c) { return static_cast<char>(toupper(c)); });
      break;
    case 2:
      text.clear();
      for (int part = 7; part >= 0; part--) {
        text += fmt::format("{:04x}{}", static_cast<unsigned>(address >> (16 * part)) & 0xffff, part > 0 ? ":" : "");
      }
      break;
    default:
      break;
  }
  return text;
}

std::string Drawing::blanks() {
  constexpr const char* kBlanks[] = {" ", "\t", "  ", " \t ", "\t\t", "      "};
  return random.of(kBlanks);
}

Written Drawing::host() {
  if (random.below(5) == 4) {
    const Ipv6 address = host6();
    return {spelled(address), {range_of(address)}};
  }
  const Ipv4 address = host4();
  return {weir::to_string(address), {range_of(address)}};
}

Written Drawing::prefix() {
  const bool has_host_bits = random.one_in(6);
  if (random.below(4) == 3) {
    constexpr unsigned kBits[] = {48, 64, 32, 56, 128, 44, 127};
    const unsigned bits = random.of(kBits);
    const Ipv6 host = host6();
    const Range range = prefix_of(host, bits);
    return {fmt::format("{}/{}", spelled(has_host_bits ? host : range.first), bits), {range}};
  }
  constexpr unsigned kBits[] = {24, 32, 28, 16, 30, 25, 31, 20};
  const unsigned bits = random.of(kBits);
  const Ipv4 host = host4();
  const Range range = prefix_of(host, bits);
  const std::string address = weir::to_string(has_host_bits ? host : static_cast<Ipv4>(range.first));
  if (random.one_in(10)) return {address + "/" + weir::to_string(prefix_mask<Ipv4>(bits)), {range}};
  return {fmt::format("{}/{}{}", address, random.one_in(20) ? "0" : "", bits), {range}};
}

Written Drawing::entry() {
  return random.below(3) == 2 ? prefix() : host();
}

Written Drawing::range() {
  constexpr const char* kHyphens[] = {"-", " - ", " -", "- "};
  const std::string hyphen = random.of(kHyphens);
  if (random.below(5) == 4) {
    const Ipv6 first = host6(), last = first + random.below(100'000);
    return {spelled(first) + hyphen + spelled(last), {{first, last, 0, false}}};
  }
  const Ipv4 first = host4(), last = first + random.below((first | 0xff) - first + 1);
  return {weir::to_string(first) + hyphen + weir::to_string(last), {{first, last, 0, true}}};
}

Written Drawing::with_port() {
  constexpr uint16_t kPorts[] = {443, 80, 8080, 22, 65535, 1, 24};
  const uint16_t port = random.of(kPorts);
  if (random.below(5) == 4) {
    const Ipv6 address = host6();
    return {fmt::format("[{}]:{}", spelled(address), port), {{address, address, port, false}}};
  }
  const Ipv4 address = host4();
  return {fmt::format("{}:{}{}", weir::to_string(address), random.one_in(10) ? "0" : "", port),
          {{address, address, port, true}}};
}

Written Drawing::any_entry() {
  const uint32_t kind = random.below(10);
  return kind < 5 ? host() : kind < 8 ? prefix() : kind < 9 ? range() : with_port();
}

std::string Drawing::bad_entry(bool may_be_padded) {
  const Ipv4 host = host4();
  const std::string text = weir::to_string(host);
  const auto octet = [&](unsigned i) { return host >> (24 - 8 * i) & 0xff; };
  switch (may_be_padded ? random.below(18) : 1 + random.below(17)) {
    case 0:
      return fmt::format("{}.{}.{}.{:03}", octet(0), octet(1), octet(2), octet(3) % 90 + 1);
    case 1:
      return text + "/33";
    case 2:
      return fmt::format("{}.{}.{}.300", octet(0), octet(1), octet(2));
    case 3:
      return fmt::format("{}-{}", weir::to_string(host | 0xff), weir::to_string(host & ~0xffu));
    case 4:
      return text + ":0";
    case 5:
      return text + ":70000";
    case 6:
      return fmt::format("{}.{}.{}", octet(0), octet(1), octet(2));
    case 7:  // behind the colon of a name it would be a good one
      return may_be_padded ? "::ffff:" + text : text + "/255.0.255.0";
    case 8:
      return text + ".1";
    case 9:
      return "x" + text;
    case 10:
      return text + "/";
    case 11:
      return weir::to_string(host6()) + "%eth0";
    case 12:
      return weir::to_string(host6()) + "/129";
    case 13:
      return text + "/0";
    case 14:
      return weir::to_string(host6()) + ":::1";
    case 15:
      return text + "/0.0.0.255";
    case 16:
      return fmt::format("v{}.{}.{}.*", octet(0), octet(1), octet(2));
    default:
      return fmt::format("0x{:08x}", host);
  }
}

std::string with_line_ends(Choices& random, std::string text) {
  if (const uint32_t how = random.below(8); how >= 6) {
    std::string all;
    for (const char c : text) all += c == '\n' ? (how == 6 ? "\r\n" : "\r\r\n") : std::string(1, c);
    text.swap(all);
  }
  if (random.one_in(8) && text.ends_with('\n')) {
    while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  }
  return random.one_in(16) ? "\xef\xbb\xbf" + text : text;
}

std::vector<Drawer> drawers() {
  constexpr Drawer kDrawers[] = {
      {"plain", draw_plain},
      {"csv", draw_csv},
      {"json", draw_json},
      {"jsonl", draw_json_lines},
      {"ipset", draw_ipset},
      {"nft", draw_nft},
      {"nginx", draw_nginx},
      {"iproute", draw_iproute},
      {"zeek", draw_zeek},
      {"p2p", draw_p2p},
      {"dat", draw_dat},
      {"spamhaus", draw_spamhaus},
      {"crowdsec", draw_crowdsec},
      {"misp", draw_misp},
      {"rir", draw_rir},
      {"suricata", draw_suricata},
      {"mikrotik", draw_mikrotik},
      {"hosts-deny", draw_hosts_deny},
      {"access", draw_access},
      {"rbldnsd", draw_rbldnsd},
      {"iprep", draw_iprep},
      {"aws", draw_aws},
      {"gcp", draw_gcp},
      {"azure", draw_azure},
      {"cloudflare", draw_cloudflare},
      {"fastly", draw_fastly},
      {"github", draw_github},
      {"oracle", draw_oracle},
      {"stix", draw_stix},
      {"misp-event", draw_misp_event},
  };
  std::vector<Drawer> all;
  for (const Drawer& drawer : kDrawers) {
    if (control::feeds::find_format(drawer.format) != nullptr) all.push_back(drawer);
  }
  return all;
}

Document draw(Choices& random) {
  static const std::vector<Drawer> kDrawers = drawers();
  return kDrawers[random.below(static_cast<uint32_t>(kDrawers.size()))].draw(random);
}

}  // namespace weir::drawn
