#include <fmt/format.h>

#include "tests/drawn/drawing.h"

// Formats of other tools, a command or a range a line.
namespace weir::drawn {
namespace {

Document finish(Drawing& drawing, const std::string& text) {
  Choices& random = drawing.random;
  drawing.document.text = with_line_ends(random, text);
  if (random.one_in(4)) drawing.document.format = drawing.document.drawn_as;
  return drawing.document;
}

std::string set_name(Choices& random) {
  return std::string(one_of(random, random.one_in(3) ? kBlockNames : kPlainNames));
}

// Of a host; formats that pad them by zeros read them as decimal.
std::string padded(Ipv4 address) {
  return fmt::format("{:03}.{:03}.{:03}.{:03}", address >> 24, address >> 16 & 0xff, address >> 8 & 0xff,
                     address & 0xff);
}

std::string nft_comment(Choices& random) {
  constexpr const char* kTexts[] = {"see 192.0.2.99", "x, y } {", "# no", "nomatch", "timeout 5", "accept"};
  return fmt::format(" comment \"{}\"", random.of(kTexts));
}

}  // namespace

Document draw_ipset(Choices& random) {
  Drawing drawing(random, "ipset");
  std::string text;
  const uint32_t n_sets = 1 + random.below(3);
  drawing.may_count(4);  // `flush`, `COMMIT` and the like
  for (uint32_t set = 0; set < n_sets; set++) {
    const bool is_pass = n_sets > 1 && set > 0 && random.one_in(3);
    const std::string name = is_pass ? std::string(one_of(random, kPassNames)) : set_name(random) + std::to_string(set);
    const bool has_netmask = !is_pass && random.one_in(12);
    if (is_pass) drawing.doubt();
    text += fmt::format("create {} hash:{} family inet{}\n", name, random.one_in(2) ? "ip" : "net",
                        has_netmask        ? " netmask 24"
                        : random.one_in(4) ? " timeout 600 comment"
                                           : "");
    if (random.one_in(6)) text += "flush " + name + "\n";
    const uint32_t n = 2 + random.below(8);
    for (uint32_t i = 0; i < n; i++) {
      const uint32_t kind = random.below(20);
      const char* verb = random.one_in(8) ? "-A" : random.one_in(8) ? "add -exist" : "add";
      if (is_pass) {
        drawing.begin("set of what is allowed");
        if (i == 0) drawing.must_count();
        drawing.may_count();
        text += fmt::format("add {} {}\n", name, drawing.host().text);
      } else if (has_netmask) {
        drawing.begin("set with a netmask");
        const Ipv4 host = drawing.host4();
        drawing.accept({prefix_of(host, 24)});
        text += fmt::format("add {} {}\n", name, to_string(host));
      } else if (kind == 12) {
        drawing.begin("exception `nomatch`");
        drawing.must_count();
        text += fmt::format("{} {} {} nomatch\n", verb, name, drawing.prefix().text);
      } else if (kind == 13) {
        drawing.begin("entry of two parts");
        drawing.must_count();
        text += fmt::format("add {} {},tcp:80\n", name, drawing.host().text);
      } else if (kind == 14) {
        drawing.begin("bad entry");
        drawing.must_count();
        text += fmt::format("add {} {}\n", name, drawing.bad_entry());
      } else if (kind == 15) {
        drawing.begin("rule of iptables");
        drawing.must_count();
        drawing.doubt();
        text += fmt::format("-A INPUT -s {}/32 -j ACCEPT\n", to_string(drawing.host4()));
      } else if (kind == 16) {
        drawing.begin("entry that is taken out again");
        drawing.doubt();
        const Written entry = drawing.host();
        drawing.accept(entry.ranges);
        drawing.count_if_read();
        drawing.may_count(2);
        text += fmt::format("add {0} {1}\ndel {0} {1}\n", name, entry.text);
      } else if (kind == 17) {
        drawing.begin("entry before a flush");
        drawing.doubt();
        drawing.may_count(2);
        const Written entry = drawing.host();
        drawing.accept(entry.ranges);
        drawing.count_if_read();
        const std::string other = "flushed" + std::to_string(i);
        text += fmt::format("create {0} hash:ip\nadd {0} {1}\nflush {0}\n", other, entry.text);
      } else if (kind == 18) {
        drawing.begin("comment");
        text += "# " + std::string(one_of(random, kComments)) + "\n";
      } else {
        drawing.begin("entry");
        const Written entry = kind < 10 ? drawing.entry() : drawing.range();
        drawing.accept(entry.ranges);
        std::string one = entry.text;
        std::erase(one, ' ');
        text += fmt::format("{} {} {}{}{}\n", verb, name, one, random.one_in(5) ? " timeout 60" : "",
                            random.one_in(5) ? nft_comment(random) : "");
      }
    }
  }
  if (random.one_in(4)) text += "COMMIT\n";
  return finish(drawing, text);
}

Document draw_nft(Choices& random) {
  Drawing drawing(random, "nft");
  const auto elements = [&](bool is_pass, bool is_map) {
    std::string all;
    const uint32_t n = 1 + random.below(8);
    for (uint32_t i = 0; i < n; i++) {
      if (i > 0) all += random.one_in(2) ? ",\n      " : ", ";
      const uint32_t kind = random.below(16);
      if (is_pass) {
        drawing.begin("set of what is allowed");
        if (i == 0) drawing.must_count();
        drawing.may_count();
        all += drawing.host().text;
      } else if (is_map) {
        const bool drops = random.one_in(2);
        drawing.begin(drops ? "drop in a map" : "accept in a map");
        const Written entry = drawing.host();
        drops ? drawing.accept(entry.ranges) : drawing.must_count();
        all += entry.text + (drops ? " : drop" : " : accept");
      } else if (kind == 10) {
        drawing.begin("address and port");
        const Ipv4 host = drawing.host4();
        drawing.accept({{host, host, 443, true}});
        all += to_string(host) + " . 443";
      } else if (kind == 11) {
        drawing.begin("bad element");
        drawing.must_count();
        all += drawing.bad_entry();
      } else if (kind == 12) {
        drawing.begin("element of three parts");
        drawing.must_count();
        all += drawing.host().text + " . tcp . 443";
      } else if (kind == 13) {
        drawing.begin("name of a set");
        drawing.must_count();
        drawing.doubt();
        all += "$others";
      } else {
        drawing.begin("element");
        const Written entry = kind < 8 ? drawing.entry() : drawing.range();
        drawing.accept(entry.ranges);
        std::string one = entry.text;
        std::erase(one, ' ');
        all += one + (random.one_in(5) ? " timeout 1h expires 59m3s" : "") +
               (random.one_in(5) ? " counter packets 0 bytes 0" : "") + (random.one_in(5) ? nft_comment(random) : "");
      }
    }
    return all + (random.one_in(6) ? "," : "");
  };
  std::string text = random.one_in(4) ? "#!/usr/sbin/nft -f\n# { 192.0.2.9\n" : "";
  const uint32_t n = 1 + random.below(3);
  const uint32_t shape = random.below(3);
  if (shape == 0) text += "table inet filter {\n";
  for (uint32_t i = 0; i < n; i++) {
    const bool is_pass = i > 0 && random.one_in(3);
    if (is_pass) drawing.doubt();
    const std::string name = is_pass ? std::string(one_of(random, kPassNames)) : set_name(random) + std::to_string(i);
    if (shape == 0) {
      const bool is_map = !is_pass && random.one_in(6);
      if (is_map) drawing.doubt();
      text += fmt::format("  {} {} {{\n    type ipv4_addr{}\n    flags interval\n    elements = {{ {} }}\n  }}\n",
                          is_map ? "map" : "set", name, is_map ? " : verdict" : "", elements(is_pass, is_map));
    } else if (shape == 1) {
      text += fmt::format("define {} = {{ {} }}\n", name, elements(is_pass, false));
    } else {
      text += fmt::format("add element inet filter {} {{ {} }}\n", name, elements(is_pass, false));
      if (random.one_in(6)) {
        drawing.begin("element that is taken out");
        drawing.may_count();
        drawing.doubt();
        text += fmt::format("delete element inet filter {} {{ {} }}\n", name, drawing.host().text);
      }
    }
  }
  if (shape == 0) {
    if (random.one_in(3)) {
      drawing.begin("address in a rule");
      drawing.may_count();
      drawing.doubt();
      const bool drops = random.one_in(2);
      const Written entry = drawing.host();
      drawing.accept({});
      if (drops) drawing.accept(entry.ranges);
      text +=
          fmt::format("  chain c {{\n    type filter hook input priority 0; policy accept;\n    ip saddr {} {}\n  }}\n",
                      entry.text, drops ? "drop" : "accept");
    }
    text += "}\n";
  }
  if (random.one_in(12) && text.size() > 40) {
    const size_t brace = text.rfind('}');
    text.resize(brace);
    drawing.document.must_refuse = text.find('{') != std::string::npos && shape == 0;
    drawing.doubt();
    if (!drawing.document.must_refuse) text += "}\n";
  }
  return finish(drawing, text);
}

Document draw_nginx(Choices& random) {
  Drawing drawing(random, "nginx");
  std::string text = random.one_in(3) ? "# deny 192.0.2.1;\n" : "";
  const uint32_t n = 2 + random.below(12);
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t kind = i == 0 ? 0 : random.below(16);
    if (kind == 11) {
      drawing.begin("allow");
      drawing.must_count();
      text += fmt::format("allow {};\n", drawing.entry().text);
    } else if (kind == 12) {
      constexpr const char* kOthers[] = {"deny all;",       "allow all;",   "deny unix:;", "server_name x;",
                                         "include /etc/x;", "satisfy any;", "return 403;"};
      drawing.begin("other directive");
      drawing.must_count();
      text += std::string(random.of(kOthers)) + "\n";
    } else if (kind == 13) {
      drawing.begin("bad entry");
      drawing.must_count();
      text += fmt::format("deny {};\n", drawing.bad_entry());
    } else if (kind == 14) {
      drawing.begin("several in a line");
      const Written a = drawing.host(), b = drawing.host();
      drawing.accept({a.ranges[0], b.ranges[0]});
      text += fmt::format("deny {}; deny {}; # x\n", a.text, b.text);
    } else {
      drawing.begin("deny");
      const Written entry = drawing.entry();
      drawing.accept(entry.ranges);
      text += fmt::format("{}deny{}{}{};{}\n", random.one_in(4) ? "  " : "", random.one_in(4) ? "\t" : " ", entry.text,
                          random.one_in(4) ? " " : "", random.one_in(5) ? " # allow" : "");
    }
  }
  return finish(drawing, text);
}

Document draw_iproute(Choices& random) {
  Drawing drawing(random, "iproute");
  std::string text = random.one_in(4) ? "#!/bin/sh\n" : "";
  constexpr const char* kNull[] = {"blackhole", "unreachable", "prohibit"};
  const bool is_table = random.one_in(2);
  const uint32_t n = 2 + random.below(12);
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t kind = i == 0 ? 0 : random.below(16);
    if (kind < 9) {
      drawing.begin("null route");
      const Written entry = drawing.entry();
      drawing.accept(entry.ranges);
      text += is_table ? fmt::format("{} {}{}\n", random.of(kNull), entry.text, random.one_in(3) ? " proto static" : "")
                       : fmt::format("ip route {} {} {}\n", random.one_in(2) ? "add" : "replace", random.of(kNull),
                                     entry.text);
    } else if (kind == 9) {
      drawing.begin("netmask of Cisco or Windows");
      drawing.doubt();
      const Range range = prefix_of(drawing.network4(), 24);
      drawing.accept({range});
      text += fmt::format(fmt::runtime(random.one_in(2) ? "ip route {} 255.255.255.0 Null0\n"
                                                        : "route -p ADD {} MASK 255.255.255.0 0.0.0.0\n"),
                          to_string(static_cast<Ipv4>(range.first)));
    } else if (kind == 10) {
      drawing.begin("route that is taken out");
      drawing.must_count();
      text += fmt::format("ip route del {}\n", drawing.prefix().text);
    } else if (kind == 11) {
      drawing.begin("default route");
      drawing.must_count();
      drawing.may_count();
      const std::string gateway = to_string(drawing.host4());
      text += (is_table ? "default via " : "ip route add default via ") + gateway + (is_table ? " dev eth0\n" : "\n");
    } else if (kind == 12) {
      constexpr const char* kOwn[] = {"local {} dev lo table local proto kernel\n", "broadcast {} dev eth0\n",
                                      "{}/24 dev eth1 proto kernel scope link\n", "throw {}/24\n"};
      drawing.begin("route of the system");
      drawing.must_count();
      drawing.doubt();
      text += fmt::format(fmt::runtime(random.of(kOwn)), to_string(drawing.network4()));
    } else if (kind == 13) {
      // A route of a table with a null route is where a neighbour lives.
      drawing.begin("route to a neighbour");
      drawing.must_count();
      drawing.doubt();
      const Range network = prefix_of(drawing.network4(), 24);
      drawing.accept_warned({network});
      text += fmt::format("{}/24 via 192.0.2.5 dev eth1 proto bgp\n", to_string(static_cast<Ipv4>(network.first)));
    } else if (kind == 14) {
      drawing.begin("bad entry");
      drawing.must_count();
      text += fmt::format("ip route add blackhole {}\n", drawing.bad_entry());
    } else {
      drawing.begin("comment");
      text += "# " + std::string(one_of(random, kComments)) + "\n";
    }
  }
  return finish(drawing, text);
}

Document draw_zeek(Choices& random) {
  Drawing drawing(random, "zeek");
  const bool is_swapped = random.one_in(4);
  std::string text = random.one_in(4) ? "# made today\n" : "";
  text += is_swapped ? "#fields\tindicator_type\tindicator\tmeta.source\n"
                     : "#fields\tindicator\tindicator_type\tmeta.source\n";
  const uint32_t n = 2 + random.below(12);
  const auto row = [&](const std::string& indicator, const std::string& type) {
    text += fmt::format("{}\t{}\t{}\n", is_swapped ? type : indicator, is_swapped ? indicator : type,
                        random.one_in(3) ? "seen at 192.0.2.9" : "x");
  };
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t kind = i == 0 ? 0 : random.below(12);
    if (kind == 8) {
      drawing.begin("indicator of another type");
      drawing.must_count();
      row("evil.example", random.one_in(2) ? "Intel::DOMAIN" : "Intel::URL");
    } else if (kind == 9) {
      drawing.begin("bad entry");
      drawing.must_count();
      row(drawing.bad_entry(), "Intel::ADDR");
    } else if (kind == 10) {
      drawing.begin("address of another type");
      drawing.must_count();
      drawing.doubt();
      row(drawing.host().text, "Intel::CERT_HASH");
    } else if (kind == 11) {
      drawing.begin("row without a type");
      drawing.must_count();
      text += "alone\n";
    } else {
      drawing.begin("indicator");
      const Written entry = kind < 5 ? drawing.host() : drawing.prefix();
      drawing.accept(entry.ranges);
      row(entry.text, kind < 5 ? "Intel::ADDR" : "Intel::SUBNET");
    }
  }
  return finish(drawing, text);
}

Document draw_p2p(Choices& random) {
  Drawing drawing(random, "p2p");
  constexpr const char* kNames[] = {
      "name",  "Example-Net: EU division", "Scanner, Inc. (a-b)", "Ex 198.51.100.1", "", "A: b-c",
      "x 1.2", "Whitelisted by others"};
  std::string text = random.one_in(4) ? "# PeerGuardian\n" : "";
  const uint32_t n = 2 + random.below(12);
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t kind = i < 2 ? 0 : random.below(12);
    const std::string name = random.of(kNames);
    if (kind == 9) {
      drawing.begin("bad entry");
      drawing.must_count();
      text += name + ":" + drawing.bad_entry(false) + "\n";
    } else if (kind == 10) {
      drawing.begin("range without a name");
      drawing.doubt();
      const Written entry = drawing.range();
      drawing.accept(entry.ranges);
      text += entry.text + "\n";
    } else if (kind == 11) {
      drawing.begin("noise");
      drawing.must_count();
      text += "nothing at all\n";
    } else {
      drawing.begin("range");
      const Ipv4 first = drawing.network4() | random.below(100), last = first + random.below(150);
      drawing.accept({{first, last, 0, true}});
      const bool is_padded = random.one_in(5);
      text += fmt::format("{}:{}{}{}\n", name, is_padded ? padded(first) : to_string(first),
                          random.one_in(6) ? " - " : "-", is_padded ? padded(last) : to_string(last));
    }
  }
  return finish(drawing, text);
}

Document draw_dat(Choices& random) {
  Drawing drawing(random, "dat");
  std::string text = random.one_in(4) ? "# ipfilter.dat\n" : "";
  const uint32_t n = 2 + random.below(12);
  const bool is_padded = random.one_in(2);
  uint32_t not_read = 0;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t kind = i < 2 ? 0 : random.below(12);
    drawing.begin(kind == 9    ? "level that lets through"
                  : kind == 10 ? "reversed range"
                  : kind == 11 ? "noise"
                               : "range");
    const Ipv4 first = drawing.network4() | random.below(100), last = first + 1 + random.below(150);
    const auto text_of = [&](Ipv4 address) { return is_padded ? padded(address) : to_string(address); };
    if (kind >= 9) {
      if (++not_read * 3 > n) drawing.doubt();
      drawing.must_count();
      text += kind == 11 ? "no range, 000, x\n"
                         : fmt::format("{} - {} , {} , Friends, Inc.\n", text_of(kind == 10 ? last : first),
                                       text_of(kind == 10 ? first : last), kind == 9 ? 200 : 0);
    } else {
      drawing.accept({{first, last, 0, true}});
      text += fmt::format("{} - {} , {:03} , {}\n", text_of(first), text_of(last), random.below(128),
                          random.one_in(3) ? "Example 192.0.2.9, Inc." : "Example");
    }
  }
  return finish(drawing, text);
}

}  // namespace weir::drawn
