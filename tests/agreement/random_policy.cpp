#include "tests/agreement/random_policy.h"

#include <fmt/format.h>

#include <ctime>
#include <string>
#include <vector>

#include "common/ip.h"

namespace weir::agreement {
namespace {

class PolicyText {
 public:
  explicit PolicyText(Choices& choices) : choices_(choices) {
    v4_bits_ = 3 + choices_.below(12);
    v6_bits_ = 2 + choices_.below(6);
    v6_shift_ = choices_.below(100);
    if (choices_.one_in(4)) v6_network_ += Ipv6{0xffff} << 32;  // as an IPv4-mapped address has, which it is not
  }

  std::string whole() {
    settings_ = "version: 1\npolicy:\n";
    settings_ += fmt::format("  default: {}\n  unparsed: {}\n", action(2), action(2));
    if (choices_.below(3) != 0) {
      constexpr const char* kTunnels[] = {"ipip", "6in4", "gre", "vxlan", "geneve", "gtpu", "teredo"};
      std::string tunnels;
      for (const char* tunnel : kTunnels) {
        if (choices_.below(3) != 0) tunnels += fmt::format("{}{}", tunnels.empty() ? "" : ", ", tunnel);
      }
      settings_ += "  tunnels: [" + tunnels + "]\n";
    }
    bool cuts_v6 = false;  // every length behind an own address becomes a shape, or is expanded
    if (choices_.one_in(4)) {
      std::string own;
      for (unsigned n = 1 + choices_.below(3); n > 0; n--) {
        const bool is_v6 = choices_.one_in(4);
        own += fmt::format("{}\"{}\"", own.empty() ? "" : ", ", prefix(is_v6));
        cuts_v6 |= is_v6;
      }
      settings_ += "  own: [" + own + "]\n";
    }
    settings_ += "filter:\n";
    // A low ceiling for most: many shapes of few keys are quick to build. The others expand as they like.
    if (!choices_.one_in(10) && !cuts_v6) settings_ += "  memory: 64MiB\n";
    if (choices_.one_in(16)) {  // many strangers get to the exact stage
      constexpr const char* kLayouts[] = {"line8", "page2", "page7", "ribbon"};
      settings_ += fmt::format("  layout: {}\n  false_positive_rate: 0.3\n", choices_.of(kLayouts));
    } else {
      constexpr const char* kRates[] = {"0.005", "0.005", "0.05", "0.001", "0.0001"};
      settings_ += fmt::format("  false_positive_rate: {}\n", choices_.of(kRates));
    }
    settings_ += "lists:\n";
    text_ = settings_;
    if (choices_.one_in(8)) {  // alone: with the lengths of a small world besides, expansion would take gigabytes
      few_keys_in_many_shapes();
    } else {
      const unsigned n_lists = choices_.one_in(40) ? 200 : 1 + choices_.below(6);
      // So many entries of every length would be more than sixteen shapes and 64 MiB hold.
      if (n_lists == 200) v6_shift_ %= 5;
      for (unsigned l = 0; l < n_lists; l++) list(l);
    }
    return text_;
  }

  std::string with_others(unsigned n_each) {
    text_ = settings_;
    if (heads_.empty()) few_keys_in_many_shapes();
    for (const std::string& head : heads_) {
      text_ += head;
      entries(n_each);
    }
    return text_;
  }

 private:
  const char* action(unsigned drop_in) { return choices_.one_in(drop_in) ? "drop" : "pass"; }

  void list(unsigned number) {
    const bool drop = choices_.below(4) != 3;
    constexpr const char* kMatches[] = {"src", "dst", "either"};
    std::string head = fmt::format("  - name: l{}\n    action: {}\n    match: {}\n    allow_any: true\n", number,
                                   drop ? "drop" : "pass", choices_.of(kMatches));
    if (drop && choices_.one_in(4)) head += "    mode: monitor\n";
    if (choices_.one_in(12)) head += fmt::format("    ipv6_aggregate: {}\n", 32 + choices_.below(96));
    text_ += head;
    heads_.push_back(std::move(head));
    entries(choices_.one_in(50) ? 300 : choices_.below(14));
  }

  void entries(unsigned n) {
    text_ += n == 0 ? "    entries: []\n" : "    entries:\n";
    for (unsigned i = 0; i < n; i++) text_ += "      - " + entry() + "\n";
  }

  // Some dozens of keys in each: the lengths are too far from each other to become one by expansion.
  void few_keys_in_many_shapes() {
    text_ += "  - name: many-shapes\n    action: drop\n    match: dst\n    entries:\n";
    const auto some = [&](auto entry) {
      if (choices_.below(4) == 3) return;
      for (unsigned n = 20 + choices_.below(80); n > 0; n--) text_ += "      - " + entry() + "\n";
    };
    for (const unsigned length : {128, 112, 96, 80, 64, 52, 40, 28}) {
      some([&] { return fmt::format("\"{}/{}\"", v6_anywhere(length), length); });
    }
    some([&] { return v4_anywhere(); });
    some([&] { return fmt::format("\"{}:{}\"", v4_anywhere(), port()); });
    some([&] { return fmt::format("\"[{}]:{}\"", v6_anywhere(128), port()); });
    some([&] { return fmt::format("{{dst: {}, proto: tcp, dport: {}}}", v4_anywhere(), port()); });
    some([&] { return fmt::format("{{src: {}, dst: {}}}", v4_anywhere(), v4_anywhere()); });
    some([&] { return fmt::format("{{src: \"{}\", proto: udp, sport: {}}}", v6_anywhere(128), port()); });
  }

  std::string v4_anywhere() { return text_of_v4((16u << 24) + (choices_.next() & 0x3fffffff)); }
  std::string v6_anywhere(unsigned length) {
    Ipv6 address = Ipv6{2} << 124;
    for (const unsigned shift : {96, 64, 32, 0}) address |= Ipv6{choices_.next() & 0x1fffffff} << shift;
    return text_of_v6(address & prefix_mask<Ipv6>(static_cast<uint8_t>(length)));
  }

  static std::string text_of_v4(unsigned address) {
    return fmt::format("{}.{}.{}.{}", address >> 24, address >> 16 & 255, address >> 8 & 255, address & 255);
  }
  std::string v4(unsigned low) const { return text_of_v4((10u << 24) + low); }
  unsigned v4_low() { return choices_.below(1u << v4_bits_); }

  // v6_network_ with some bits at v6_shift_, and the lowest two.
  std::string v6(unsigned middle, unsigned low) const {
    return text_of_v6(v6_network_ + (Ipv6{middle} << v6_shift_ % 94 << 2) + low);
  }
  static std::string text_of_v6(Ipv6 address) {
    std::string text;
    for (int group = 7; group >= 0; group--) {
      text += fmt::format("{:x}{}", static_cast<unsigned>(address >> 16 * group) & 0xffff, group > 0 ? ":" : "");
    }
    return text;
  }
  unsigned v6_middle() { return choices_.below(1u << v6_bits_); }

  std::string host(bool is_v6) { return is_v6 ? v6(v6_middle(), choices_.below(4)) : v4(v4_low()); }

  std::string prefix(bool is_v6) {
    if (is_v6) return fmt::format("{}/{}", host(true), 128 - choices_.below(v6_shift_ + v6_bits_ + 3));
    return fmt::format("{}/{}", host(false), 32 - choices_.below(v4_bits_ + 2));
  }

  std::string range(bool is_v6) {
    if (is_v6) {
      const unsigned a = v6_middle(), b = v6_middle();
      return fmt::format("{}-{}", v6(std::min(a, b), choices_.below(2)), v6(std::max(a, b), 2 + choices_.below(2)));
    }
    const unsigned a = v4_low(), b = v4_low();
    return fmt::format("{}-{}", v4(std::min(a, b)), v4(std::max(a, b)));
  }

  std::string addresses(bool is_v6) {
    switch (choices_.below(8)) {
      case 6:
        return range(is_v6);
      case 7:
        return choices_.one_in(20) ? is_v6 ? "::/0" : "0.0.0.0/0" : prefix(is_v6);
      case 4:
      case 5:
        return prefix(is_v6);
      default:
        return host(is_v6);
    }
  }

  unsigned port() {
    constexpr unsigned kPorts[] = {53, 80, 443, 8000, 8005, 1, 65535, 2152, 4789};
    return choices_.of(kPorts);
  }
  std::string ports() {
    if (!choices_.one_in(3)) return std::to_string(port());
    const unsigned a = port(), b = port();
    return fmt::format("{}-{}", std::min(a, b), std::max(a, b));
  }

  std::string time() {
    const auto at = static_cast<time_t>(kNow + choices_.below(3) - 1);
    tm parts = {};
    gmtime_r(&at, &parts);
    char text[32];
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
  }

  std::string expires() { return choices_.one_in(8) ? ", expires: " + time() : ""; }

  std::string flags() {
    constexpr const char* kFlags[] = {"fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"};
    std::string set, mask;
    for (const char* flag : kFlags) {
      const unsigned how = choices_.below(6);
      if (how >= 2 && !(mask.empty() && flag == kFlags[7])) continue;  // at least one
      mask += fmt::format("{}{}", mask.empty() ? "" : ", ", flag);
      if (how == 0) set += fmt::format("{}{}", set.empty() ? "" : ", ", flag);
    }
    return fmt::format("{{set: [{}], mask: [{}]}}", set, mask);
  }

  // Of a packet with any header that a flow can ask for: never shorter than that.
  std::string length() {
    const unsigned a = 54 + choices_.below(80), b = 54 + choices_.below(80);
    switch (choices_.below(3)) {
      case 0:
        return std::to_string(a);
      case 1:
        return std::to_string(20 + choices_.below(120)) + "-";
      default:
        return fmt::format("{}-{}", std::min(a, b), std::max(a, b));
    }
  }

  std::string dscp() {
    std::string values;
    for (unsigned n = 1 + choices_.below(3); n > 0; n--) {
      const unsigned a = choices_.below(64), b = choices_.below(64);
      values += values.empty() ? "" : ", ";
      values += choices_.below(2) == 0 ? std::to_string(a) : fmt::format("{}-{}", std::min(a, b), std::max(a, b));
    }
    return choices_.below(4) == 0 && values.find(',') == std::string::npos ? values : "[" + values + "]";
  }

  // Later fragments have no transport header.
  std::string fragment(bool with_transport) {
    constexpr const char* kWords[] = {"none", "first", "any", "later"};
    return kWords[choices_.below(with_transport ? 3 : 4)];
  }

  std::string entry() {
    const bool is_v6 = choices_.below(2) == 1;
    switch (choices_.below(10)) {
      case 5: {
        const std::string address = host(is_v6);
        return is_v6 ? fmt::format("\"[{}]:{}\"", address, port()) : fmt::format("\"{}:{}\"", address, port());
      }
      case 6: {
        const std::string when = time();
        if (!choices_.one_in(3)) return fmt::format("{{entry: \"{}\", expires: {}}}", addresses(is_v6), when);
        const std::string address = is_v6 ? "[" + host(true) + "]" : host(false);
        return fmt::format("{{entry: \"{}:{}\", expires: {}}}", address, port(), when);
      }
      case 7:
      case 8:
      case 9:
        return flow(is_v6);
      default:
        return "\"" + addresses(is_v6) + "\"";
    }
  }

  std::string flow(bool is_v6) {
    std::string fields;
    const auto add = [&](const std::string& field) { fields += (fields.empty() ? "" : ", ") + field; };
    const unsigned sides = choices_.one_in(12) ? 0 : 1 + choices_.below(3);
    if ((sides & 1) != 0) add(fmt::format("src: \"{}\"", addresses(is_v6)));
    if ((sides & 2) != 0) add(fmt::format("dst: \"{}\"", addresses(is_v6)));
    const unsigned kind = choices_.below(8);
    const bool with_transport = kind >= 1 && kind <= 5;
    const unsigned header = kind == 6 ? 1 + choices_.below(7) : choices_.one_in(4) ? choices_.below(8) : 0;
    if ((header & 1) != 0) add("length: " + length());
    if ((header & 2) != 0) add("dscp: " + dscp());
    if ((header & 4) != 0) add("fragment: " + fragment(with_transport));
    switch (kind) {
      case 1: {
        constexpr const char* kWithPorts[] = {"tcp", "udp", "sctp", "dccp", "udplite"};
        if (choices_.below(2) == 1) add(fmt::format("proto: {}", choices_.of(kWithPorts)));
        const unsigned which = 1 + choices_.below(3);
        if ((which & 1) != 0) add("dport: " + ports());
        if ((which & 2) != 0) add("sport: " + ports());
        break;
      }
      case 2:
        add(is_v6 ? "proto: icmpv6" : "proto: icmp");
        [[fallthrough]];
      case 3: {
        const unsigned which = 1 + choices_.below(3);
        const unsigned type = choices_.below(4), code = choices_.below(3);
        add(which == 1   ? fmt::format("icmp: {{type: {}}}", type)
            : which == 2 ? fmt::format("icmp: {{code: {}}}", code)
                         : fmt::format("icmp: {{type: {}, code: {}}}", type, code));
        break;
      }
      case 4:
        add("proto: tcp");
        [[fallthrough]];
      case 5:
        add("tcp_flags: " + flags());
        if (choices_.below(2) == 1) add("dport: " + ports());
        break;
      case 6:
        break;
      default: {
        constexpr unsigned kProtocols[] = {6, 17, 1, 58, 47, 4, 41, 132, 50, 44, 0};
        add(fmt::format("proto: {}", choices_.of(kProtocols)));
      }
    }
    return "{" + fields + expires() + "}";
  }

  Choices& choices_;
  Ipv6 v6_network_ = Ipv6{0x20010db8} << 96;
  unsigned v4_bits_ = 0, v6_bits_ = 0, v6_shift_ = 0;
  std::string text_, settings_;
  std::vector<std::string> heads_;  // of the lists, without their entries; none: few_keys_in_many_shapes()
};

}  // namespace

std::string random_policy(Choices& choices) {
  return PolicyText(choices).whole();
}

RandomPolicy random_policy_and_others(Choices& choices, unsigned n_each) {
  PolicyText text(choices);
  RandomPolicy random;
  random.policy = text.whole();
  random.others = text.with_others(n_each);
  return random;
}

}  // namespace weir::agreement
