#include <fmt/format.h>

#include "tests/drawn/drawing.h"

namespace weir::drawn {
namespace {

std::string comment(Drawing& drawing) {
  return std::string(one_of(drawing.random, kComments));
}

// A line that every reader of such lists reads alike.
std::string good_line(Drawing& drawing) {
  drawing.begin("entry");
  const Written entry = drawing.any_entry();
  drawing.accept(entry.ranges);
  Choices& random = drawing.random;
  switch (random.below(12)) {
    case 6:
      return entry.text + drawing.blanks();
    case 7:
      return drawing.blanks() + entry.text;
    case 8:
      return entry.text + drawing.blanks() + "# " + comment(drawing);
    case 9:
      return entry.text + " ; " + comment(drawing);
    case 10:
      return entry.text + "#" + comment(drawing);
    case 11:
      return entry.text + drawing.blanks() + std::string(one_of(random, kRemarks));
    default:
      return entry.text;
  }
}

// Two or more addresses of one line: all of them, or the line is counted.
std::string several(Drawing& drawing) {
  constexpr const char* kBetween[] = {" ", "\t", ";",   "|",  ", ", ",",  " AND ", " & ",
                                      "+", "\\", " | ", "; ", " ,", " ;", " and ", "   "};
  drawing.begin("second address behind it");
  drawing.doubt();
  Choices& random = drawing.random;
  const std::string between = random.of(kBetween);
  std::string line;
  std::vector<Range> ranges;
  const uint32_t n = 2 + random.below(3);
  for (uint32_t i = 0; i < n; i++) {
    const Written one = drawing.entry();
    line += (i == 0 ? "" : between) + one.text;
    ranges.insert(ranges.end(), one.ranges.begin(), one.ranges.end());
  }
  drawing.accept(ranges);
  return line;
}

// Ends of ranges, masks and lengths in other spellings: what is meant, or the line is counted.
std::string in_other_words(Drawing& drawing) {
  Choices& random = drawing.random;
  drawing.doubt();
  constexpr const char* kTo[] = {" to ", "..", "=", " TO ", " -- ", " through ", " - - "};
  constexpr const char* kMask[] = {" ", "\t", " netmask ", " mask ", " NETMASK "};
  const uint32_t what = random.below(8);
  drawing.begin(what == 0   ? "end of a range behind a word"
                : what == 1 ? "netmask as a word"
                : what == 2 ? "length as a word"
                : what == 3 ? "short range"
                : what == 4 ? "range of ports"
                : what == 5 ? "list of ports"
                : what == 6 ? "short range of IPv6"
                            : "hostmask as a word");
  const Ipv4 network = drawing.network4();
  const std::string text = to_string(network);
  const unsigned last = 1 + random.below(255);
  constexpr unsigned kBits[] = {24, 25, 28, 16, 30};
  const unsigned bits = random.of(kBits);
  const Range prefix = prefix_of(network, bits);
  const std::string first = to_string(static_cast<Ipv4>(prefix.first));
  switch (what) {
    case 0:
      drawing.accept({{network, network + last, 0, true}});
      return text + random.of(kTo) + to_string(network + last);
    case 1:
      drawing.accept({prefix});
      return first + random.of(kMask) + to_string(prefix_mask<Ipv4>(bits));
    case 2:
      drawing.accept({prefix});
      return fmt::format("{} /{}", first, bits);
    case 3: {
      constexpr const char* kHyphen[] = {"-", " - ", " -", "- "};
      drawing.accept({{network, network + last, 0, true}});
      return fmt::format("{}{}{}", text, random.of(kHyphen), last) +
             (random.one_in(3) ? " " + std::string(one_of(random, kRemarks)) : "");
    }
    case 4:
    case 5: {
      std::vector<Range> ports;
      if (what == 4) {
        for (uint16_t port = 443; port <= 446; port++) ports.push_back({network, network, port, true});
      } else {
        ports = {{network, network, 80, true}, {network, network, 443, true}};
      }
      drawing.accept(ports);
      return text + (what == 4 ? ":443-446" : ":80,443");
    }
    case 6: {
      const Ipv6 host = drawing.host6();
      const Ipv6 from = host & ~Ipv6{0xffff};
      drawing.accept({{from, from | 0xffff, 0, false}});
      return weir::to_string(from) + (random.one_in(2) ? "-ffff" : " - ffff");
    }
    default:
      drawing.accept({prefix});
      return first + " " + to_string(static_cast<Ipv4>(~prefix_mask<Ipv4>(bits)));
  }
}

std::string exception(Drawing& drawing) {
  Choices& random = drawing.random;
  drawing.doubt();
  const uint32_t what = random.below(12);
  constexpr const char* kSigns[] = {"!", "~", "-", "+", "not ", "! ", "- ", "NOT ", "!!"};
  const bool has_sign = what >= 9;
  drawing.begin(has_sign ? "exception by a sign" : what == 8 ? "exception behind a separator" : "exception by a word");
  const Written entry = drawing.entry();
  drawing.must_count();
  if (has_sign) return random.of(kSigns) + entry.text;
  const std::string word(one_of(random, kPassWords));
  if (what == 8) {
    constexpr const char* kBehind[] = {";", ":", ",", "|", "="};
    return entry.text + random.of(kBehind) + word;
  }
  return entry.text + drawing.blanks() + word + (random.one_in(4) ? " # " + comment(drawing) : "");
}

std::string bad_line(Drawing& drawing) {
  drawing.begin("bad entry");
  drawing.must_count();
  return drawing.bad_entry();
}

std::string noise(Drawing& drawing) {
  constexpr const char* kNoise[] = {
      "evil.example", "junk",  "http://x.example/y", "/w00t.example.scan:)", "999", "-", "AS64500", "localhost",
      "-----",        "[list]"};
  drawing.begin("noise");
  drawing.must_count();
  const std::string line = drawing.random.of(kNoise);
  if (line.starts_with('[')) drawing.doubt();  // what stands behind the name of a section may be anything
  return line;
}

std::string comment_line(Drawing& drawing) {
  constexpr const char* kSure[] = {"#", "# ", "##### ", "\t# "};
  constexpr const char* kOthers[] = {"; ", "// ", "//", "! ", ";", "! by ", "-- "};
  Choices& random = drawing.random;
  const bool is_sure = random.below(4) < 3;
  drawing.begin("comment");
  if (is_sure) return random.of(kSure) + comment(drawing);
  drawing.may_count();
  return random.of(kOthers) + comment(drawing);
}

std::string block_word(Drawing& drawing) {
  drawing.begin("word of a block");
  const Written entry = drawing.entry();
  drawing.accept(entry.ranges);
  return entry.text + drawing.blanks() + std::string(one_of(drawing.random, kBlockWords));
}

std::string odd_behind(Drawing& drawing) {
  constexpr const char* kBehind[] = {",", ";SBL1", " - remark", " -- seen often", " -spam", ";65", "-", " 1700000000"};
  drawing.begin("remark in an odd place");
  drawing.doubt();
  drawing.may_count();
  const Written entry = drawing.host();
  drawing.accept(entry.ranges);
  drawing.accept({});
  return entry.text + drawing.random.of(kBehind);
}

// `1.2.3.4 spam from 5.6.7.8`: the second address is nobody's entry.
std::string address_in_remark(Drawing& drawing) {
  drawing.begin("remark that holds an address");
  drawing.doubt();
  const Written entry = drawing.host();
  drawing.accept(entry.ranges);
  drawing.may_count();
  const std::string line = entry.text + " spam seen at ";
  drawing.begin("address in a remark");
  drawing.may_count();
  return line + drawing.host().text;
}

std::string lone_return(Drawing& drawing) {
  drawing.begin("CR inside of a line");
  drawing.doubt();
  const Written a = drawing.host(), b = drawing.host();
  drawing.accept({a.ranges[0], b.ranges[0]});
  constexpr const char* kBetween[] = {"\r", "\xc2\x85", "\xe2\x80\xa8", "\xc2\xa0", "\v", "\f"};
  return a.text + drawing.random.of(kBetween) + b.text;
}

// Lines of all kinds.
Document draw_mixed(Choices& random, bool only_good) {
  Drawing drawing(random, "plain");
  std::string text;
  const uint32_t n = 3 + random.below(random.one_in(20) ? 300 : 20);
  uint32_t noise_lines = 0;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t kind = random.below(only_good ? 12 : 20);
    std::string line;
    if (kind < 8 || i < 2) {
      line = good_line(drawing);
    } else if (kind < 9) {
      line = comment_line(drawing);
    } else if (kind < 10) {
      line = "";
    } else if (kind < 11) {
      line = i > 5 && noise_lines * 6 < i ? (noise_lines++, bad_line(drawing)) : good_line(drawing);
    } else if (kind < 12) {
      line = i > 5 && noise_lines * 6 < i ? (noise_lines++, noise(drawing)) : block_word(drawing);
    } else if (kind < 14) {
      line = exception(drawing);
    } else if (kind < 16) {
      line = several(drawing);
    } else if (kind < 18) {
      line = in_other_words(drawing);
    } else if (kind < 19) {
      line = random.one_in(2) ? odd_behind(drawing) : address_in_remark(drawing);
    } else {
      line = random.one_in(2) ? lone_return(drawing) : bad_line(drawing);
    }
    text += line + "\n";
  }
  drawing.document.text = with_line_ends(random, text);
  return drawing.document;
}

// The same behind every address: a netmask, a length, the end of a range, a count, a verdict.
Document draw_two_columns(Choices& random) {
  Drawing drawing(random, "plain");
  constexpr const char* kBetween[] = {" ", "\t", "  ", ";", "\t\t"};
  const std::string between = random.of(kBetween);
  const uint32_t what = random.below(5);
  constexpr const char* kKinds[] = {"column of netmasks", "column of lengths", "column of ends", "column of counts",
                                    "column of verdicts"};
  if (what != 3) drawing.doubt();
  std::string text;
  const uint32_t n = 3 + random.below(12);
  for (uint32_t i = 0; i < n; i++) {
    drawing.begin(kKinds[what]);
    constexpr unsigned kBits[] = {24, 25, 24, 16, 24};
    const unsigned bits = random.of(kBits);
    const Ipv4 host = drawing.host4();
    const Range prefix = prefix_of(host, bits);
    const std::string first = to_string(static_cast<Ipv4>(prefix.first));
    std::string behind;
    if (what == 0) {
      behind = to_string(prefix_mask<Ipv4>(bits));
    } else if (what == 1) {
      behind = std::to_string(bits);
    } else if (what == 2) {
      behind = to_string(static_cast<Ipv4>(prefix.last));
    }
    if (what < 3) drawing.accept({prefix});
    if (what == 3) {
      drawing.accept({drawing.range_of(host)});
      text += to_string(host) + between + std::to_string(1 + random.below(200));
    } else if (what == 4) {
      const bool is_pass = random.one_in(3);
      is_pass ? drawing.must_count() : drawing.accept({drawing.range_of(host)});
      text += to_string(host) + between + std::string(one_of(random, is_pass ? kPassWords : kBlockWords));
    } else {
      text += first + between + behind;
    }
    if (random.one_in(3) && what < 3) text += between + "ZZ";
    text += "\n";
  }
  if (what == 3 && between == ";") drawing.doubt();
  drawing.document.text = with_line_ends(random, text);
  return drawing.document;
}

// An error in prose, or a list in one line.
Document draw_one_line(Choices& random) {
  Drawing drawing(random, "plain");
  drawing.doubt();
  constexpr const char* kBehind[] = {" has made too many requests; try again in 60 s",
                                     " is not allowed to fetch this list", ": access denied", " was rate limited",
                                     " has exceeded its quota"};
  constexpr const char* kBefore[] = {"Error: ", "error: ", "Your address ", "Too many requests from ", "429 "};
  const uint32_t what = random.below(3);
  if (what == 0) {
    drawing.document.text = several(drawing) + "\n";
    return drawing.document;
  }
  drawing.begin("error in prose");
  drawing.document.must_refuse = true;
  const std::string host = to_string(drawing.host4());
  drawing.document.text = (what == 1 ? host + random.of(kBehind) : random.of(kBefore) + host) + "\n";
  return drawing.document;
}

// Texts of other tools, whose lines hold addresses: all of what they mean, or counted, or refused.
Document draw_other_tool(Choices& random) {
  struct Tool {
    const char* kind;
    const char* before;  // of the whole
    const char* line;    // {}: the address
    const char* exception;
    const char* after;
  };
  constexpr Tool kTools[] = {
      {"hosts.deny", "", "ALL: {}", "sshd: ALL EXCEPT {}", ""},
      {"iptables-save", "*filter\n", "-A INPUT -s {}/32 -j DROP", "-A INPUT -s {}/32 -j ACCEPT", "COMMIT\n"},
      {"iptables", "", "iptables -A INPUT -s {} -j DROP", "iptables -A INPUT -s {} -j ACCEPT", ""},
      {"pf", "", "block in quick from {} to any", "pass in quick from {} to any", ""},
      {"Cisco", "ip access-list extended BAD\n", " deny ip host {} any", " permit ip host {} any", ""},
      {"Juniper", "", "set policy-options prefix-list BAD {}/32", "delete policy-options prefix-list BAD {}/32", ""},
      {"YAML", "blocklist:\n", "  - {}", "except:\n  - {}", ""},
      {"geo of nginx", "geo $bad {\n  default 0;\n", "  {} 1;", "  {} 0;", "}\n"},
      {"BIND", "acl bad {\n", "  {};", "  !{};", "};\n"},
      {"Suricata", "", "alert ip {} any -> $HOME_NET any (msg:\"x\"; sid:1; rev:1;)",
       "pass ip {} any -> $HOME_NET any (msg:\"y\"; sid:2; rev:1;)", ""},
      {"RouterOS", "/ip firewall address-list\n", "add list=blacklist address={}", "add list=whitelist address={}", ""},
      {"Apache", "", "Require not ip {}", "Require ip {}", ""},
      {"Apache 2.2", "", "Deny from {}", "Allow from {}", ""},
      {"HAProxy", "", "http-request deny if {{ src {} }}", "http-request allow if {{ src {} }}", ""},
      {"ufw", "", "ufw deny from {}", "ufw allow from {}", ""},
      {"CDB list", "", "{}:blocked", "{}:trusted", ""},
      {"access table", "", "{}\tREJECT", "{}\tOK", ""},
      {"fail2ban log", "", "2026-11-27 08:00:00,123 fail2ban.actions [1]: NOTICE [sshd] Ban {}",
       "2026-11-27 08:00:00,123 fail2ban.actions [1]: NOTICE [sshd] Unban {}", ""},
      {"Terraform", "cidr_blocks = [\n", "  \"{}/32\",", "  # \"{}/32\",", "]\n"},
      {"Windows", "", "netsh advfirewall firewall add rule name=\"bad\" dir=in action=block remoteip={}",
       "netsh advfirewall firewall add rule name=\"good\" dir=in action=allow remoteip={}", ""},
      {"zone file", "", "{} IN A 127.0.0.2", "!{}", ""},
      {"access log", "", "{} - - [27/Nov/2026:08:00:00 +0000] \"GET / HTTP/1.1\" 200 1", "", ""},
  };
  const Tool& tool = random.of(kTools);
  Drawing drawing(random, "plain");
  drawing.doubt();
  std::string text = tool.before;
  drawing.may_count(10);
  const uint32_t n = 2 + random.below(8);
  for (uint32_t i = 0; i < n; i++) {
    const bool is_pass = tool.exception[0] != '\0' && random.one_in(4);
    drawing.begin(fmt::format("{}{}", is_pass ? "exception of " : "", tool.kind));
    const Ipv4 host = drawing.host4();
    if (!is_pass) drawing.accept({drawing.range_of(host)});
    if (is_pass && tool.exception[2] == '#') {
      drawing.may_count();
    } else if (is_pass) {
      drawing.must_count();
    }
    drawing.may_count();
    text += fmt::format(fmt::runtime(is_pass ? tool.exception : tool.line), to_string(host)) + "\n";
  }
  drawing.document.text = text + tool.after;
  return drawing.document;
}

}  // namespace

Document draw_plain(Choices& random) {
  const uint32_t what = random.below(10);
  Document document = what < 4   ? draw_mixed(random, true)
                      : what < 7 ? draw_mixed(random, false)
                      : what < 8 ? draw_two_columns(random)
                      : what < 9 ? draw_other_tool(random)
                                 : draw_one_line(random);
  return document;
}

}  // namespace weir::drawn
