// Feeds that have not changed are taken from what was read last time.
#include <optional>

#include "control/policy/model/columns.h"
#include "control/policy/read/feed_file.h"
#include "control/policy/read/policy.h"
#include "tests/catch.h"
#include "tests/unit/folder.h"

namespace weir::control {
namespace {

const std::string kPolicy =
    "version: 1\nlists:\n- {name: a, action: drop, file: a.txt, entries: [192.0.2.6]}\n"
    "- {name: b, action: drop, match: dst, file: a.txt}\n";

Book read(const std::string& path, const Book* before = nullptr) {
  Diagnostics diagnostics;
  const auto policy = read_policy(path, diagnostics, kNever - 1, before);
  INFO(format(diagnostics));
  REQUIRE(policy);
  return policy->lists;
}

// The book with a mark in every feed: whatever has it afterwards was not parsed again.
Book marked(Book book, bool settled) {
  for (List& list : book) {
    ListDraft draft = draft_of(*list.content);
    draft.v4.push_back({1, 1, 1000, 0, list.match, 1});
    list.content = make_entries(std::move(draft));
    list.feed_state.settled = settled;
  }
  return book;
}

bool has_mark(const List& list) {
  return !list.v4().empty() && list.v4()[0].line == 1000;
}

}  // namespace

TEST_CASE("a feed whose file is the same and had settled is not read again") {
  const Folder folder;
  folder.write("a.txt", "192.0.2.7\nbad\n");
  const std::string path = folder.write("weir.yaml", kPolicy);
  const Book first = read(path);
  CHECK(first[0].entries() == 2);
  CHECK_FALSE(first[0].feed_state.settled);  // it was written just now
  const Book before = marked(first, true);
  const Book again = read(path, &before);
  for (size_t l = 0; l < 2; l++) {
    CHECK(again[l].content == before[l].content);  // shared
    CHECK(again[l].feed == before[l].feed);
    CHECK(again[l].feed.bad == 1);
  }
}

TEST_CASE("a feed that may have changed is compared by its bytes, and parsed when they differ") {
  const Folder folder;
  folder.write("a.txt", "192.0.2.7\n");
  const std::string path = folder.write("weir.yaml", kPolicy);
  const Book before = marked(read(path), false);
  CHECK(has_mark(read(path, &before)[0]));  // the same bytes
  folder.write("a.txt", "192.0.2.7\n");     // written again
  CHECK(has_mark(read(path, &before)[0]));
  const Book settled = marked(read(path), true);
  folder.write("a.txt", "192.0.2.8\n");  // as long as before
  for (const Book* book : {&before, &settled}) {
    const Book changed = read(path, book);
    CHECK_FALSE(has_mark(changed[0]));
    CHECK(changed[0].v4()[1].first == *parse_ipv4("192.0.2.8"));
    CHECK(changed[1].v4()[0].first == *parse_ipv4("192.0.2.8"));
  }
}

TEST_CASE("other options are another feed; other entries of the policy are not") {
  const Folder folder;
  folder.write("a.txt", "192.0.2.7\n2001:db8::7\n");
  const std::string path = folder.write("weir.yaml", kPolicy);
  const Book before = marked(read(path), true);
  const auto read_with = [&](const std::string& list) {
    folder.write("weir.yaml", "version: 1\nlists:\n- {name: a, action: drop, file: a.txt" + list + "}\n");
    return read(path, &before)[0];
  };
  CHECK_FALSE(has_mark(read_with(", match: either")));
  CHECK_FALSE(has_mark(read_with(", allow_any: true")));
  const List widened = read_with(", ipv6_aggregate: 64, entries: [\"2001:db8:1::1\"]");
  CHECK_FALSE(has_mark(widened));
  CHECK(widened.ipv6_widened == 2);
  const Book with_widened = {widened};
  CHECK(read(path, &with_widened)[0].ipv6_widened == 2);
  CHECK(has_mark(read_with(", format: auto, mode: monitor")));
  const List other = read_with(", entries: [192.0.2.9, 192.0.2.6]");
  CHECK(has_mark(other));
  CHECK(other.entries() == before[0].entries() + 1);
  CHECK(has_mark(read_with(", match: dst")));  // as list b has it
}

TEST_CASE("what was read of a new feed while somebody wrote to it is nothing to compare the whole with") {
  const auto lines = [](unsigned count) {
    std::string text;
    for (unsigned i = 0; i < count; i++) {
      text += "198.18." + std::to_string(i / 256) + "." + std::to_string(i % 256) + "\n";
    }
    return text;
  };
  const Folder folder;
  const std::string path = folder.write("weir.yaml", "version: 1\nlists: [{name: a, action: drop, file: a.txt}]\n");
  Diagnostics diagnostics;
  const auto read_again = [&](const Book* before, bool is_ours, bool is_written) {
    diagnostics = {};
    FeedHistory history(before);
    history.is_ours = is_ours;
    history.is_being_written = [is_written](const std::string&) { return is_written; };
    auto policy = read_policy(path, diagnostics, kNever - 1, history);
    INFO(format(diagnostics));
    REQUIRE(policy);
    return policy->lists;
  };
  for (const bool is_ours : {true, false}) {
    INFO(is_ours);
    folder.write("a.txt", lines(10));
    const Book part = read_again(nullptr, true, true);
    CHECK(part[0].feed_state.unfinished);
    CHECK(format(diagnostics).find("a.txt is being written: what is there so far is taken (entries: 10)") !=
          std::string::npos);
    folder.write("a.txt", lines(700));
    const Book still = read_again(&part, is_ours, true);
    CHECK(still[0].entries() == 10);
    CHECK(still[0].feed_state.unfinished);

    folder.write("a.txt", lines(1265));
    const Book whole = read_again(&still, is_ours, false);
    CHECK_FALSE(whole[0].refusal);
    CHECK(whole[0].entries() == 1265);
    CHECK_FALSE(whole[0].feed_state.unfinished);
    folder.write("a.txt", lines(10));
    CHECK(read_again(&whole, is_ours, false)[0].refusal);

    // Limits that compare nothing hold.
    folder.write("a.txt", "");
    CHECK(read_again(&part, is_ours, false)[0].refusal);
  }
  // It was the whole.
  folder.write("a.txt", lines(10));
  Book part = read_again(nullptr, true, true);
  part[0].feed_state.settled = true;
  const Book whole = read_again(&part, true, false);
  CHECK_FALSE(whole[0].feed_state.unfinished);
  folder.write("a.txt", lines(1265));
  CHECK(read_again(&whole, true, false)[0].refusal);
}

}  // namespace weir::control
