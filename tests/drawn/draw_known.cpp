#include <fmt/format.h>

#include <array>

#include "tests/drawn/drawing.h"

// Structures of registries, clouds, intelligence and other programs: each by its name.
namespace weir::drawn {
namespace {

Document finish(Drawing& drawing, std::string text, bool is_document = false) {
  Choices& random = drawing.random;
  drawing.document.text = is_document ? std::move(text) : with_line_ends(random, std::move(text));
  if (random.one_in(3)) drawing.document.format = drawing.document.drawn_as;
  return drawing.document;
}

// Counted items of these kinds make a document that a guard or a reader may refuse.
void count(Drawing& drawing, std::string_view kind) {
  drawing.begin(kind);
  drawing.must_count();
  drawing.doubt();
}

std::string quoted(std::string_view text) {
  return fmt::format("\"{}\"", text);
}

Range addresses_from(Ipv4 first, uint32_t n) {
  return {first, first + (n - 1), 0, true};
}

}  // namespace

Document draw_rir(Choices& random) {
  Drawing drawing(random, "rir");
  std::string text = "2|ripencc|20261127|9|19830705|20261127|+0100\nripencc|*|ipv4|*|0|summary\n";
  drawing.begin("text around");
  drawing.may_count(2);
  const uint32_t n = 2 + random.below(10);
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t kind = i == 0 ? 0 : random.below(8);
    if (kind == 7) {
      count(drawing, "numbers of autonomous systems");
      text += "ripencc|ZZ|asn|64500|1|20200101|allocated\n";
    } else if (kind == 6) {
      count(drawing, "block that nobody holds");
      text += fmt::format("ripencc||ipv4|{}|256||available\n", to_string(drawing.network4()));
    } else if (kind == 5) {
      count(drawing, "bad count");
      text += fmt::format("ripencc|ZZ|ipv4|{}|x|20200101|assigned\n", to_string(drawing.network4()));
    } else if (kind == 4) {
      drawing.begin("network of IPv6");
      const Range prefix = prefix_of(drawing.host6(), 48);
      drawing.accept({prefix});
      text += fmt::format("ripencc|ZZ|ipv6|{}|48|20200101|allocated\n", to_string(prefix.first));
    } else {
      drawing.begin("addresses of IPv4");
      constexpr std::array<uint32_t, 6> kCounts = {256, 16, 24, 96, 32, 8};
      const uint32_t addresses = kCounts[random.below(kCounts.size())];
      const Ipv4 first = drawing.network4();
      drawing.accept({addresses_from(first, addresses)});
      text += fmt::format("ripencc|ZZ|ipv4|{}|{}|20200101|{}\n", to_string(first), addresses,
                          random.one_in(2) ? "assigned" : "allocated");
    }
  }
  return finish(drawing, text);
}

Document draw_suricata(Choices& random) {
  Drawing drawing(random, "suricata");
  std::string text = random.one_in(3) ? "# group of rules\n" : "";
  const uint32_t n = 1 + random.below(6);
  for (uint32_t i = 0; i < n; i++) {
    const char* action = random.one_in(2) ? "alert" : "drop";
    const uint32_t kind = i == 0 ? 0 : random.below(6);
    if (kind == 5) {
      count(drawing, "rule that passes");
      text += fmt::format("pass ip {} any -> $HOME_NET any (msg:\"x, y\"; sid:{};)\n", to_string(drawing.host4()), i);
      continue;
    }
    if (kind == 4) {
      count(drawing, "addresses at both sides");
      text += fmt::format("{} ip {} any -> {} any (sid:{};)\n", action, to_string(drawing.host4()),
                          to_string(drawing.host4()), i);
      continue;
    }
    std::string members;
    for (uint32_t member = 0, all = 1 + random.below(7); member < all; member++) {
      const bool is_negated = member > 0 && random.one_in(8);
      if (is_negated) {
        count(drawing, "negated member");
      } else {
        drawing.begin("member");
      }
      const Ipv4 host = drawing.host4();
      if (!is_negated) drawing.accept({drawing.range_of(host)});
      members += (member == 0        ? ""
                  : random.one_in(3) ? ", "
                                     : ",") +
                 std::string(is_negated ? "!" : "") + to_string(host);
    }
    text += fmt::format(
        "{} ip [{}] any -> $HOME_NET any (msg:\"group {}\"; threshold: type limit, track by_src, seconds "
        "60, count 1; sid:{}; rev:1;)\n",
        action, members, i, 2'400'000 + i);
  }
  return finish(drawing, text);
}

Document draw_mikrotik(Choices& random) {
  Drawing drawing(random, "mikrotik");
  const bool has_context = random.one_in(2);
  std::string text = has_context ? "/ip firewall address-list\n" : "";
  const char* prefix = has_context ? "" : "/ip firewall address-list ";
  const uint32_t n = 2 + random.below(8);
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t kind = i == 0 ? 0 : random.below(8);
    if (kind == 7) {
      count(drawing, "list of what is allowed");
      text += fmt::format("{}add list={} address={}\n", prefix, one_of(random, kPassNames), to_string(drawing.host4()));
    } else if (kind == 6) {
      count(drawing, "disabled");
      text += fmt::format("{}add address={} disabled=yes list=blacklist\n", prefix, to_string(drawing.host4()));
    } else if (kind == 5) {
      count(drawing, "name");
      text += fmt::format("{}add address=evil.example list=blacklist\n", prefix);
    } else {
      drawing.begin("address");
      const Ipv4 host = drawing.host4();
      const bool is_network = random.one_in(3);
      drawing.accept({is_network ? prefix_of(host, 24) : drawing.range_of(host)});
      const std::string address = is_network ? to_string(static_cast<Ipv4>(host & ~0xffu)) + "/24" : to_string(host);
      text += fmt::format("{}add list=blacklist address={}{}\n", prefix, address,
                          random.one_in(4) ? " comment=\"see 192.0.2.99\"" : "");
    }
  }
  return finish(drawing, text);
}

Document draw_hosts_deny(Choices& random) {
  Drawing drawing(random, "hosts-deny");
  std::string text = random.one_in(3) ? "# /etc/hosts.deny\n" : "";
  const uint32_t n = 1 + random.below(6);
  for (uint32_t i = 0; i < n; i++) {
    std::string clients;
    for (uint32_t client = 0, all = 1 + random.below(4); client < all; client++) {
      clients += client == 0 ? "" : random.one_in(2) ? ", " : " ";
      if (client > 0 && random.one_in(6)) {
        count(drawing, "name");
        clients += ".evil.example";
        continue;
      }
      drawing.begin("client");
      const Ipv4 host = drawing.host4();
      const uint32_t kind = random.below(3);
      drawing.accept({kind == 0 ? drawing.range_of(host) : prefix_of(host, 24)});
      const Ipv4 network = host & ~0xffu;
      const std::string octets = to_string(network);
      clients += kind == 0   ? to_string(host)
                 : kind == 1 ? octets + "/255.255.255.0"
                             : octets.substr(0, octets.rfind('.') + 1);
    }
    text += fmt::format("{}: {}\n", random.one_in(2) ? "ALL" : "sshd", clients);
  }
  drawing.doubt();
  return finish(drawing, text);
}

Document draw_access(Choices& random) {
  Drawing drawing(random, "access");
  std::string text = random.one_in(3) ? "# cidr table\n" : "";
  const uint32_t n = 3 + random.below(8);
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t kind = i < 2 ? 0 : random.below(6);
    const bool is_pass = kind == 5;
    constexpr std::array<const char*, 4> kPass = {"OK", "PERMIT", "DUNNO", "allow"};
    constexpr std::array<const char*, 4> kBlock = {"REJECT", "REJECT spam source", "deny", "550 5.7.1 go away"};
    if (is_pass) {
      count(drawing, "let through");
    } else {
      drawing.begin("rejected");
    }
    const Ipv4 host = drawing.host4();
    const bool is_network = random.one_in(2);
    if (!is_pass) drawing.accept({is_network ? prefix_of(host, 24) : drawing.range_of(host)});
    const std::string address = is_network ? to_string(static_cast<Ipv4>(host & ~0xffu)) + "/24" : to_string(host);
    text += fmt::format("{}{}{}\n", address, random.one_in(2) ? "\t" : " ",
                        is_pass ? kPass[random.below(kPass.size())] : kBlock[i == 0 ? 0 : random.below(kBlock.size())]);
  }
  drawing.doubt();
  return finish(drawing, text);
}

Document draw_rbldnsd(Choices& random) {
  Drawing drawing(random, "rbldnsd");
  std::string text = ":127.0.0.2:Listed\n";
  drawing.begin("text around");
  drawing.may_count(2);
  const uint32_t n = 2 + random.below(8);
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t kind = i == 0 ? 0 : random.below(6);
    if (kind == 5) {
      count(drawing, "exception");
      text += "!" + to_string(drawing.host4()) + "\n";
    } else if (kind == 4) {
      drawing.begin("short range");
      const Ipv4 first = drawing.network4() | 20;
      drawing.accept({{first, first + 9, 0, true}});
      text += to_string(first) + "-29\n";
    } else {
      drawing.begin("entry");
      const Ipv4 host = drawing.host4();
      drawing.accept({drawing.range_of(host)});
      text += to_string(host) + (random.one_in(3) ? " :127.0.0.3:spam" : "") + "\n";
    }
  }
  return finish(drawing, text);
}

Document draw_iprep(Choices& random) {
  Drawing drawing(random, "iprep");
  std::string text;
  const uint32_t n = 2 + random.below(8);
  for (uint32_t i = 0; i < n; i++) {
    const bool is_zero = i > 0 && random.one_in(6);
    if (is_zero) {
      count(drawing, "score of 0");
    } else {
      drawing.begin("address");
    }
    const Ipv4 host = drawing.host4();
    if (!is_zero) drawing.accept({drawing.range_of(host)});
    text += fmt::format("{},{},{}\n", to_string(host), 1 + random.below(9), is_zero ? 0 : 1 + random.below(127));
  }
  drawing.doubt();
  finish(drawing, text);
  drawing.document.format = "iprep";  // `auto` takes it for a table
  return drawing.document;
}

namespace {

// Networks in arrays of texts or of objects: items of `member` around each.
std::string networks(Drawing& drawing, bool is_v6, std::string_view member) {
  std::string all;
  for (uint32_t i = 0, n = 1 + drawing.random.below(5); i < n; i++) {
    all += i == 0 ? "" : ", ";
    drawing.begin("network");
    const Range prefix = is_v6 ? prefix_of(drawing.host6(), 48) : prefix_of(drawing.host4(), 24);
    drawing.accept({prefix});
    const std::string text =
        is_v6 ? to_string(prefix.first) + "/48" : to_string(static_cast<Ipv4>(prefix.first)) + "/24";
    all += member.empty() ? quoted(text) : fmt::format("{{\"{}\": \"{}\", \"region\": \"x\"}}", member, text);
  }
  return all;
}

Document draw_cloud(Choices& random, const char* format, const char* pattern, const char* v4, const char* v6) {
  Drawing drawing(random, format);
  drawing.doubt();  // a named cloud, or plain JSON
  const std::string first = networks(drawing, false, v4), second = networks(drawing, true, v6);
  return finish(drawing, fmt::format(fmt::runtime(pattern), first, second), true);
}

}  // namespace

Document draw_aws(Choices& random) {
  return draw_cloud(random, "aws",
                    "{{\"syncToken\":\"1\",\"createDate\":\"x\",\"prefixes\":[{}],\"ipv6_prefixes\":[{}]}}",
                    "ip_prefix", "ipv6_prefix");
}
Document draw_gcp(Choices& random) {
  return draw_cloud(random, "gcp", "{{\"syncToken\":\"1\",\"creationTime\":\"x\",\"prefixes\":[{}, {}]}}", "ipv4Prefix",
                    "ipv6Prefix");
}
Document draw_azure(Choices& random) {
  return draw_cloud(random, "azure",
                    "{{\"changeNumber\":1,\"cloud\":\"Public\",\"values\":[{{\"name\":\"a\",\"properties\":{{"
                    "\"addressPrefixes\":[{}, {}]}}}}]}}",
                    "", "");
}
Document draw_cloudflare(Choices& random) {
  return draw_cloud(
      random, "cloudflare",
      "{{\"result\":{{\"ipv4_cidrs\":[{}],\"ipv6_cidrs\":[{}],\"etag\":\"x\"}},\"success\":true,\"errors\":[],"
      "\"messages\":[]}}",
      "", "");
}
Document draw_fastly(Choices& random) {
  return draw_cloud(random, "fastly", "{{\"addresses\":[{}],\"ipv6_addresses\":[{}]}}", "", "");
}
Document draw_github(Choices& random) {
  return draw_cloud(random, "github",
                    "{{\"verifiable_password_authentication\":false,\"hooks\":[{}],\"web\":[{}],\"git\":[]}}", "", "");
}
Document draw_oracle(Choices& random) {
  return draw_cloud(random, "oracle",
                    "{{\"last_updated_timestamp\":\"x\",\"regions\":[{{\"region\":\"a\",\"cidrs\":[{}, {}]}}]}}",
                    "cidr", "cidr");
}

Document draw_stix(Choices& random) {
  Drawing drawing(random, "stix");
  std::string objects;
  const uint32_t n = 2 + random.below(6);
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t kind = i == 0 ? 0 : random.below(7);
    const char* more = "";
    std::string pattern;
    if (kind < 4) {
      drawing.begin("indicator");
      const Ipv4 host = drawing.host4();
      drawing.accept({drawing.range_of(host)});
      pattern = fmt::format("[ipv4-addr:value = '{}']", to_string(host));
    } else if (kind == 4) {
      count(drawing, "revoked");
      pattern = fmt::format("[ipv4-addr:value = '{}']", to_string(drawing.host4()));
      more = ",\"revoked\":true";
    } else if (kind == 5) {
      count(drawing, "pattern with AND");
      pattern = fmt::format("[ipv4-addr:value = '{}' AND file:name = 'x']", to_string(drawing.host4()));
    } else {
      count(drawing, "negated pattern");
      pattern = fmt::format("[ipv4-addr:value != '{}']", to_string(drawing.host4()));
    }
    objects += fmt::format(
        "{}{{\"type\":\"indicator\",\"id\":\"indicator--{}\",\"pattern_type\":\"stix\",\"pattern\":\"{}\"{}}}",
        i == 0 ? "" : ",", i, pattern, more);
  }
  return finish(drawing, "{\"type\":\"bundle\",\"id\":\"bundle--1\",\"objects\":[" + objects + "]}", true);
}

Document draw_misp_event(Choices& random) {
  Drawing drawing(random, "misp-event");
  std::string attributes;
  const uint32_t n = 2 + random.below(6);
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t kind = i == 0 ? 0 : random.below(7);
    std::string type = random.one_in(2) ? "ip-dst" : "ip-src", value;
    bool to_ids = true;
    if (kind < 4) {
      drawing.begin("attribute");
      const Ipv4 host = drawing.host4();
      drawing.accept({drawing.range_of(host)});
      value = to_string(host);
    } else if (kind == 4) {
      drawing.begin("attribute with a port");
      const Ipv4 host = drawing.host4();
      drawing.accept({{host, host, 443, true}});
      type = "ip-dst|port";
      value = to_string(host) + "|443";
    } else if (kind == 5) {
      count(drawing, "not for detection");
      to_ids = false;
      value = to_string(drawing.host4());
    } else {
      count(drawing, "attribute of another type");
      type = "domain|ip";
      value = "evil.example|" + to_string(drawing.host4());
    }
    attributes += fmt::format("{}{{\"type\":\"{}\",\"category\":\"Network activity\",\"to_ids\":{},\"value\":\"{}\"}}",
                              i == 0 ? "" : ",", type, to_ids, value);
  }
  return finish(drawing, "{\"Event\":{\"info\":\"x\",\"Attribute\":[" + attributes + "]}}", true);
}

}  // namespace weir::drawn
