// What goes back, and what is asked for beside it.

#include <fmt/format.h>

#include <filesystem>

#include "tests/unit/control/daemon/started.h"
#include "tests/unit/control/support/enforcer.h"

using namespace weir;
using namespace weir::control;

namespace {

// Enforced by nobody, so that no answer waits.
std::string policy_of(const std::string& entry, const std::string& more = "") {
  return policy_text(entry) + more + "targets: []\n";
}

uint64_t number_of(Started& daemon) {
  return daemon->running()->publication->generation.number;
}

bool is_dropped(Started& daemon, const char* key) {
  return daemon.ask({{"command", "explain"}, {"key", key}}).at("as_source").at("action") == "drop";
}

std::string notice(Started& daemon) {
  return daemon.ask({{"command", "status"}}).value("notice", "");
}

// Its answer, once it is there.
std::shared_ptr<std::string> begin(Started& daemon, const Json& request) {
  auto line = std::make_shared<std::string>();
  answer(*daemon.daemon, request.dump(), {0, 1234, true}, [line](const std::string& told) { *line = told; });
  return line;
}

}  // namespace

TEST_CASE("an acceptance that is refused accepts nothing later") {
  const Folder folder;
  folder.write("weir.yaml", policy_of("203.0.113.7", "  - {name: fed, action: drop, file: fed.txt}\n"));
  folder.write("fed.txt", "198.18.0.1\n198.18.0.2\n198.18.0.3\n");
  Started daemon(options_for(folder, {}));
  REQUIRE(daemon.daemon);
  REQUIRE(daemon.ask({{"command", "reload"}, {"confirm", 60}}).at("ok"));
  folder.write("fed.txt", "198.18.0.1\n");
  const std::string error = daemon.ask({{"command", "accept"}, {"name", "fed"}}).at("error");
  CHECK(error.find("controlctl confirm") != std::string::npos);
  CHECK(daemon.ask({{"command", "confirm"}}).at("ok"));
  CHECK(daemon.ask({{"command", "reload"}}).at("refused").size() == 1);
  CHECK(is_dropped(daemon, "198.18.0.3"));
}

TEST_CASE("only a reload that is published ends a rollback") {
  const Folder folder;
  folder.write("weir.yaml", policy_of("203.0.113.7"));
  Started daemon(options_for(folder, {}));
  REQUIRE(daemon.daemon);
  const uint64_t first = number_of(daemon);
  folder.write("weir.yaml", policy_of("203.0.113.8"));
  REQUIRE(daemon.reload()->ok);
  REQUIRE(daemon.ask({{"command", "rollback"}, {"number", first}}).at("ok"));
  CHECK(is_dropped(daemon, "203.0.113.7"));
  folder.write("weir.yaml", policy_of("no address"));
  CHECK_FALSE(daemon.reload()->ok);
  CHECK(notice(daemon).find("rolled back") == 0);
  folder.write("weir.yaml", policy_of("203.0.113.9"));
  CHECK(daemon.reload()->ok);
  CHECK(notice(daemon).empty());
}

TEST_CASE("targets stay where they are with a rollback, and go back with what nobody confirmed") {
  const Folder folder;
  const auto policy = [&](const char* socket) {
    return policy_text("203.0.113.7") + "targets:\n  - dataplane: " + (folder / socket) + "\n";
  };
  const auto target = [](Started& daemon) {
    const Json targets = daemon.ask({{"command", "status"}}).at("targets");
    REQUIRE(targets.size() == 1);
    return targets.at(0).at("socket").get<std::string>();
  };
  Enforcer before(folder / "before"), after(folder / "after");
  folder.write("weir.yaml", policy("before"));
  Started daemon(options_for(folder, {}));
  INFO(daemon.error);
  REQUIRE(daemon.daemon);
  const uint64_t first = number_of(daemon);
  CHECK(target(daemon) == folder / "before");
  folder.write("weir.yaml", policy("after"));
  REQUIRE(daemon.reload()->ok);
  REQUIRE(daemon.ask({{"command", "rollback"}, {"number", first}}).at("ok"));
  CHECK(target(daemon) == folder / "after");
  CHECK(after.generation().number == number_of(daemon));

  REQUIRE(daemon.reload()->ok);
  folder.write("weir.yaml", policy("before"));
  REQUIRE(daemon.ask({{"command", "reload"}, {"confirm", 1}}).at("ok"));
  CHECK(target(daemon) == folder / "before");
  REQUIRE(daemon.until([&] { return target(daemon) == folder / "after"; }));
}

TEST_CASE("a reload that is asked for beside a rollback comes after it") {
  const Folder folder;
  const std::string dynamic = "  - {name: bans, action: drop, dynamic: true}\n";
  folder.write("weir.yaml", policy_of("203.0.113.7", dynamic));
  Started daemon(options_for(folder, {}));
  REQUIRE(daemon.daemon);
  const uint64_t first = number_of(daemon);
  folder.write("weir.yaml", policy_of("203.0.113.8", dynamic));
  const auto added = begin(daemon, {{"command", "add"}, {"name", "bans"}, {"entries", {"198.18.0.1"}}});
  const auto rolled = begin(daemon, {{"command", "rollback"}, {"number", first}});
  const auto reloaded = begin(daemon, {{"command", "reload"}});
  REQUIRE(daemon.until([&] { return !reloaded->empty(); }));
  CHECK(Json::parse(*added).at("ok"));
  CHECK(Json::parse(*rolled).at("ok"));
  CHECK(Json::parse(*reloaded).at("generation").at("number") > Json::parse(*rolled).at("generation").at("number"));
  CHECK(is_dropped(daemon, "203.0.113.8"));
  CHECK(notice(daemon).empty());
}

TEST_CASE("what is changed after a rollback, or a rebuild, was asked for stays") {
  const Folder folder;
  folder.write("weir.yaml", policy_of("203.0.113.7", "  - {name: bans, action: drop, dynamic: true}\n"));
  Started daemon(options_for(folder, {}));
  REQUIRE(daemon.daemon);
  const auto change = [](const char* command, const char* entry) {
    return Json{{"command", command}, {"name", "bans"}, {"entries", {entry}}};
  };
  REQUIRE(daemon.ask(change("add", "198.18.0.1")).at("ok"));
  REQUIRE(daemon.ask(change("add", "198.18.0.2")).at("ok"));
  const uint64_t both = number_of(daemon);
  REQUIRE(daemon.ask(change("del", "198.18.0.1")).at("ok"));
  REQUIRE(daemon.ask(change("add", "198.18.0.3")).at("ok"));
  for (const Json& order : {Json{{"command", "rollback"}, {"number", both}}, Json{{"command", "rebuild"}}}) {
    const auto ordered = begin(daemon, order);
    const auto added = begin(daemon, change("add", "198.18.0.4"));
    const auto deleted = begin(daemon, change("del", "198.18.0.2"));
    REQUIRE(daemon.until([&] { return !ordered->empty() && !added->empty() && !deleted->empty(); }));
    for (const auto& answer : {ordered, added, deleted}) CHECK(Json::parse(*answer).at("ok"));
    CHECK(is_dropped(daemon, "198.18.0.1"));
    CHECK_FALSE(is_dropped(daemon, "198.18.0.2"));
    CHECK_FALSE(is_dropped(daemon, "198.18.0.3"));
    CHECK(is_dropped(daemon, "198.18.0.4"));
    REQUIRE(daemon.ask(change("del", "198.18.0.4")).at("ok"));
    REQUIRE(daemon.ask(change("add", "198.18.0.2")).at("ok"));
  }
}

TEST_CASE("a reload that comes while one is made that waits for a confirmation is refused as any other") {
  const Folder folder;
  folder.write("weir.yaml", policy_of("203.0.113.7"));
  Started daemon(options_for(folder, {}));
  REQUIRE(daemon.daemon);
  const auto waits = begin(daemon, {{"command", "reload"}, {"confirm", 60}});
  const auto other = begin(daemon, {{"command", "reload"}});
  REQUIRE(daemon.until([&] { return !other->empty() && !waits->empty(); }));
  CHECK(Json::parse(*waits).at("ok"));
  CHECK(Json::parse(*other).at("error").get<std::string>().find("controlctl confirm") != std::string::npos);
  CHECK(daemon.ask({{"command", "confirm"}}).at("ok"));
}

TEST_CASE("the way back from what nobody confirmed is tried until it succeeds") {
  const Folder folder;
  folder.write("weir.yaml", policy_of("203.0.113.7"));
  Started daemon(options_for(folder, {}));
  REQUIRE(daemon.daemon);
  folder.write("weir.yaml", policy_of("203.0.113.8"));
  REQUIRE(daemon.ask({{"command", "reload"}, {"confirm", 1}}).at("ok"));
  const std::string history = folder / "state/history";
  std::filesystem::rename(history, history + ".away");
  const uint64_t& failed =
      daemon->tally()
          .reloads[static_cast<size_t>(metrics::Cause::rollback)][static_cast<size_t>(metrics::Outcome::failed)];
  REQUIRE(daemon.until([&] { return failed >= 2; }));
  CHECK(is_dropped(daemon, "203.0.113.8"));
  CHECK(daemon.ask({{"command", "confirm"}}).at("error").get<std::string>().find("nobody confirmed generation") == 0);
  CHECK(daemon.reload()->error.find("nobody confirmed generation") == 0);
  std::filesystem::rename(history + ".away", history);
  REQUIRE(daemon.until([&] { return is_dropped(daemon, "203.0.113.7"); }));
}

TEST_CASE("a start goes back further when the content that it is to go back to is lost") {
  const Folder folder;
  folder.write("weir.yaml", policy_of("203.0.113.7"));
  {
    Started daemon(options_for(folder, {}));
    REQUIRE(daemon.daemon);
    folder.write("weir.yaml", policy_of("203.0.113.8"));
    REQUIRE(daemon.reload()->ok);
    const std::string lost = fmt::format("state/history/{}.book", number_of(daemon));
    folder.write("weir.yaml", policy_of("203.0.113.9"));
    REQUIRE(daemon.ask({{"command", "reload"}, {"confirm", 60}}).at("ok"));
    REQUIRE(std::filesystem::remove(folder / lost));
  }
  Started daemon(options_for(folder, {}));
  REQUIRE(daemon.daemon);
  CHECK(is_dropped(daemon, "203.0.113.7"));
  CHECK_FALSE(is_dropped(daemon, "203.0.113.9"));
  CHECK(notice(daemon).find("rolled back") == 0);
}

TEST_CASE("a rebuild after a start keeps what was rolled back before it") {
  const Folder folder;
  folder.write("weir.yaml", policy_of("203.0.113.7"));
  {
    Started daemon(options_for(folder, {}));
    REQUIRE(daemon.daemon);
    const uint64_t first = number_of(daemon);
    folder.write("weir.yaml", policy_of("203.0.113.8"));
    REQUIRE(daemon.reload()->ok);
    REQUIRE(daemon.ask({{"command", "rollback"}, {"number", first}}).at("ok"));
  }
  Started daemon(options_for(folder, {}));
  REQUIRE(daemon.daemon);
  REQUIRE(daemon.ask({{"command", "rebuild"}}).at("ok"));
  CHECK(is_dropped(daemon, "203.0.113.7"));
  CHECK(notice(daemon).find("rolled back") == 0);
}
