// Changes, confirmations and rollbacks do not wait for servers, helpers or other callers.
#include "control/policy/read/parsers.h"
#include "tests/unit/control/daemon/started.h"
#include "tests/unit/silent_server.h"

namespace weir::control {
namespace {

struct Waiting {
  Waiting() {
    Result<std::unique_ptr<confine::Helpers>> started = start_parsers({&kFetchJob});
    REQUIRE(started);
    helpers = std::move(*started);
    write("");
    Daemon::Options options = options_for(folder, {});
    options.parsers = helpers.get();
    options.fetches = true;
    daemon = std::make_unique<Started>(options);
    INFO(daemon->error);
    REQUIRE(daemon->daemon);
  }
  std::string policy(const std::string& more) const {
    return policy_text("203.0.113.7") + "  - {name: bans, action: drop, dynamic: true}\n" + more + "targets: []\n";
  }
  std::string slow(const char* name) const {
    return std::string("  - {name: ") + name + ", action: drop, url: \"" + server.url + name + "\"}\n";
  }
  void write(const std::string& more) const { folder.write("weir.yaml", policy(more)); }
  // Its answer, once it is there.
  std::shared_ptr<std::string> begin(const Json& request) {
    auto line = std::make_shared<std::string>();
    answer(*daemon->daemon, request.dump(), {0, 1234, true}, [line](const std::string& told) {
      CHECK(line->empty());
      *line = told;
    });
    return line;
  }
  bool is_added(const char* entry) {
    return daemon->ask({{"command", "add"}, {"name", "bans"}, {"entries", {entry}}}).at("ok");
  }
  bool is_dropped(const char* key) {
    return daemon->ask({{"command", "explain"}, {"key", key}}).at("as_source").at("action") == "drop";
  }
  uint64_t number() { return (*daemon)->running()->publication->generation.number; }

  const Folder folder;
  SilentServer server;
  std::unique_ptr<confine::Helpers> helpers;
  std::unique_ptr<Started> daemon;
};

}  // namespace

TEST_CASE("entries are added while a reload waits for a server, and stay with what it publishes") {
  Waiting waiting;
  waiting.write(waiting.slow("new") + "  - {name: b, action: drop, entries: [192.0.2.1]}\n");
  const auto reloaded = waiting.begin({{"command", "reload"}});
  REQUIRE(waiting.daemon->until([&] { return waiting.server.is_asked(); }));
  CHECK(waiting.is_added("198.18.0.1"));
  CHECK(waiting.is_dropped("198.18.0.1"));
  CHECK(waiting.daemon->ask({{"command", "status"}}).contains("generation"));
  CHECK(reloaded->empty());
  waiting.server.end();
  REQUIRE(waiting.daemon->until([&] { return !reloaded->empty(); }));
  INFO(*reloaded);
  CHECK_FALSE(Json::parse(*reloaded).at("ok"));  // a list that never had anything is an error of the policy
  CHECK(waiting.is_dropped("198.18.0.1"));
}

TEST_CASE("nobody waits for a shadow that waits for a server") {
  Waiting waiting;
  const uint64_t first = waiting.number();
  waiting.write("  - {name: b, action: drop, entries: [192.0.2.1]}\n");
  REQUIRE(waiting.daemon->ask({{"command", "reload"}, {"confirm", 60}}).at("ok"));
  const auto shadow = waiting.begin({{"command", "shadow-begin"},
                                     {"path", waiting.folder / "next.yaml"},
                                     {"policy", waiting.policy(waiting.slow("new"))}});
  INFO(*shadow);
  REQUIRE(waiting.daemon->until([&] { return waiting.server.is_asked(); }));
  CHECK(waiting.is_added("198.18.0.1"));
  CHECK(waiting.daemon->ask({{"command", "confirm"}}).at("ok"));
  CHECK(waiting.daemon->reload()->ok);
  CHECK(waiting.daemon->ask({{"command", "rollback"}, {"number", first}}).at("ok"));
  CHECK_FALSE(waiting.is_dropped("192.0.2.1"));
  CHECK(shadow->empty());
  waiting.server.end();
  CHECK(waiting.daemon->until([&] { return !shadow->empty(); }));
}

TEST_CASE("a rollback does not wait for a policy that waits for a server") {
  Waiting waiting;
  const uint64_t first = waiting.number();
  waiting.write("  - {name: b, action: drop, entries: [192.0.2.1]}\n");
  REQUIRE(waiting.daemon->reload()->ok);
  waiting.write(waiting.slow("new"));
  const auto reloaded = waiting.begin({{"command", "reload"}});
  REQUIRE(waiting.daemon->until([&] { return waiting.server.is_asked(); }));
  const auto next = waiting.begin({{"command", "reload"}});
  CHECK(waiting.daemon->ask({{"command", "rollback"}, {"number", first}}).at("ok"));
  CHECK(waiting.number() == first + 2);
  for (const auto& told : {reloaded, next}) {
    REQUIRE(!told->empty());
    CHECK(Json::parse(*told).at("error").get<std::string>().find("a rollback to generation") == 0);
  }
}

TEST_CASE("what nobody confirmed goes back while a target is away") {
  Waiting waiting;
  waiting.folder.write("weir.yaml", policy_text("203.0.113.7") + "  - {name: bans, action: drop, dynamic: true}\n" +
                                        "targets:\n  - dataplane: " + (waiting.folder / "away") + "\n");
  const auto away = waiting.begin({{"command", "reload"}, {"confirm", 1}});
  const auto other = waiting.begin({{"command", "reload"}});  // is told why, and not of what goes back
  REQUIRE(waiting.daemon->until([&] { return !other->empty(); }));
  CHECK(Json::parse(*other).at("error").get<std::string>().find("controlctl confirm") != std::string::npos);
  CHECK(away->empty());
  REQUIRE(waiting.daemon->until([&] { return (*waiting.daemon)->running()->policy->targets.empty(); }));
  CHECK(away->empty());  // it still waits for the target that is away, which the way back does not name
}

TEST_CASE("whoever asked is told when controld stops") {
  Waiting waiting;
  waiting.write(waiting.slow("new"));
  std::vector<std::shared_ptr<std::string>> told = {waiting.begin({{"command", "reload"}})};
  REQUIRE(waiting.daemon->until([&] { return waiting.server.is_asked(); }));
  for (const Json& request : std::vector<Json>{
           {{"command", "reload"}},
           {{"command", "plan"}, {"name", "x"}, {"url", waiting.server.url + "other"}},
           {{"command", "shadow-begin"}, {"path", "next.yaml"}, {"policy", waiting.policy(waiting.slow("more"))}},
           {{"command", "add"}, {"name", "bans"}, {"entries", {"198.18.0.1"}}},
           {{"command", "history"}},
           {{"command", "explain"}, {"key", "198.18.0.1"}, {"number", 1}},
           {{"command", "entries"}, {"name", "bans"}},
           {{"command", "lists"}}}) {
    told.push_back(waiting.begin(request));
  }
  (*waiting.daemon)->stop();
  for (const auto& one : told) CHECK(!one->empty());
}

}  // namespace weir::control
