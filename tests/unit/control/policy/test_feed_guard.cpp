// Feeds that have gone wrong: what is refused, what is only told, and what the list keeps.
#include <sys/stat.h>

#include "tests/unit/control/policy/fed_list.h"

namespace weir::control {
namespace {

using namespace std::string_literals;

std::string hosts(unsigned count, unsigned from = 0) {
  std::string text;
  for (unsigned i = from; i < from + count; i++) {
    text += "198.18." + std::to_string(i / 256) + "." + std::to_string(i % 256) + "\n";
  }
  return text;
}

Book first_book(const Folder& folder) {
  Read first = read(folder);
  INFO(first.text());
  REQUIRE(first.policy);
  REQUIRE_FALSE(first.list().refusal);
  return first.policy->lists;
}

struct Row {
  const char* what;
  std::string content;
  const char* reason;  // of its refusal
};

std::string utf16(const std::string& text, bool little) {
  std::string wide;
  for (const char c : text) wide += little ? std::string{c, '\0'} : std::string{'\0', c};
  return wide;
}

std::string with_cr(std::string text) {
  for (char& c : text) c = c == '\n' ? '\r' : c;
  return text;
}

const std::string kJunk = [] {
  std::string text;
  for (int i = 0; i < 400; i++) text += "junk\n";
  return text;
}();

}  // namespace

TEST_CASE("a feed that has gone wrong is refused, and its list keeps what it had, until it is mended") {
  const Row rows[] = {
      {"empty", "", "is empty"},
      {"an empty line", "\n", "holds no entries (read as plain: it looks like no other format; 1 line)"},
      {"comments", "# nothing today\n", "holds no entries"},
      {"shrunken", hosts(499), "shrank from 1000 entries to 499, by 50.1 %: at most 50 %"},
      {"grown", hosts(10'001), "grew from 1000 entries to 10001, 10 times"},
      {"junk among it", hosts(1000) + kJunk,
       "has 400 bad lines beside 1000 entries, and had 0 beside 1000; the first "
       "on line 1001: not an address"},
      {"cut last line", hosts(1000).substr(0, hosts(1000).size() - 3), "ends inside of line 1000"},
      {"gzip", "\x1f\x8b\x08\x00"s + std::string(500, 'x'), "is gzip data"},
      {"zip", "PK\x03\x04"s + std::string(500, 'x'), "is a zip archive"},
      {"xz",
       "\xfd"
       "7zXZ\0\0"s +
           std::string(500, 'x'),
       "is xz data"},
      {"zstd", "\x28\xb5\x2f\xfd"s + std::string(500, 'x'), "is zstd data"},
      {"bzip2", "BZh91AY&SY" + std::string(500, 'x'), "is bzip2 data"},
      {"tar", std::string("a.txt") + std::string(252, '\0') + "ustar  " + std::string(1000, 'x'), "is a tar archive"},
      {"HTML", "\n <!DOCTYPE HTML PUBLIC>\n<html><body>503\n" + hosts(1000), "is an HTML page"},
      {"HTML in a word", "<a href=x>1</a><body>\n" + hosts(1000), "is an HTML page"},
      {"XML", "<?xml version=\"1.0\"?>\n" + hosts(1000), "is XML"},
      {"JSON", "[\n  \"198.18.0.1\",\n", "ends inside of a value"},
      {"JSON lines", "{\"name\": \"198.18.0.1\"}\n", "holds no entries"},
      {"UTF-16", "\xff\xfe" + utf16(hosts(1000), true), "is UTF-16 text"},
      {"UTF-16 without a mark", utf16(hosts(1000), false), "is UTF-16 text"},
      {"zeroes", std::string(15'000, '\0'), "is binary data"},
      {"CR alone", with_cr(hosts(1000)), "ends its lines by CR alone"},
      {"CR alone behind a head", "# head\n" + with_cr(hosts(1000)), "ends its lines by CR alone"},
      {"two halves of IPv4", hosts(1000) + "0.0.0.0/1\n128.0.0.0/1\n",
       "covers 100 % of all IPv4 addresses, and covered 0 %; its widest entry is on line 1001: 0.0.0.0/1"},
      {"a quarter of IPv4", hosts(1000) + "64.0.0.0/2\n",
       "covers 28.4 % of all IPv4 addresses, and covered 0 %; its widest entry is on line 1001: 64.0.0.0/2"},
      {"a range of nearly all", hosts(1000) + "0.0.0.1-255.255.255.255\n", "covers 100 % of all IPv4"},
      {"two halves of IPv6", hosts(1000) + "::/1\n8000::/1\n", "covers 100 % of all IPv6"},
  };
  const Folder folder;
  folder.write("weir.yaml", policy_with(", entries: [192.0.2.6]"));
  folder.write("a.txt", hosts(1000));
  const Book good = first_book(folder);
  for (const Row& row : rows) {
    INFO(row.what);
    folder.write("a.txt", row.content);
    const Read refused = read(folder, &good);
    INFO(refused.text());
    REQUIRE(refused.policy);
    CHECK(refused.reason().find(folder / "a.txt ") == 0);
    CHECK(refused.reason().find(row.reason) != std::string::npos);
    // What is no list, nobody can take as it is.
    const std::string_view reason = row.reason;
    const bool is_list = (!reason.starts_with("is ") || reason == "is empty") && !reason.starts_with("ends its lines");
    const bool offers = refused.list().refusal->hint.find("controlctl feeds --accept a`") != std::string::npos;
    CHECK(offers == is_list);
    CHECK(refused.list().content->digest == good.back().content->digest);
    CHECK(refused.list().feed == good.back().feed);
    CHECK(refused.diagnostics.warnings() == 1);
    CHECK(refused.text().find("list `a` keeps its last good content (entries: 1000): ") != std::string::npos);

    // Still, from there on; and since when.
    Book kept = refused.policy->lists;
    kept.back().refusal->since = 17;
    const Read again = read(folder, &kept);
    CHECK(again.reason() == refused.reason());
    CHECK(again.list().refusal->since == 17);
    CHECK(again.list().content->digest == good.back().content->digest);

    folder.write("a.txt", hosts(1000));
    const Read mended = read(folder, &again.policy->lists);
    CHECK(mended.reason() == "");
    CHECK(mended.text() == "");
    CHECK(mended.list().content->digest == good.back().content->digest);
  }
}

TEST_CASE("a file that cannot be read leaves the list what it had") {
  const Folder folder;
  folder.write("weir.yaml", policy_with(""));
  folder.write("a.txt", hosts(10));
  const Book good = first_book(folder);
  const auto check = [&](const std::string& reason) {
    INFO(reason);
    const Read refused = read(folder, &good);
    CHECK(refused.reason() == reason);
    CHECK(refused.list().content->digest == good.back().content->digest);
    CHECK(refused.refusal()->hint.find("accept") == std::string::npos);  // there is nothing to accept
    CHECK(read(folder, &good, {"a"}).reason() == reason);
  };
  std::filesystem::remove(folder / "a.txt");
  check("cannot open " + folder / "a.txt" + ": No such file or directory");
  std::filesystem::create_directory(folder / "a.txt");
  check(folder / "a.txt" + " stands for no file");
  std::filesystem::remove(folder / "a.txt");
  REQUIRE(mkfifo((folder / "a.txt").c_str(), 0600) == 0);
  check(folder / "a.txt" + " is not a regular file");
  std::filesystem::remove(folder / "a.txt");
  folder.write("a.txt", "");
  std::error_code too_large;
  std::filesystem::resize_file(folder / "a.txt", uint64_t{10} << 40, too_large);
  if (too_large) return;  // for this file system
  check(folder / "a.txt" + " is larger than 4 GiB: it has 10995116277760 bytes");
}

TEST_CASE("what is strange, and may be right, is taken and told") {
  const Row rows[] = {
      {"half of it", hosts(500), "shrank from 1000 entries to 500"},
      {"six times", hosts(6'000), "grew from 1000 entries to 6000"},
      {"a line that broke", hosts(999) + "198.18.256.1\n", "has 1 bad lines beside 999 entries, and had 0 beside 1000"},
      {"others", hosts(1000, 5000), "has other entries now: 1000 of the 1000 that it had are gone"},
      {"a private network", hosts(1000) + "10.1.0.0/16\n",
       "blocks addresses that are reserved, or your own: 1 entry, the first on line 1001: 10.1.0.0/16 (of 10.0.0.0/8)"},
      {"a large network", hosts(1000) + "32.0.0.0/6\n", "covers 1.81 % of all IPv4 addresses, and covered 0 %"},
      {"this machine", hosts(1000) + "::1\n", "reserved, or your own: 1 entry, the first on line 1001: ::1"},
      {"what is ours", hosts(1000) + "192.0.2.0/24\n", "the first on line 1001: 192.0.2.0/24 (of policy.own)"},
  };
  const Folder folder;
  folder.write("weir.yaml", policy_with("", "policy: {own: [192.0.2.7]}\n"));
  folder.write("a.txt", hosts(1000));
  const Book good = first_book(folder);
  for (const Row& row : rows) {
    INFO(row.what);
    folder.write("a.txt", row.content);
    const Read taken = read(folder, &good);
    INFO(taken.text());
    CHECK(taken.reason() == "");
    CHECK(taken.diagnostics.warnings() == 1);
    CHECK(taken.text().find(row.reason) != std::string::npos);
    CHECK(taken.list().content->digest != good.back().content->digest);
    // About a change: once. About the content: as long as it stands.
    const std::string later = read(folder, &taken.policy->lists).text();
    const std::vector<FeedNote>& notes = taken.list().feed.notes;
    REQUIRE(notes.size() <= 1);
    CHECK((later == "") == notes.empty());
    CHECK(notes.empty() == (&row < rows + 4));
    if (!notes.empty()) CHECK(later.find(notes[0].reason.substr(0, notes[0].reason.find(','))) != std::string::npos);
  }
}

TEST_CASE("what is strange in a first content is said, and stands until the feed changes") {
  struct First {
    std::string content;
    std::vector<std::string> reasons;  // of all warnings, in their order
  };
  const First firsts[] = {
      {"198.51.100.33/2\n203.0.113.1\n",
       {"has host bits in 1 prefix, the first on line 1: 198.51.100.33/2 is read as 192.0.0.0/2",
        "covers 14.5 % of all IPv4 addresses; its widest entry is on line 1: 192.0.0.0/2", "blocks addresses that"}},
      {"203.0.113.0/1\n",
       {"has host bits in 1 prefix", "covers 43.5 % of all IPv4 addresses; its widest entry is on line 1: 128.0.0.0/1",
        "blocks addresses that"}},
      {"2000::/5\n", {"covers 25 % of all IPv6 addresses; its widest entry is on line 1: 2000::/5"}},
      {"32.0.0.0/7\n", {}},  // less than a hundredth
      {"203.0.113.0/24\n198.51.100.0/24\n2001:db8::/32\n", {}},
      {"203.0.113.7/24\n203.0.113.9/255.255.255.0\n2001:db8::7/32\n",
       {"has host bits in 3 prefixes, the first on line 1: 203.0.113.7/24 is read as 203.0.113.0/24"}},
      {"198.18.0.1\nx\ny\n", {"has 2 bad lines beside 1 entries; the first on line 2: "}},
      {"10.1.2.3\n", {"blocks addresses that are reserved, or your own: 1 entry"}},
  };
  const Folder folder;
  folder.write("weir.yaml", policy_with(""));
  for (const First& first : firsts) {
    INFO(first.content);
    folder.write("a.txt", first.content);
    const Read taken = read(folder);
    INFO(taken.text());
    REQUIRE(taken.policy);
    const std::vector<FeedNote>& notes = taken.list().feed.notes;
    REQUIRE(notes.size() == first.reasons.size());
    CHECK(taken.diagnostics.warnings() == notes.size());
    for (size_t i = 0; i < notes.size(); i++) {
      CHECK(notes[i].reason.starts_with(first.reasons[i]));
      CHECK_FALSE(notes[i].hint.empty());
      CHECK(taken.text().find("a.txt " + notes[i].reason) != std::string::npos);
    }
    // As after a start, and by the process that read it: the file is the same, or its bytes are.
    for (const bool is_ours : {false, true}) {
      FeedHistory history(&taken.policy->lists);
      history.is_ours = is_ours;
      Diagnostics again;
      const auto policy = read_policy(folder / "weir.yaml", again, kNever - 1, history);
      REQUIRE(policy);
      CHECK(policy->lists.back().feed.notes == notes);
      CHECK(format(again) == taken.text());
    }
  }
}

TEST_CASE("host bits in a pass list are said, too") {
  const Folder folder;
  folder.write("weir.yaml", "version: 1\nlists: [{name: a, action: pass, file: a.txt}]\n");
  folder.write("a.txt", "203.0.113.7/8\n");
  CHECK(read(folder).text().find("203.0.113.7/8 is read as 203.0.0.0/8") != std::string::npos);
}

TEST_CASE("notes of what is accepted, and of each file of a folder, stand") {
  const Folder folder;
  folder.write("weir.yaml", policy_with(""));
  folder.write("a.txt", hosts(1000));
  const Book good = first_book(folder);
  folder.write("a.txt", "128.0.0.0/1\n");
  const Read accepted = read(folder, &good, {"a"});
  REQUIRE(accepted.policy);
  CHECK(accepted.text().find("covers 43.5 %") != std::string::npos);
  CHECK(read(folder, &accepted.policy->lists).text().find("covers 43.5 %") != std::string::npos);

  std::filesystem::create_directory(folder / "many");
  folder.write("many/1.txt", "203.0.113.7/8\n");
  folder.write("many/2.txt", "198.18.0.1\n");
  folder.write("weir.yaml", "version: 1\nlists: [{name: b, action: drop, file: many}]\n");
  const Read many = read(folder);
  REQUIRE(many.policy);
  CHECK(many.list().feed.host_bits == 1);
  CHECK(many.list().files.at(0).feed.notes.size() == 1);
  CHECK(many.diagnostics.warnings() == 1);
  FeedHistory history(&many.policy->lists);
  Diagnostics again;
  REQUIRE(read_policy(folder / "weir.yaml", again, kNever - 1, history));
  CHECK(format(again) == many.text());
}

TEST_CASE("a feed that never was there must be right from the beginning") {
  const Row rows[] = {
      {"empty", "", "is empty"},
      {"HTML", "<html>", "is an HTML page"},
      {"halves", "0.0.0.0/1\n128.0.0.0/1\n", "covers 100 %"},
  };
  const Folder folder;
  folder.write("weir.yaml", policy_with(""));
  for (const Row& row : rows) {
    INFO(row.what);
    folder.write("a.txt", row.content);
    const Read refused = read(folder);
    CHECK_FALSE(refused.policy);
    CHECK(refused.diagnostics.errors() == 1);
    CHECK(refused.text().find(row.reason) != std::string::npos);
    CHECK(refused.text().find("accept") == std::string::npos);
  }
  // Of an end without a newline nothing can be said then, and afterwards only when the file is shorter.
  folder.write("a.txt", "198.18.0.1\n198.18.0.2\n198.18.0.33");
  const Book good = first_book(folder);
  folder.write("a.txt", "198.18.0.1\n198.18.0.2\n198.18.0.33\n198.18.0.4");
  const Read longer = read(folder, &good);
  CHECK(longer.reason() == "");
  CHECK(longer.text().find("ends inside of line 4") != std::string::npos);
  folder.write("a.txt", "198.18.0.1\n198.18.0.2\n198.18.0.3");
  CHECK(read(folder, &good).reason().find("ends inside of line 3") != std::string::npos);
}

TEST_CASE("each limit of a guard") {
  struct Limit {
    const char* guard;
    std::string content;
    const char* reason;  // empty: it is taken
  };
  const Limit limits[] = {
      {"{min_entries: 0}", "", "shrank from 10 entries to 0, by 100 %"},
      {"{min_entries: 11}", hosts(11), ""},
      {"{min_entries: 12}", hosts(11), "holds 11 entries, fewer than 12 (guard: min_entries)"},
      {"{max_shrink: 10%}", hosts(9), ""},
      {"{max_shrink: 9.5%}", hosts(9), "at most 9.5 % may go at once (guard: max_shrink)"},
      {"{max_shrink: 100%, min_entries: 0}", "", ""},
      {"{max_growth: 2x}", hosts(20), ""},
      {"{max_growth: 1.5x}", hosts(16), "at most 1.5 times is taken at once (guard: max_growth)"},
      {"{widest_v4: 16}", hosts(10) + "198.19.0.0/16\n", ""},
      {"{widest_v4: 16}", hosts(10) + "198.18.0.0-198.19.0.0\n",
       "holds 198.18.0.0-198.19.0.0 on line 11, which is wider than a /16 (guard: widest_v4)"},
      {"{widest_v6: 32}", hosts(10) + "2001:db8::/32\n", ""},
      {"{widest_v6: 32}", hosts(10) + "2001:db8::/31\n", "wider than a /32 (guard: widest_v6)"},
      {"{reserved: refuse}", hosts(10) + "127.0.0.1\n", "the first on line 11: 127.0.0.1 (of 127.0.0.0/8)"},
      {"{reserved: keep}", hosts(10) + "127.0.0.1\n", ""},
      {"{reserved: cut, min_entries: 11}", hosts(10) + "127.0.0.1\n", "holds 10 entries, fewer than 11"},
  };
  const Folder folder;
  folder.write("weir.yaml", policy_with(""));
  folder.write("a.txt", hosts(10));
  const Book good = first_book(folder);
  for (const Limit& limit : limits) {
    INFO(limit.guard << " " << limit.content.size());
    folder.write("weir.yaml", policy_with(std::string(", guard: ") + limit.guard));
    folder.write("a.txt", limit.content);
    const Read found = read(folder, &good);
    INFO(found.text());
    REQUIRE(found.policy);
    CHECK((found.reason() == "") == (std::string(limit.reason) == ""));
    CHECK(found.reason().find(limit.reason) != std::string::npos);
  }
  // A pass list may hold what is reserved.
  folder.write("weir.yaml", "version: 1\nlists: [{name: a, action: pass, file: a.txt, guard: {reserved: refuse}}]\n");
  folder.write("a.txt", hosts(10) + "127.0.0.1\n");
  CHECK(read(folder, &good).reason() == "");
}

TEST_CASE("a feed is accepted as it is, once, until it changes again") {
  const Folder folder;
  folder.write("weir.yaml", policy_with(""));
  folder.write("a.txt", hosts(1000));
  const Book good = first_book(folder);
  for (const std::string& content : {std::string(), hosts(3), "[\"198.18.0.1\", "s}) {
    INFO(content.substr(0, 10));
    folder.write("a.txt", content);
    CHECK(read(folder, &good).reason() != "");
    const Read accepted = read(folder, &good, {"a"});
    CHECK(accepted.reason() == "");
    CHECK(accepted.list().feed_state.accepted);
    CHECK(accepted.list().content->digest != good.back().content->digest);
    const Read later = read(folder, &accepted.policy->lists);  // as after a restart
    CHECK(later.reason() == "");
    CHECK(later.list().feed_state.accepted);
    CHECK(later.list().content->digest == accepted.list().content->digest);
    folder.write("a.txt", "<html>\n198.18.0.1\n");
    CHECK(read(folder, &good, {"a"}).reason().find("is an HTML page") != std::string::npos);  // no list, no way
    folder.write("a.txt", "# nothing\n");
    const Read changed = read(folder, &later.policy->lists);
    CHECK(changed.reason().find("holds no entries") != std::string::npos);
    CHECK(changed.list().content->digest == accepted.list().content->digest);
  }
}

TEST_CASE("kept content is what the list now makes of it") {
  const Folder folder;
  folder.write("weir.yaml", policy_with(""));
  folder.write("a.txt", "198.18.0.1\n2001:db8::7\n");
  const Book good = first_book(folder);
  std::filesystem::remove(folder / "a.txt");
  folder.write("weir.yaml", policy_with(", match: dst, ipv6_aggregate: 64, entries: [192.0.2.6]"));
  const Read kept = read(folder, &good);
  REQUIRE(kept.policy);
  REQUIRE(kept.list().v4().size() == 2);
  CHECK(kept.list().v4()[1].directions == WEIR_AS_DESTINATION);
  CHECK(kept.list().v6()[0].last == (*parse_ipv6("2001:db8::") | ~uint64_t{0}));

  // The list has another name, or its feed another path: what it had, or what had the file.
  folder.write("weir.yaml", "version: 1\nlists: [{name: renamed, action: drop, file: a.txt}]\n");
  CHECK(read(folder, &good).list().entries() == 2);
  folder.write("weir.yaml", "version: 1\nlists: [{name: a, action: drop, file: b.txt}]\n");
  const Read moved = read(folder, &good);
  CHECK(moved.reason() == "cannot open " + folder / "b.txt" + ": No such file or directory");
  CHECK(moved.list().feed.path == folder / "a.txt");
  // A new file is nothing to compare with the old one.
  folder.write("b.txt", "198.18.0.1\n");
  CHECK(read(folder, &good).text() == "");
}

TEST_CASE("more entries than filter.memory has room for are not read into memory") {
  const Folder folder;
  folder.write("weir.yaml", policy_with("", "filter: {memory: 8KiB}\n"));
  folder.write("a.txt", "# " + std::string(2000, '\n') + hosts(1000));  // lines are no entries
  CHECK(first_book(folder).back().entries() == 1000);
  std::filesystem::remove(folder / "weir.yaml");
  folder.write("weir.yaml", policy_with("", "filter: {memory: 8KiB}\n"));
  folder.write("a.txt", hosts(1025));
  const Read refused = read(folder);
  CHECK_FALSE(refused.policy);
  CHECK(refused.text().find("holds more entries than fit into filter.memory: the first 1025 lines hold "
                            "1025, which take 8200 bytes at least, and 8192 are allowed") != std::string::npos);
  // Networks may take next to nothing.
  std::string networks;
  for (int i = 0; i < 8000; i++) {
    networks += std::to_string(11 + i / 256) + "." + std::to_string(i % 256) + ".0.0/24\n";
  }
  folder.write("a.txt", networks);
  CHECK(read(folder).policy);
}

TEST_CASE("JSON that is good and holds no entries where they are looked for says how to name the place") {
  const Folder folder;
  folder.write("weir.yaml", policy_with(""));
  folder.write("a.txt", hosts(10));
  const Book good = first_book(folder);
  folder.write("a.txt", "{\"hooks\":[\"198.18.0.1\"],\"web\":[\"198.18.0.2\"]}\n");
  const Read refused = read(folder, &good);
  CHECK(refused.reason().starts_with(
      folder / "a.txt" +
      " holds no entries where weir looks for them (read as json: it begins as JSON does; 1 line, 2 "
      "skipped, the first on line 1: an address in a"));
  CHECK(refused.refusal()->hint.find("`format: {json: {path: KEY.KEY}}`") != std::string::npos);
}

TEST_CASE("a feed without entries is told as what it was read, why, what it looks like, and how it would be read") {
  struct Empty {
    std::string content;
    std::vector<const char*> words;  // of the message, reason and hint
  };
  const Empty rows[] = {
      {"{\"ip\": 3405803783, \"addr_text\": \"203.0.113.7\"}\n{\"ip\": 1, \"addr_text\": \"203.0.113.8\"}\n",
       {"read as jsonl", "has addresses in `addr_text`", "`format: {jsonl: {address: addr_text}}`"}},
      {"{\"name\": \"x\", \"ip\": 3405803783}\n", {"read as json", "1 line)", "`format: {json: {address: KEY}}`"}},
      {"\"3405803776\",\"3405804031\",\"ZZ\",\"Nowhere\"\n",
       {"\"3405803776\",\"3405804031\"", "decimal numbers are not read as addresses: 3405803776 may mean 203.0.113.0",
        "write addresses with dots"}},
      {"first thing\nsecond \x1b[2J\n", {"read as plain", "line 1: ", ": first thing", "`format: csv`"}},
      {"# nothing\n", {"read as plain", "1 line)", "is it a list of addresses", "min_entries"}},
  };
  for (const Empty& row : rows) {
    INFO(row.content);
    const Folder folder;
    folder.write("weir.yaml", policy_with(""));
    folder.write("a.txt", row.content);
    const Read refused = read(folder);
    INFO(refused.text());
    CHECK_FALSE(refused.policy);
    for (const char* words : row.words) {
      INFO(words);
      CHECK(refused.text().find(words) != std::string::npos);
    }
    CHECK(refused.text().find('\x1b') == std::string::npos);
  }
}

}  // namespace weir::control
