// The entries of a fleet in the lists of one node, while lists and entries change under it.

#include <algorithm>

#include "control/daemon/fleet_entries.h"
#include "control/lists/journal/change.h"
#include "tests/unit/control/daemon/started.h"

using namespace weir;
using namespace weir::control;

namespace {

std::string fleet_policy(const std::string& lists) {
  return "version: 1\ntargets: []\nlists:\n  - {name: here, action: drop, entries: [192.0.2.2]}\n" + lists;
}
const std::string kJail = "  - {name: jail, action: drop, dynamic: true}\n";

fleet::News news_of(const std::vector<std::string>& entries, int64_t at, bool is_whole = false, bool is_gone = false) {
  fleet::News news;
  news.kind = "entries";
  news.at = at;
  news.is_whole = is_whole;
  news.is_last = true;
  for (const std::string& entry : entries) news.entries.push_back({"jail", entry, is_gone, 0, "of the fleet"});
  return news;
}

struct FleetedNode {
  explicit FleetedNode(const Folder& folder) : daemon(options(folder, entries)) {
    REQUIRE(daemon.daemon);
    entries = std::make_unique<FleetEntries>(daemon.loop, *daemon.daemon, [] {});
  }
  static Daemon::Options options(const Folder& folder, std::unique_ptr<FleetEntries>& entries) {
    Daemon::Options options = options_for(folder, {});
    options.went_back = [&entries] { entries->went_back(); };
    return options;
  }
  bool is_dropped(const char* key) {
    return daemon.ask({{"command", "explain"}, {"key", key}}).at("as_source").at("action") == "drop";
  }
  // All is done that could be, up to this revision of etcd's store.
  bool until_at(int64_t at) {
    return daemon.until([&] { return entries->counts().at == at; });
  }

  Started daemon;
  std::unique_ptr<FleetEntries> entries;  // ends first
};

}  // namespace

TEST_CASE("entries of a fleet whose list goes while they wait for their turn wait for the list") {
  const Folder folder;
  folder.write("weir.yaml", fleet_policy(kJail));
  FleetedNode node(folder);
  node.entries->take(news_of({"198.51.100.1"}, 1, true));
  REQUIRE(node.until_at(1));
  folder.write("weir.yaml", fleet_policy(""));
  const auto report = node.daemon.begin_reload();
  // The change of these stands behind the reload, which takes their list away.
  node.entries->take(news_of({"198.51.100.3", "198.51.100.4"}, 2));
  REQUIRE(node.daemon.until([&] { return *report != nullptr; }));
  REQUIRE((*report)->ok);
  REQUIRE(node.until_at(2));
  node.entries->lists_changed();
  REQUIRE(node.daemon.until([&] { return node.entries->counts().refused == 3; }));
  folder.write("weir.yaml", fleet_policy(kJail));
  REQUIRE(node.daemon.reload()->ok);
  node.entries->lists_changed();
  REQUIRE(node.daemon.until([&] { return node.entries->counts().held == 3; }));
  for (const char* one : {"198.51.100.1", "198.51.100.3", "198.51.100.4"}) CHECK(node.is_dropped(one));
}

TEST_CASE("an entry of a fleet that is deleted while its change fails stays deleted") {
  const Folder folder;
  folder.write("weir.yaml", fleet_policy(kJail));
  FleetedNode node(folder);
  node.entries->take(news_of({}, 1, true));
  REQUIRE(node.until_at(1));
  // 0.0.0.0/0 is none of this list: their change fails, and is tried again in halves.
  node.entries->take(news_of({"198.51.100.1", "198.51.100.2", "198.51.100.3", "0.0.0.0/0"}, 2));
  node.entries->take(news_of({"198.51.100.2"}, 3, false, true));
  REQUIRE(node.until_at(3));
  CHECK(node.entries->counts().held == 2);
  CHECK(node.entries->counts().refused == 1);
  CHECK(node.is_dropped("198.51.100.1"));
  CHECK(node.is_dropped("198.51.100.3"));
  CHECK_FALSE(node.is_dropped("198.51.100.2"));
}

TEST_CASE("an entry of a fleet that is deleted while its change is refused is not refused") {
  const Folder folder;
  folder.write("weir.yaml", fleet_policy(kJail));
  FleetedNode node(folder);
  node.entries->take(news_of({}, 1, true));
  REQUIRE(node.until_at(1));
  node.entries->take(news_of({"no address"}, 2));
  node.entries->take(news_of({"no address"}, 3, false, true));
  REQUIRE(node.until_at(3));
  CHECK(node.entries->counts().refused == 0);
  CHECK(node.entries->counts().held == 0);
}

TEST_CASE("what an earlier life took from a fleet into a list that comes back is compared again") {
  const Folder folder;
  folder.write("weir.yaml", fleet_policy(kJail));
  {
    FleetedNode node(folder);
    node.entries->take(news_of({"198.51.100.1", "198.51.100.2"}, 1, true));
    REQUIRE(node.until_at(1));
    folder.write("weir.yaml", fleet_policy(""));
    REQUIRE(node.daemon.reload()->ok);
  }
  FleetedNode node(folder);
  node.entries->take(news_of({"198.51.100.2"}, 2, true));
  REQUIRE(node.until_at(2));
  folder.write("weir.yaml", fleet_policy(kJail));
  REQUIRE(node.daemon.reload()->ok);
  CHECK(node.is_dropped("198.51.100.1"));  // the journal has it still
  node.entries->lists_changed();
  CHECK(node.daemon.until([&] { return !node.is_dropped("198.51.100.1"); }));
  CHECK(node.is_dropped("198.51.100.2"));
  CHECK(node.entries->counts().held == 1);
}

TEST_CASE("entries of a fleet that a rollback takes away come back, and those that it brings back go") {
  const Folder folder;
  folder.write("weir.yaml", fleet_policy(kJail));
  FleetedNode node(folder);
  node.entries->take(news_of({"198.51.100.1"}, 1, true));
  REQUIRE(node.until_at(1));
  const uint64_t with_first = node.daemon->running()->publication->generation.number;
  node.entries->take(news_of({"198.51.100.1"}, 2, false, true));
  node.entries->take(news_of({"198.51.100.2"}, 3));
  REQUIRE(node.until_at(3));
  REQUIRE(node.daemon.ask({{"command", "rollback"}, {"number", with_first}}).at("ok"));
  REQUIRE(node.daemon.until([&] { return !node.is_dropped("198.51.100.1") && node.is_dropped("198.51.100.2"); }));
  REQUIRE(node.daemon.until([&] { return node.entries->counts().held == 1; }));
}

TEST_CASE("many wrong entries of a fleet beside right ones are refused, each of them") {
  const Folder folder;
  folder.write("weir.yaml", fleet_policy(kJail));
  FleetedNode node(folder);
  std::vector<std::string> texts;
  for (int i = 0; i < 40; i++) {
    texts.push_back("198.51.100." + std::to_string(i));
    texts.push_back("wrong " + std::to_string(i));
  }
  node.entries->take(news_of(texts, 1, true));
  REQUIRE(node.until_at(1));
  CHECK(node.entries->counts().held == 40);
  CHECK(node.entries->counts().refused == 40);
}

// Each change is answered before change() returns: the answers may not lie in one another on the stack.
TEST_CASE("a node whose policy is bad refuses a large fleet's entries") {
  const Folder folder;
  folder.write("weir.yaml", fleet_policy(kJail));
  { const Started daemon(options_for(folder, {})); }
  folder.write("weir.yaml", "version: 1\nlists: [{name: x}]\n");
  FleetedNode node(folder);
  fleet::News news = news_of({}, 1, true);
  constexpr int kEntries = 20'000;
  for (int i = 0; i < kEntries; i++) {
    const std::string text = "198.18." + std::to_string(i / 250) + "." + std::to_string(i % 250);
    news.entries.push_back({"jail", text, false, 0, ""});
  }
  node.entries->take(news);
  REQUIRE(node.until_at(1));
  CHECK(node.entries->counts().refused == kEntries);
}
