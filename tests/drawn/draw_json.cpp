#include <fmt/format.h>

#include <algorithm>

#include "tests/drawn/drawing.h"

namespace weir::drawn {
namespace {

std::string quoted(const std::string& text) {
  std::string all = "\"";
  for (const char c : text) all += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return all + "\"";
}

// Spelled as JSON allows: now and then a letter by its number.
std::string json_text(Choices& random, const std::string& text) {
  if (!random.one_in(20) || text.empty()) return quoted(text);
  const size_t at = random.below(static_cast<uint32_t>(text.size()));
  return "\"" + text.substr(0, at) + fmt::format("\\u{:04x}", static_cast<unsigned char>(text[at])) +
         text.substr(at + 1) + "\"";
}

// One value of an array of texts. is_sure: the array is surely one of addresses.
std::string draw_value(Drawing& drawing, bool is_sure) {
  Choices& random = drawing.random;
  switch (random.below(24)) {
    case 17: {
      drawing.begin("bad text in an array");
      is_sure ? drawing.must_count() : drawing.may_count();
      return quoted(drawing.bad_entry());
    }
    case 18: {
      drawing.begin("number in an array");
      drawing.doubt();
      const Ipv4 host = drawing.host4();
      drawing.accept({drawing.range_of(host)});
      if (!is_sure) drawing.accept({});  // a number in a list of unknown meaning may be anything
      drawing.may_count();
      return std::to_string(host);
    }
    case 19: {
      drawing.begin("array in an array");
      drawing.doubt();
      const Written entry = drawing.host();
      drawing.accept(entry.ranges);
      return "[" + quoted(entry.text) + "]";
    }
    case 20: {
      drawing.begin("object in an array of texts");
      drawing.doubt();
      const Written entry = drawing.host();
      drawing.accept(entry.ranges);
      return "{\"ip\": " + quoted(entry.text) + "}";
    }
    case 21: {
      drawing.begin("null in an array");
      drawing.may_count();
      return "null";
    }
    case 22: {
      drawing.begin("exception in an array");
      drawing.doubt();
      drawing.must_count();
      return quoted("!" + drawing.host().text);
    }
    case 23: {
      drawing.begin("two addresses in a text");
      drawing.doubt();
      const Written a = drawing.host(), b = drawing.host();
      drawing.accept({a.ranges[0], b.ranges[0]});
      return quoted(a.text + (random.one_in(2) ? " " : ", ") + b.text);
    }
    default: {
      drawing.begin("text in an array");
      const Written entry = drawing.entry();
      drawing.accept(entry.ranges);
      return json_text(random, random.one_in(20) ? " " + entry.text + " " : entry.text);
    }
  }
}

struct Keys {
  std::string address, second;
  uint32_t shape = 0;  // of objects
};

// What objects of one document have besides.
Keys draw_keys(Choices& random) {
  constexpr const char* kAddress[] = {"ip",      "address", "ipAddress", "src_ip", "ip_address",
                                      "network", "IP",      "source_ip", "addr",   "ip_prefix"};
  constexpr const char* kSecond[] = {"reporter", "exit_ip", "gateway", "dst_ip", "sensor", "victim", "client_ip"};
  return {random.of(kAddress), random.of(kSecond), random.below(12)};
}

std::string filler(Choices& random) {
  constexpr const char* kFiller[] = {"\"country\": \"NO\"",
                                     "\"score\": 87",
                                     "\"seen\": \"2026-11-27T08:00:00Z\"",
                                     "\"tags\": [\"a\", \"b\"]",
                                     "\"asn\": {\"number\": 64500, \"name\": \"X\"}",
                                     "\"comment\": \"see \\\"203.0.113.9\\\"\"",
                                     "\"note\": null",
                                     "\"isWhitelisted\": false",
                                     "\"isWhitelisted\": null",
                                     "\"action\": \"block\""};
  return random.of(kFiller);
}

// One object, and what it lists.
std::string draw_object(Drawing& drawing, const Keys& keys) {
  Choices& random = drawing.random;
  std::vector<std::string> members;
  for (uint32_t i = random.below(3); i > 0; i--) members.push_back(filler(random));
  const auto put = [&](const std::string& name, const std::string& value) {
    const auto at = members.begin() + random.below(static_cast<uint32_t>(members.size()) + 1);
    members.insert(at, quoted(name) + (random.one_in(3) ? " : " : ": ") + value);
  };
  const auto put_second = [&] {
    drawing.begin("address in another member");
    put(keys.second, quoted(to_string(drawing.host4())));
  };
  const uint32_t shape = random.one_in(12) ? random.below(12) : keys.shape;
  if (shape == 4) {
    put_second();
    drawing.doubt();
  }
  if (shape == 5) {
    drawing.begin("address in a nested member");
    drawing.may_count();
    const std::string inner = to_string(drawing.host4());
    put(random.one_in(2) ? "geo" : "peer", "{\"ip\": " + quoted(inner) + "}");
    drawing.doubt();
  }
  if (shape != 4 && random.one_in(12)) {
    drawing.begin("object without an address");
    drawing.must_count();
    drawing.may_count(2);
    put("name", "\"x\"");
  } else if (random.one_in(14)) {
    drawing.begin("bad address in an object");
    drawing.must_count();
    put(keys.address, quoted(drawing.bad_entry()));
  } else if (shape == 6 && random.one_in(3)) {
    constexpr const char* kOff[] = {"\"isWhitelisted\": true", "\"active\": false",        "\"action\": \"allow\"",
                                    "\"enabled\": 0",          "\"verdict\": \"benign\"",  "\"status\": \"expired\"",
                                    "\"list\": \"allow\"",     "\"false_positive\": true", "\"access\": \"Allow\"",
                                    "\"type\": \"whitelist\"", "\"mode\": \"whitelist\"",  "\"revoked\": true"};
    drawing.begin("object with a verdict");
    drawing.must_count();
    drawing.doubt();
    put(keys.address, quoted(drawing.host().text));
    members.insert(members.begin() + random.below(static_cast<uint32_t>(members.size()) + 1), random.of(kOff));
  } else if (shape == 7) {
    drawing.begin("length in another member");
    const Range prefix = prefix_of(drawing.network4(), 24);
    drawing.accept({prefix});
    put("network", quoted(to_string(static_cast<Ipv4>(prefix.first))));
    const uint32_t how = random.below(6);
    if (how >= 4) drawing.doubt();
    put(how < 2   ? "prefix_length"
        : how < 4 ? "cidr"
        : how < 5 ? "mask"
                  : "size",
        how == 0   ? "\"24\""
        : how < 4  ? "24"
        : how == 4 ? "\"255.255.255.0\""
                   : "256");
  } else if (shape == 8) {
    drawing.begin("ends in two members");
    const Ipv4 first = drawing.network4();
    drawing.accept({{first, first + 77, 0, true}});
    constexpr const char* kEnds[][2] = {{"start_ip", "end_ip"},  {"first", "last"}, {"start", "end"},
                                        {"from", "to"},          {"low", "high"},   {"ip", "ip_end"},
                                        {"network", "broadcast"}};
    const uint32_t which = random.below(7);
    if (which >= 3) drawing.doubt();
    put(kEnds[which][0], quoted(to_string(first)));
    put(kEnds[which][1], quoted(to_string(first + 77)));
  } else if (shape == 9) {
    const bool is_server = random.below(2) == 0;
    drawing.begin(is_server ? "port of a server" : "port of a victim");
    const Ipv4 host = drawing.host4();
    drawing.accept({{host, host, is_server ? uint16_t{443} : uint16_t{0}, true}});
    drawing.doubt();
    put(is_server ? "dst_ip" : "src_ip", quoted(to_string(host)));
    put("dst_port", random.one_in(2) ? "\"443\"" : "443");
  } else if (shape == 10 && random.one_in(3)) {
    drawing.begin("array of addresses in a member");
    drawing.doubt();
    const Written a = drawing.host(), b = drawing.host();
    drawing.accept({a.ranges[0], b.ranges[0]});
    put(keys.address, "[" + quoted(a.text) + ", " + quoted(b.text) + "]");
  } else if (shape == 11 && random.one_in(3)) {
    drawing.begin("number as the address");
    drawing.doubt();
    const Ipv4 host = drawing.host4();
    drawing.accept({drawing.range_of(host)});
    put(keys.address, std::to_string(host));
  } else {
    drawing.begin("object");
    const Written entry = drawing.entry();
    drawing.accept(entry.ranges);
    put(keys.address, json_text(random, entry.text));
  }
  std::string all = "{";
  for (size_t i = 0; i < members.size(); i++) all += (i == 0 ? "" : ", ") + members[i];
  return all + "}";
}

std::string draw_array(Drawing& drawing, uint32_t most, bool is_of_objects, bool is_sure = true) {
  Choices& random = drawing.random;
  const Keys keys = draw_keys(random);
  const uint32_t n = 2 + random.below(most);
  const char* between = random.one_in(2) ? ",\n  " : ", ";
  std::string all = "[";
  for (uint32_t i = 0; i < n; i++) {
    all += (i == 0 ? "" : between) + (is_of_objects ? draw_object(drawing, keys) : draw_value(drawing, is_sure));
  }
  return all + "]";
}

// A list of friends: nothing of it is to be read. What it holds is counted as one at least, or all is refused.
std::string draw_pass_list(Drawing& drawing, bool is_of_objects) {
  Choices& random = drawing.random;
  std::string all = "[";
  const uint32_t n = 1 + random.below(3);
  for (uint32_t i = 0; i < n; i++) {
    drawing.begin("list of what is allowed");
    if (i == 0) drawing.must_count();
    drawing.may_count();
    const std::string text = quoted(drawing.host().text);
    all += (i == 0 ? "" : ", ") + (is_of_objects ? "{\"ip\": " + text + "}" : text);
  }
  return all + "]";
}

Document draw_document(Choices& random) {
  Drawing drawing(random, "json");
  constexpr const char* kLists[] = {"data", "list", "ips", "addresses", "prefixes", "entries", "items", "blocklist"};
  const bool of_objects = random.below(2) == 0;
  const uint32_t most = random.one_in(30) ? 300 : 8;
  std::string text;
  switch (random.below(12)) {
    case 0:
    case 1:
    case 2:
      text = draw_array(drawing, most, of_objects);
      break;
    case 3:
    case 4:
      text = fmt::format("{{\"generated\": \"2026-11-27\", \"{}\": {}, \"total\": 3}}", random.of(kLists),
                         draw_array(drawing, most, of_objects));
      break;
    case 5: {
      drawing.begin("address in the head");
      drawing.may_count();
      const std::string client = to_string(drawing.host4());
      drawing.doubt();
      text = fmt::format("{{\"meta\": {{\"client_ip\": \"{}\"}}, \"success\": true, \"error\": null, \"data\": {}}}",
                         client, draw_array(drawing, most, of_objects));
      break;
    }
    case 6: {
      const std::string pass = draw_pass_list(drawing, of_objects);
      const std::string block = draw_array(drawing, most, of_objects);
      drawing.doubt();
      const std::string a = fmt::format("\"{}\": {}", one_of(random, kPassNames), pass);
      const std::string b = fmt::format("\"{}\": {}", one_of(random, kBlockNames), block);
      text = random.one_in(2) ? "{" + a + ", " + b + "}" : "{" + b + ", " + a + "}";
      break;
    }
    case 7: {
      drawing.doubt();
      text = fmt::format("{{\"name\": \"x\", \"{}\": {}}}", one_of(random, kPassNames),
                         draw_pass_list(drawing, of_objects));
      drawing.document.must_refuse = true;
      break;
    }
    case 8: {
      // Lists of the two families beside each other.
      const std::string a = draw_array(drawing, most, of_objects, false),
                        b = draw_array(drawing, most, of_objects, false);
      drawing.doubt();
      text = fmt::format("{{\"{}\": {}, \"{}\": {}}}", one_of(random, kPlainNames), a, "second", b);
      break;
    }
    case 9: {
      drawing.begin("error answer");
      drawing.document.must_refuse = true;
      drawing.doubt();
      constexpr const char* kErrors[] = {"\"error\": \"rate limit exceeded\"",
                                         "\"success\": false, \"reason\": \"quota\"",
                                         "\"message\": \"Not authenticated\", \"code\": 401",
                                         "\"status\": \"error\"",
                                         "\"detail\": \"Not found\"",
                                         "\"errors\": [{\"code\": 7}]"};
      constexpr const char* kKeys[] = {"ip", "client_ip", "your_ip", "address"};
      text = fmt::format("{{{}, \"{}\": \"{}\"}}", random.of(kErrors), random.of(kKeys), to_string(drawing.host4()));
      break;
    }
    case 10: {
      drawing.doubt();
      const uint32_t n = 1 + random.below(4);
      text = random.one_in(2) ? "{\"blocklist\": {" : "{";
      const bool is_deep = text.size() > 1;
      for (uint32_t i = 0; i < n; i++) {
        drawing.begin("address as a key");
        const Written entry = drawing.entry();
        drawing.accept(entry.ranges);
        text += (i == 0 ? "" : ", ") + quoted(entry.text) + ": " + (random.one_in(2) ? "{\"reason\": \"x\"}" : "1");
      }
      text += is_deep ? "}}" : "}";
      break;
    }
    default: {
      // Objects of lists: a list below each of some objects.
      drawing.doubt();
      const uint32_t n = 1 + random.below(3);
      text = "{\"values\": [";
      for (uint32_t i = 0; i < n; i++) {
        text += fmt::format("{}{{\"name\": \"s{}\", \"properties\": {{\"addressPrefixes\": {}}}}}", i == 0 ? "" : ", ",
                            i, draw_array(drawing, 3, false, false));
      }
      text += "]}";
      break;
    }
  }
  if (random.one_in(12) && text.size() > 10) {
    text.resize(text.size() / 2 + random.below(static_cast<uint32_t>(text.size() / 2 - 1)));
    drawing.document.must_refuse = true;
    drawing.doubt();
  } else if (random.below(4) > 0) {
    text += "\n";
  }
  drawing.document.text = text;
  if (random.one_in(4)) drawing.document.format = "json";
  return drawing.document;
}

}  // namespace

Document draw_json(Choices& random) {
  return draw_document(random);
}

Document draw_json_lines(Choices& random) {
  Drawing drawing(random, "jsonl");
  const Keys keys = draw_keys(random);
  const uint32_t n = 3 + random.below(random.one_in(30) ? 300 : 10);
  std::string text;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t kind = random.below(24);
    if (kind < 21 || i == 0) {
      text += draw_object(drawing, keys);
    } else if (kind == 21) {
      drawing.begin("broken line");
      drawing.must_count();
      drawing.may_count(2);
      const std::string line = "{\"" + keys.address + "\": \"" + drawing.host().text + "\"";
      text += line;
    } else if (kind == 22) {
      drawing.begin("array in a line");
      drawing.doubt();
      const Written entry = drawing.host();
      drawing.accept(entry.ranges);
      text += "[" + quoted(entry.text) + "]";
    } else {
      drawing.begin("object in an object of a line");
      drawing.doubt();
      const Written entry = drawing.host();
      drawing.accept(entry.ranges);
      text += "{\"data\": {\"ip\": " + quoted(entry.text) + "}}";
    }
    text += "\n";
  }
  drawing.document.text = with_line_ends(random, text);
  if (random.one_in(4)) drawing.document.format = "jsonl";
  return drawing.document;
}

Document draw_spamhaus(Choices& random) {
  Drawing drawing(random, "spamhaus");
  std::string text;
  uint32_t n_records = 0;
  const uint32_t n = 2 + random.below(10);
  for (uint32_t i = 0; i < n; i++, n_records++) {
    const uint32_t kind = i == 0 ? 0 : random.below(12);
    if (kind == 10) {
      drawing.begin("autonomous system");
      drawing.must_count();
      text += "{\"asn\": 64500, \"rir\": \"arin\"}\n";
    } else if (kind == 11) {
      drawing.begin("bad entry");
      drawing.must_count();
      text += "{\"cidr\": " + quoted(drawing.bad_entry()) + ", \"rir\": \"x\"}\n";
    } else {
      drawing.begin("record");
      const Written entry = drawing.entry();
      drawing.accept(entry.ranges);
      text += "{\"cidr\":" + quoted(entry.text) + ",\"sblid\":\"SBL1\",\"rir\":\"apnic\"}\n";
    }
  }
  const uint32_t end = random.below(10);
  if (end < 8) {
    text += fmt::format("{{\"type\":\"metadata\",\"timestamp\":1,\"records\":{},\"terms\":\"x\"}}\n", n_records);
  } else {
    drawing.doubt();
    drawing.document.must_refuse = true;
    if (end == 8) text += fmt::format("{{\"type\":\"metadata\",\"records\":{}}}\n", n_records + 1);
  }
  drawing.document.text = with_line_ends(random, text);
  if (random.one_in(4)) drawing.document.format = "spamhaus";
  return drawing.document;
}

Document draw_crowdsec(Choices& random) {
  Drawing drawing(random, "crowdsec");
  const uint32_t shape = random.below(3);
  const auto decisions = [&](bool is_deleted) {
    std::string all = "[";
    const uint32_t n = 1 + random.below(8);
    for (uint32_t i = 0; i < n; i++) {
      const uint32_t kind = i == 0 && !is_deleted ? 0 : random.below(12);
      constexpr const char* kKinds[] = {"captcha", "over", "simulated", "country", "bad entry"};
      const bool is_good = kind < 7 && !is_deleted;
      drawing.begin(is_deleted ? "deleted" : is_good ? "ban" : kKinds[std::min(kind - 7, 4u)]);
      const Written entry = drawing.entry();
      std::string value = entry.text;
      if (!is_good && !is_deleted && kind == 10) value = "DE";
      if (!is_good && !is_deleted && kind == 11) value = drawing.bad_entry();
      is_good ? drawing.accept(entry.ranges) : drawing.must_count();
      const bool is_range = entry.text.find('/') != std::string::npos;
      all += fmt::format(
          "{}{{\"id\":{},\"origin\":\"lists\",\"scenario\":\"a\",\"scope\":\"{}\",\"type\":\"{}\",\"value\":\"{}\","
          "\"duration\":\"{}\"{}}}",
          i == 0 ? "" : ",\n ", i + 1,
          kind == 10 && !is_deleted ? "Country"
          : is_range                ? "Range"
                                    : "Ip",
          kind == 7 && !is_deleted ? "captcha" : "ban", value, kind == 8 && !is_deleted ? "-3.2s" : "3h59m59.5s",
          kind == 9 && !is_deleted ? ",\"simulated\":true" : "");
    }
    return all + "]";
  };
  std::string text;
  if (shape == 0) {
    text = decisions(false);
  } else if (shape == 1) {
    const std::string a = decisions(false), b = decisions(true);
    text = fmt::format("{{\"new\":{},\"deleted\":{}}}", a, b);
  } else {
    const std::string a = decisions(false);
    drawing.begin("source of an alert");
    const std::string source = to_string(drawing.host4());
    text = fmt::format("[{{\"id\":1,\"decisions\":{},\"source\":{{\"ip\":\"{}\",\"scope\":\"Ip\",\"value\":\"{}\"}}}}]",
                       a, source, source);
  }
  drawing.document.text = text + "\n";
  if (random.one_in(4)) drawing.document.format = "crowdsec";
  return drawing.document;
}

Document draw_misp(Choices& random) {
  Drawing drawing(random, "misp");
  const bool is_in_list = random.one_in(2);
  drawing.begin("address in the description");
  const std::string inside = to_string(drawing.host4());
  const std::string list = draw_array(drawing, 10, false);
  const std::string about = fmt::format("\"description\": \"not {}\", \"name\": \"x\", \"version\": 1", inside);
  drawing.document.text =
      is_in_list ? fmt::format("{{\"list\": {}, {}, \"matching_attributes\": [\"ip-src\"]}}\n", list, about)
                 : fmt::format("{{{}, \"list\": {}, \"matching_attributes\": [\"ip-src\"]}}\n", about, list);
  // It tells what is known to be good: who takes it for a drop list is to be asked.
  drawing.document.action = WEIR_PASS;
  drawing.doubt();
  if (random.one_in(4)) drawing.document.format = "misp";
  return drawing.document;
}

}  // namespace weir::drawn
