#include "control/compile/preview/lists.h"
#include "tests/unit/control/support/support.h"

// What of a change of lists is told.
using namespace weir;
using namespace weir::control;

namespace {

Book book_of(const std::string& lists, const std::string& own = "[]") {
  Diagnostics diagnostics;
  auto policy = parse_policy("weir.yaml", "version: 1\npolicy: {own: " + own + "}\nlists:\n" + lists, diagnostics);
  INFO(format(diagnostics));
  REQUIRE(policy);
  return policy->lists;
}

const Concern* find(const ListsPreview& preview, const std::string& kind, const std::string& what) {
  const auto found = std::find_if(preview.concerns.begin(), preview.concerns.end(),
                                  [&](const Concern& concern) { return concern.kind == kind && concern.what == what; });
  return found == preview.concerns.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("a preview names the entries that come and go, with their lines") {
  const Book before = book_of(
      "- {name: a, action: drop, entries: [192.0.2.1, 192.0.2.2]}\n"
      "- {name: gone, action: drop, entries: [192.0.2.9]}\n");
  const Book after = book_of(
      "- name: a\n  action: drop\n  entries:\n  - 192.0.2.1\n  - 198.51.100.0/24\n"
      "  - {dst: 203.0.113.9, proto: udp}\n"
      "- {name: new, action: drop, entries: [192.0.2.9]}\n");
  const ListsPreview preview = preview_lists(before, after);
  REQUIRE(preview.lists.size() == 3);
  const ListPreview& a = preview.lists[0];
  CHECK((a.change.name == "a" && a.change.state == "changed" && a.change.added == 2 && a.change.removed == 1));
  CHECK(a.how.empty());
  REQUIRE(a.added.size() == 2);
  CHECK((a.added[0].entry == "198.51.100.0/24" && a.added[0].file == "weir.yaml" && a.added[0].line == 8));
  CHECK((a.added[1].entry == "dst 203.0.113.9 udp" && a.added[1].line == 9));
  REQUIRE(a.removed.size() == 1);
  CHECK((a.removed[0].entry == "192.0.2.2" && a.removed[0].line == 4));
  CHECK((preview.lists[1].change.name == "new" && preview.lists[1].change.state == "new"));
  CHECK((preview.lists[2].change.name == "gone" && preview.lists[2].removed.size() == 1));
  REQUIRE(preview.widest.size() == 1);
  CHECK((preview.widest[0].list == "a" && preview.widest[0].addresses == 256));
  CHECK(preview.concerns.empty());
  CHECK(preview_lists(after, after).lists.empty());
}

TEST_CASE("a preview says that a list begins to enforce") {
  const Book before = book_of("- {name: a, action: drop, mode: monitor, entries: [192.0.2.1]}\n");
  const Book after = book_of("- {name: a, action: drop, entries: [192.0.2.1]}\n");
  const ListsPreview preview = preview_lists(before, after);
  REQUIRE(preview.lists.size() == 1);
  CHECK(preview.lists[0].how == "mode: enforce, was monitor");
}

TEST_CASE("a preview warns of what is exempt, reserved, or what many use") {
  const Book before = book_of("- {name: ok, action: pass, match: either, entries: [192.0.2.0/24]}\n", "[203.0.113.5]");
  const Book after = book_of(
      "- {name: ok, action: pass, match: either, entries: [192.0.2.0/24, \"198.51.100.7:53\"]}\n"
      "- {name: a, action: drop, entries: [192.0.2.7, 192.0.2.8, 203.0.113.5, 203.0.113.0/24,\n"
      "   198.51.100.7, 10.1.0.0/16, 8.8.0.0/16, \"2606:4700::1\", 5.5.5.5]}\n",
      "[203.0.113.5]");
  const ListsPreview preview = preview_lists(before, after);
  REQUIRE(find(preview, "pass list", "ok") != nullptr);
  CHECK(find(preview, "pass list", "ok")->entries == 2);
  CHECK(find(preview, "pass list", "ok")->first.entry == "192.0.2.7");
  REQUIRE(find(preview, "reserved", "10.0.0.0/8") != nullptr);
  CHECK(find(preview, "reserved", "10.0.0.0/8")->first.entry == "10.1.0.0/16");
  REQUIRE(find(preview, "popular", "Google DNS") != nullptr);
  CHECK(find(preview, "popular", "Google DNS")->entries == 2);  // of both its networks
  REQUIRE(find(preview, "popular", "Cloudflare") != nullptr);
  CHECK(find(preview, "popular", "Cloudflare")->first.entry == "2606:4700::1");
  CHECK(preview.concerns.size() == 4);
}

TEST_CASE("an entry is exempt only when all that it matches is") {
  const auto concerns = [](const std::string& pass, const std::string& drop) {
    return preview_lists({},
                         book_of("- {name: ok, action: pass, " + pass + "}\n- {name: a, action: drop, " + drop + "}\n"))
        .concerns.size();
  };
  CHECK(concerns("match: either, entries: [5.6.7.8]", "match: either, entries: [5.6.7.8]") == 1);
  CHECK(concerns("match: src, entries: [5.6.7.8]", "match: either, entries: [5.6.7.8]") == 0);
  CHECK(concerns("entries: [5.6.7.0/24]", "entries: [5.6.6.0/23]") == 0);
  CHECK(concerns("entries: [\"5.6.7.8:53\"]", "entries: [5.6.7.8]") == 0);
  CHECK(concerns("entries: [\"5.6.7.8:53\"]", "entries: [\"5.6.7.8:53\"]") == 1);
  CHECK(concerns("entries: [{entry: 5.6.7.8, expires: 2099-01-01T00:00:00Z}]", "entries: [5.6.7.8]") == 0);
}

TEST_CASE("a preview holds the widest new entries, however many there are") {
  std::string entries;
  for (int i = 0; i < 200; i++) {
    entries += (i == 0 ? "" : ", ") + std::to_string(20 + i % 60) + "." + std::to_string(i) + ".0.0/" +
               std::to_string(i == 77 ? 15 : 17 + i % 8);
  }
  Diagnostics diagnostics;
  const auto policy = parse_policy(
      "weir.yaml", "version: 1\nlists:\n- {name: a, action: drop, entries: [" + entries + "]}\n", diagnostics);
  REQUIRE(policy);
  const ListsPreview preview = preview_lists({}, policy->lists);
  REQUIRE(preview.widest.size() == 10);
  CHECK(preview.widest[0].addresses == 131072);
  for (size_t i = 1; i < 10; i++) CHECK(preview.widest[i].addresses == 32768);
  CHECK(preview.lists[0].added.size() == 10);
}
