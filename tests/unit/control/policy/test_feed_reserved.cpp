// Feeds that hold addresses which are reserved, or the policy's own.
#include <random>

#include "control/lists/book/claims.h"
#include "control/policy/read/feed_parts.h"
#include "tests/unit/control/policy/fed_list.h"

namespace weir::control {

TEST_CASE("cut leaves reserved and own addresses out, and nothing else") {
  const Folder folder;
  folder.write("weir.yaml", policy_with(", guard: {reserved: cut}", "policy: {own: [198.51.100.8/30]}\n"));
  folder.write("a.txt", "9.0.0.0-12.0.0.0\n127.0.0.1\n198.51.100.0/28\n198.51.100.9:443\n192.0.2.1\nfe80::-fec0::5\n");
  const Read taken = read(folder);
  INFO(taken.text());
  REQUIRE(taken.policy);
  CHECK(taken.text().find("; that part is left out") != std::string::npos);
  const auto holds = [&](const char* text) {
    const auto v4 = parse_ipv4(text);
    const auto of = [&](const auto& address) {
      for (const Origin& origin : claims_of(taken.policy->lists, address, 443).origins) {
        if (origin.list == "a") return true;
      }
      return false;
    };
    return v4 ? of(*v4) : of(*parse_ipv6(text));
  };
  for (const char* in : {"9.0.0.0", "9.255.255.255", "11.0.0.0", "12.0.0.0", "198.51.100.7", "198.51.100.12",
                         "192.0.2.1", "fec0::", "fec0::5"}) {
    INFO(in);
    CHECK(holds(in));
  }
  for (const char* out : {"10.0.0.0", "10.255.255.255", "127.0.0.1", "198.51.100.8", "198.51.100.9", "198.51.100.11",
                          "fe80::1", "febf::1"}) {
    INFO(out);
    CHECK_FALSE(holds(out));
  }
}

TEST_CASE("what is left after a cut is compared with what was left") {
  const auto some = [](unsigned in_public, unsigned in_private) {
    std::string text;
    for (unsigned i = 0; i < in_public; i++) text += "198.18.0." + std::to_string(i) + "\n";
    for (unsigned i = 0; i < in_private; i++) {
      text += "10.0." + std::to_string(i / 256) + "." + std::to_string(i % 256) + "\n";
    }
    return text;
  };
  struct Step {
    std::string before, after;
    const char* reason;  // empty: it is taken
  };
  const Step steps[] = {
      {some(100, 0), some(11, 40), "shrank from 100 entries to 11, by 89 %"},
      {some(50, 950), some(51, 950), ""},
      {some(50, 950), some(51, 0), ""},
      {some(100, 0), some(0, 100), "holds no entries"},
  };
  const Folder folder;
  folder.write("weir.yaml", policy_with(", guard: {reserved: cut}"));
  for (const Step& step : steps) {
    INFO(step.reason);
    folder.write("a.txt", step.before);
    const Read first = read(folder);
    REQUIRE(first.policy);
    folder.write("a.txt", step.after);
    const Read second = read(folder, &first.policy->lists);
    INFO(second.text());
    REQUIRE(second.policy);
    CHECK(second.reason().empty() == std::string(step.reason).empty());
    CHECK(second.reason().find(step.reason) != std::string::npos);
  }

  // What is accepted is cut, too: else all later content would be too small beside it.
  folder.write("a.txt", some(100, 0));
  const Read whole = read(folder);
  folder.write("a.txt", some(11, 40));
  const Read accepted = read(folder, &whole.policy->lists, {"a"});
  CHECK(accepted.reason().empty());
  CHECK(accepted.list().entries() == 11);
  CHECK(accepted.text().find("; that part is left out") != std::string::npos);
  folder.write("a.txt", some(12, 40));
  CHECK(read(folder, &accepted.policy->lists).reason().empty());

  // A policy that begins to cut does not make the feed smaller.
  std::filesystem::remove(folder / "weir.yaml");
  folder.write("weir.yaml", policy_with(""));
  folder.write("a.txt", some(50, 950));
  const Read uncut = read(folder);
  CHECK(uncut.list().entries() == 1000);
  folder.write("weir.yaml", policy_with(", guard: {reserved: cut}"));
  const Read cut = read(folder, &uncut.policy->lists);
  CHECK(cut.reason().empty());
  CHECK(cut.list().entries() == 50);
}

TEST_CASE("as many entries are reserved or own as a walk over all ranges finds") {
  const std::pair<Ipv4, Ipv4> reserved[] = {{0, 0xffffff},
                                            {0x0a000000, 0x0affffff},
                                            {0x64400000, 0x647fffff},
                                            {0x7f000000, 0x7fffffff},
                                            {0xa9fe0000, 0xa9feffff},
                                            {0xac100000, 0xac1fffff},
                                            {0xc0a80000, 0xc0a8ffff},
                                            {0xe0000000, 0xffffffff}};
  std::mt19937 random(7);
  for (int round = 0; round < 200; round++) {
    ListDraft own, feed;
    const auto any = [&](unsigned widest_bits) {
      const auto first = static_cast<Ipv4>(random());
      const auto wide = static_cast<Ipv4>(random() & ((1u << (random() % widest_bits)) - 1));
      return Entry<Ipv4>{first, first + std::min(wide, ~first), 1, 0, WEIR_AS_SOURCE, 1};
    };
    for (int i = 0; i < 5; i++) own.v4.push_back(any(27));
    for (int i = 0; i < 50; i++) feed.v4.push_back(any(22));
    for (const Entry<Ipv4>& entry : own.v4) {  // at its edges
      feed.v4.push_back({entry.first - 1, entry.first - 1, 1, 0, WEIR_AS_SOURCE, 1});
      feed.v4.push_back({entry.last, entry.last, 1, 0, WEIR_AS_SOURCE, 1});
    }
    size_t expected = 0;
    for (const Entry<Ipv4>& entry : feed.v4) {
      bool is_touched = false;
      const auto meets = [&](Ipv4 first, Ipv4 last) { return first <= entry.last && entry.first <= last; };
      for (const auto& [first, last] : reserved) is_touched = is_touched || meets(first, last);
      for (const Entry<Ipv4>& one : own.v4) is_touched = is_touched || meets(one.first, one.last);
      expected += is_touched;
    }
    feed.feed.entries = feed.v4.size();
    FeedOptions options;
    const Judgement judgement = judge({"a.txt", 0, true, feed, nullptr, own, options});
    REQUIRE_FALSE(judgement.refused);
    const auto is_it = [](const FeedNote& note) { return note.reason.starts_with("blocks addresses"); };
    const auto note = std::find_if(judgement.notes.begin(), judgement.notes.end(), is_it);
    REQUIRE((note != judgement.notes.end()) == (expected != 0));
    if (expected == 0) continue;
    const std::string& reason = note->reason;
    CHECK(reason.find("your own: " + std::to_string(expected) + " entr") != std::string::npos);
  }
}

}  // namespace weir::control
