// Entries in parts: columns of a row, members of an object. They say what the text that is made of them says.
#include <fmt/format.h>

#include <random>
#include <string>

#include "control/policy/feeds/take.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::control;
using namespace weir::control::feeds;

namespace {

constexpr unsigned kSeed = 20261128;
constexpr int kDraws = 100'000;

// Everything that may become of parts.
struct Taken {
  ListDraft list;
  std::string why;

  template <class Take>
  explicit Taken(Take take) {
    const char* reason = take(list);
    why = reason == nullptr ? "" : reason;
  }
  bool operator==(const Taken& other) const {
    return why == other.why && list.v4 == other.list.v4 && list.v6 == other.list.v6 && list.feed == other.list.feed;
  }
};

// Mostly sound parts, some with a mistake, some with what belongs into another part.
class Drawn {
 public:
  std::string address() { return mistaken(below(3) == 0 ? v6() : v4()); }
  std::string padded() { return mistaken(below(4) == 0 ? v4() : padded_v4()); }
  std::string port() { return mistaken(std::to_string(below(4) == 0 ? below(70'000) : below(1024))); }
  std::string length() {
    if (below(4) != 0) return mistaken(std::to_string(below(3) == 0 ? below(140) : below(33)));
    return mistaken(below(3) == 0 ? v4() : to_string(prefix_mask<Ipv4>(below(33))));
  }
  std::string none_or(std::string part) { return below(3) == 0 ? std::string() : part; }

 private:
  uint32_t below(uint32_t end) { return static_cast<uint32_t>(random_() % end); }
  std::string v4() { return to_string(below(2) == 0 ? Ipv4{below(4)} << 8 : static_cast<Ipv4>(random_())); }
  std::string padded_v4() {
    return fmt::format("{:0{}}.{:03}.{:0{}}.{:03}", below(260), below(6), below(256), below(20), below(5), below(256));
  }
  std::string v6() {
    if (below(10) == 0) return "::ffff:" + v4();
    Ipv6 address = Ipv6{0x20010db8} << 96 | below(3);
    if (below(2) == 0) address |= Ipv6{random_()} << 64 | random_();
    return to_string(address);
  }
  std::string mistaken(std::string part) {
    if (below(4) != 0) return part;
    constexpr std::string_view kPieces[] = {"-", "/", ":", "[", "]", "%", ".", " ", "0", "00", "a", "/24", ":80", "]:"};
    const std::string piece(kPieces[below(std::size(kPieces))]);
    switch (below(4)) {
      case 0:
        return piece + part;
      case 1:
        return part + piece;
      case 2:
        return part.insert(below(static_cast<uint32_t>(part.size()) + 1), piece);
      default:
        return below(2) == 0 ? std::string() : piece;
    }
  }

  std::mt19937_64 random_{kSeed};
};

bool has_any(const std::string& text, const char* characters) {
  return text.find_first_of(characters) != std::string::npos;
}

// --- the texts that parts stand for ---

std::string port_text(const std::string& address, const std::string& port) {
  return has_any(address, ":") ? "[" + address + "]:" + port : address + ":" + port;
}

// Up to two zeros before the digits of an octet.
std::string without_padding(const std::string& text) {
  std::string all;
  for (size_t i = 0; i < text.size(); i++) {
    const bool begins = i == 0 || text[i - 1] == '.';
    for (int skipped = 0; begins && skipped < 2 && i + 1 < text.size() && text[i] == '0' && isdigit(text[i + 1]) != 0;
         skipped++) {
      i++;
    }
    all += text[i];
  }
  return all;
}

Options options_for(int draw) {
  Options options;
  options.directions = WEIR_AS_DESTINATION;
  options.allow_any = draw % 2 == 0;
  return options;
}

}  // namespace

TEST_CASE("parts say what their text says") {
  Drawn parts;
  int good[4] = {}, bad[4] = {}, host_bits = 0;
  const auto compare = [&](int kind, const Taken& now, const Taken& before) {
    CHECK(now.why == before.why);
    CHECK(now == before);
    (now.why.empty() ? good : bad)[kind]++;
    host_bits += static_cast<int>(now.list.feed.host_bits);
  };
  for (int draw = 0; draw < kDraws / 4; draw++) {
    const Options options = options_for(draw);
    const At at = {static_cast<uint32_t>(draw), draw % 3 == 0 ? 100 : kNever};
    const std::string address = parts.address(), other = parts.address(), port = parts.port(), length = parts.length();
    const std::string first = parts.padded(), last = parts.padded();
    INFO("seed " << kSeed << ", draw " << draw << ": `" << address << "` `" << other << "` `" << port << "` `" << length
                 << "` `" << first << "` `" << last << "`");
    const auto taken = [&](const std::string& text) {
      return Taken([&](ListDraft& list) { return take(text, at, options, list); });
    };
    if (is_number(port) && !has_any(address, "/-")) {
      compare(0, Taken([&](ListDraft& list) { return take_port(address, port, at, options, list); }),
              taken(port_text(address, port)));
    }
    if (!has_any(address, "/-")) {
      compare(1, Taken([&](ListDraft& list) { return take_prefix(address, length, at, options, list); }),
              taken(address + "/" + length));
    }
    compare(2, Taken([&](ListDraft& list) { return take_range(first, last, at, options, list); }),
            taken(without_padding(first) + "-" + without_padding(last)));
    if (other.empty()) continue;
    const PartTexts range = {.address = address, .last = other, .port = port, .length = length};
    compare(3, Taken([&](ListDraft& list) { return take_parts(range, at, options, list); }),
            taken(address + "-" + other));
  }
  for (int kind = 0; kind < 4; kind++) {
    INFO(kind << ": " << good[kind] << " good, " << bad[kind] << " bad");
    CHECK(good[kind] > kDraws / 40);
    CHECK(bad[kind] > kDraws / 40);
  }
  CHECK(host_bits > kDraws / 40);
}

TEST_CASE("which parts count") {
  constexpr struct {
    PartTexts parts;
    const char* text;  // that they stand for, or why they are none
  } kRows[] = {
      {{"192.0.2.7", "", "", ""}, "192.0.2.7"},
      {{"192.0.2.7", "", "443", ""}, "192.0.2.7:443"},
      {{"192.0.2.7", "", "443", "32"}, "192.0.2.7:443"},
      {{"192.0.2.7", "", "443", "24"}, "192.0.2.7/24"},
      {{"192.0.2.7", "", "443", "128"}, "192.0.2.7/128"},
      {{"192.0.2.7/32", "", "443", "32"}, "!a prefix length beside what has one, or is a range"},
      {{"192.0.2.7/32", "", "443", ""}, "!a port needs a single address"},
      {{"192.0.2.7", "", "https", ""}, "!the port is not a number from 1 to 65535"},
      {{"2001:db8::7", "", "443", "128"}, "[2001:db8::7]:443"},
      {{"2001:db8::7", "", "443", "/32"}, "2001:db8::7/32"},
      {{"192.0.2.7", "192.0.2.9", "443", "24"}, "192.0.2.7-192.0.2.9"},
      {{"192.0.2.7", "", "", "255.255.255.0"}, "192.0.2.7/255.255.255.0"},
  };
  for (const auto& row : kRows) {
    INFO(row.text);
    const Taken now([&](ListDraft& list) { return take_parts(row.parts, {1}, {}, list); });
    if (row.text[0] == '!') {
      CHECK(now.why == row.text + 1);
    } else {
      CHECK(now == Taken([&](ListDraft& list) { return take(row.text, {1}, {}, list); }));
    }
  }
}
