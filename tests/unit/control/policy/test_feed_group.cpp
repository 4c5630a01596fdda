// `file` that stands for several: a pattern, a folder; which files those are, and what becomes of one that goes wrong.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>

#include "control/policy/read/feed_group.h"
#include "tests/unit/control/policy/fed_list.h"

namespace weir::control {
namespace {

constexpr const char* kPolicy = "version: 1\nlists:\n- {name: a, action: drop, file: ";

std::string policy_of(const std::string& file, const std::string& more = "") {
  return kPolicy + file + more + "}\n";
}

std::string hosts(unsigned third, unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; i++) {
    text += "198.18." + std::to_string(third + i / 256) + "." + std::to_string(i % 256) + "\n";
  }
  return text;
}

std::vector<std::string> names_in(const Folder& folder, const std::string& path) {
  const Result<std::vector<std::string>> found = feed_names(folder / path);
  REQUIRE(found);
  std::vector<std::string> names;
  for (const std::string& name : *found) names.push_back(name.substr(folder.path().size() + 1));
  return names;
}

bool holds(const List& list, const std::string& text, const std::string& file) {
  const auto address = parse_ipv4(text);
  REQUIRE(address);
  for (const Entry<Ipv4> entry : list.v4()) {
    if (entry.first == *address && list.file_of(entry.source).ends_with(file)) return true;
  }
  return false;
}

// Of the file, why it is refused.
std::string refusal_of(const List& list, const std::string& name) {
  for (const FeedFile& file : list.files) {
    if (file.feed.path.ends_with(name)) return file.refusal ? file.refusal->reason : "";
  }
  return "no such file";
}

}  // namespace

TEST_CASE("a pattern stands for the files that it matches, a folder for those that are done, each by name") {
  const Folder folder;
  for (const char* name : {"f/b.txt", "f/a.txt", "f/c.csv", "f/.hidden", "f/d.txt.new", "f/e.tmp", "f/g~",
                           "f/sub/x.txt", "f/[z].txt", "g/a.txt"}) {
    folder.write(name, "198.51.100.7\n");
  }
  symlink((folder / "g/a.txt").c_str(), (folder / "f/link.txt").c_str());
  symlink("nowhere", (folder / "f/dangling.txt").c_str());
  mkfifo((folder / "f/pipe.txt").c_str(), 0644);
  using Names = std::vector<std::string>;
  CHECK(names_in(folder, "f/*.txt") == Names{"f/[z].txt", "f/a.txt", "f/b.txt", "f/link.txt"});
  CHECK(names_in(folder, "f/?.txt") == Names{"f/a.txt", "f/b.txt"});
  CHECK(names_in(folder, "f/[ab].*") == Names{"f/a.txt", "f/b.txt"});
  CHECK(names_in(folder, "*/a.txt") == Names{"f/a.txt", "g/a.txt"});
  CHECK(names_in(folder, "f") == Names{"f/[z].txt", "f/a.txt", "f/b.txt", "f/c.csv", "f/link.txt"});
  CHECK(names_in(folder, "f/none*").empty());
  CHECK(stands_for_several(folder / "f/*.txt"));
  CHECK(stands_for_several(folder / "f"));
  CHECK(stands_for_several(folder / "not-there/"));
  CHECK_FALSE(stands_for_several(folder / "f/[z].txt"));  // a file that is called so
  CHECK_FALSE(stands_for_several(folder / "f/none.txt"));
  for (size_t i = 0; i <= kMostFeedFiles; i++) folder.write("many/" + std::to_string(i), "198.51.100.7\n");
  const Result<std::vector<std::string>> many = feed_names(folder / "many");
  REQUIRE_FALSE(many);
  CHECK(many.error().ends_with("stands for 255 files, more than the 254 that a list may have"));
}

TEST_CASE("entries of several files stand in one list, each with its own file and line") {
  const Folder folder;
  folder.write("weir.yaml", policy_of("feeds/", ", entries: [203.0.113.9]"));
  folder.write("feeds/1.txt", "# first\n198.51.100.7\n2001:db8::7\nnonsense\n");
  folder.write("feeds/2.csv", "ip,score\n198.51.100.8,3\n");
  const Read first = read(folder);
  INFO(first.text());
  REQUIRE(first.policy);
  const List& list = first.list();
  REQUIRE(list.files.size() == 2);
  CHECK(list.entries() == 4);
  CHECK(holds(list, "203.0.113.9", "weir.yaml"));
  CHECK(holds(list, "198.51.100.7", "1.txt"));
  CHECK(holds(list, "198.51.100.8", "2.csv"));
  CHECK((list.feed.entries == 3 && list.feed.bad == 1 && list.feed.lines == 6 && list.feed.format == "several"));
  CHECK(list.feed.path == folder / "feeds/");
  CHECK(list.files[0].feed.samples.at(0).line == 4);

  // Neither the order of reading nor what is read again shows.
  for (const bool is_ours : {true, false}) {
    FeedHistory history(&first.policy->lists);
    history.is_ours = is_ours;
    Diagnostics diagnostics;
    const auto again = read_policy(folder / "weir.yaml", diagnostics, kNever - 1, history);
    REQUIRE(again);
    CHECK(again->lists[0].content->digest == list.content->digest);
    CHECK(again->lists[0].feed.entries == 3);
    CHECK(again->lists[0].v4().source == list.v4().source);
  }

  // Other entries of the policy beside files that are what they were: settled ones are not read again.
  for (const char* name : {"feeds/1.txt", "feeds/2.csv"}) {
    timespec past[2] = {{time(nullptr) - 100, 0}, {time(nullptr) - 100, 0}};
    REQUIRE(utimensat(AT_FDCWD, (folder / name).c_str(), past, 0) == 0);
  }
  Book before = first.policy->lists;
  for (FeedFile& file : before[0].files) {
    file.state.file = *identity_of(file.feed.path);
    file.state.settled = true;
  }
  folder.write("weir.yaml", policy_of("feeds/", ", entries: [203.0.113.10]"));
  FeedHistory history(&before);
  Diagnostics diagnostics;
  const auto other = read_policy(folder / "weir.yaml", diagnostics, kNever - 1, history);
  REQUIRE(other);
  CHECK(other->lists[0].entries() == 4);
  CHECK(holds(other->lists[0], "203.0.113.10", "weir.yaml"));
  CHECK(holds(other->lists[0], "198.51.100.8", "2.csv"));
}

TEST_CASE("a file among several that goes wrong keeps what the list had of it, and the others go on") {
  const Folder folder;
  folder.write("weir.yaml", policy_of("'*.txt'"));
  folder.write("a.txt", hosts(0, 1000));
  folder.write("b.txt", hosts(8, 500));
  Read first = read(folder);
  INFO(first.text());
  REQUIRE(first.policy);
  const Book book = first.policy->lists;
  CHECK(book[0].entries() == 1500);

  folder.write("a.txt", hosts(0, 999));
  folder.write("b.txt", "<html><body>404</body></html>\n");
  folder.write("c.txt", hosts(16, 10));
  Read mixed = read(folder, &book);
  INFO(mixed.text());
  REQUIRE(mixed.policy);
  CHECK(mixed.list().entries() == 999 + 500 + 10);
  CHECK(refusal_of(mixed.list(), "a.txt").empty());
  CHECK(refusal_of(mixed.list(), "b.txt").find("HTML") != std::string::npos);
  CHECK(mixed.text().find("list `a` keeps its last good content (entries: 500): ") != std::string::npos);

  // Still so after another reload; an empty one is refused, too, and one that never had anything is only told.
  const Book kept = mixed.policy->lists;
  folder.write("b.txt", "");
  folder.write("d.txt", "");
  Read later = read(folder, &kept);
  INFO(later.text());
  REQUIRE(later.policy);
  CHECK(later.list().entries() == 999 + 500 + 10);
  CHECK(refusal_of(later.list(), "b.txt").ends_with("is empty"));
  CHECK(later.text().find("list `a` has nothing of one of its files: ") != std::string::npos);

  // Mended.
  folder.write("b.txt", hosts(8, 400));
  folder.write("d.txt", hosts(24, 1));
  Read mended = read(folder, &later.policy->lists);
  CHECK(mended.list().entries() == 999 + 400 + 10 + 1);
  CHECK(mended.text().empty());

  // Written in place right now: not before its writer is done.
  folder.write("e.txt", hosts(32, 7));
  FeedHistory history(&mended.policy->lists);
  history.is_ours = false;
  history.is_being_written = [](const std::string& path) { return path.ends_with("e.txt"); };
  Diagnostics diagnostics;
  const auto meanwhile = read_policy(folder / "weir.yaml", diagnostics, kNever - 1, history);
  REQUIRE(meanwhile);
  CHECK(meanwhile->lists[0].entries() == 999 + 400 + 10 + 1);
  CHECK(meanwhile->lists[0].files.size() == 4);
}

TEST_CASE("files that are gone take their entries with them, as far as the guard lets the list shrink") {
  const Folder folder;
  folder.write("weir.yaml", policy_of("feeds"));
  folder.write("feeds/small", hosts(0, 400));
  folder.write("feeds/large", hosts(8, 600));
  Read first = read(folder);
  REQUIRE(first.policy);

  std::filesystem::remove(folder / "feeds/small");
  Read fewer = read(folder, &first.policy->lists);
  INFO(fewer.text());
  REQUIRE(fewer.policy);
  CHECK(fewer.list().entries() == 600);
  CHECK(fewer.text().find("feeds/small is gone, and 400 entries with it") != std::string::npos);

  folder.write("feeds/small", hosts(0, 400));
  std::filesystem::remove(folder / "feeds/large");
  Read kept = read(folder, &first.policy->lists);
  INFO(kept.text());
  REQUIRE(kept.policy);
  CHECK(kept.list().entries() == 1000);
  CHECK(refusal_of(kept.list(), "large").find("is gone: the list would have 400 entries instead of 1000") !=
        std::string::npos);
  CHECK(read(folder, &kept.policy->lists).list().entries() == 1000);
  CHECK(read(folder, &kept.policy->lists, {"a"}).list().entries() == 400);

  // A file that takes another's place under a new name: the list is as large as before.
  folder.write("feeds/large-2", hosts(16, 590));
  Read renamed = read(folder, &first.policy->lists);
  CHECK(renamed.list().entries() == 990);
  CHECK(renamed.list().files.size() == 2);

  // None left: all is kept. At a first start it is an error.
  std::filesystem::remove(folder / "feeds/large-2");
  std::filesystem::remove(folder / "feeds/small");
  Read none = read(folder, &renamed.policy->lists);
  REQUIRE(none.policy);
  CHECK(none.list().entries() == 990);
  CHECK(none.text().find("stands for no file") != std::string::npos);
  CHECK_FALSE(read(folder).policy);
  CHECK(read(folder).text().find("stands for no file") != std::string::npos);

  // Another pattern is another policy: what it does not name goes.
  folder.write("feeds/small", hosts(0, 400));
  folder.write("weir.yaml", policy_of("'feeds/*'"));
  CHECK(read(folder, &none.policy->lists).list().entries() == 400);
}

TEST_CASE("min_entries is asked of all files together") {
  const Folder folder;
  folder.write("weir.yaml", policy_of("feeds", ", guard: {min_entries: 100}"));
  folder.write("feeds/1", hosts(0, 60));
  folder.write("feeds/2", hosts(8, 60));
  Read first = read(folder);
  INFO(first.text());
  REQUIRE(first.policy);
  CHECK(first.list().entries() == 120);
  folder.write("feeds/2", hosts(8, 35));
  Read fewer = read(folder, &first.policy->lists);
  INFO(fewer.text());
  REQUIRE(fewer.policy);
  CHECK(fewer.list().entries() == 120);
  CHECK(fewer.text().find("holds 95 entries, fewer than 100 (guard: min_entries)") != std::string::npos);
}

}  // namespace weir::control
