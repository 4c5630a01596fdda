// Feeds that change under controld: read by themselves, without the policy file, and published when they say something
// else than before.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "tests/unit/control/daemon/started.h"
#include "tests/unit/control/support/enforcer.h"

using namespace weir;
using namespace weir::control;

namespace {

void put(const Folder& folder, const std::string& name, const std::string& text) {
  std::filesystem::rename(folder.write(name + ".new", text), folder / name);
}

struct Rig {
  Rig() : one(folder / "one", {}) {
    folder.write("fed.txt", "192.0.2.1\n192.0.2.2\n192.0.2.3\n192.0.2.4\n");
    folder.write("weir.yaml", policy_text("203.0.113.7") + "  - {name: fed, action: drop, file: fed.txt}\n");
    Daemon::Options options = options_for(folder, {folder / "one"});
    options.watch_feeds = true;
    daemon.emplace(options);
    REQUIRE(daemon->daemon);
    REQUIRE(daemon->until([&] { return one.generation().number == 1; }));
  }
  uint64_t number() { return daemon->daemon->running()->publication->generation.number; }
  uint64_t entries() { return daemon->daemon->running()->lists.at(2).entries; }
  std::string last_cause() { return daemon->daemon->last_reload()->cause; }
  bool stays(uint64_t wanted) {
    return !eventually_for(300, [&] { return number() != wanted; });
  }
  template <class Test>
  bool eventually_for(int ms, Test test) {
    return daemon->loop.run_until(test, Clock::now() + std::chrono::milliseconds(ms));
  }

  const Folder folder;
  Enforcer one;
  std::optional<Started> daemon;
};

}  // namespace

TEST_CASE("a feed that is renamed into place is enforced without being asked for") {
  Rig rig;
  put(rig.folder, "fed.txt", "192.0.2.1\n192.0.2.2\n192.0.2.3\n192.0.2.4\n192.0.2.5\n");
  REQUIRE(rig.daemon->until([&] { return rig.one.generation().number == 2; }));
  CHECK(rig.entries() == 5);
  CHECK(rig.daemon->until([&] { return rig.last_cause() == (rig.folder / "fed.txt") + " changed"; }));
  CHECK(rig.daemon->reload()->cause == "asked for");
}

TEST_CASE("a policy file that changed is not taken with a feed") {
  Rig rig;
  rig.folder.write("weir.yaml", policy_text("198.51.100.9") + "  - {name: fed, action: drop, file: fed.txt}\n");
  put(rig.folder, "fed.txt", "192.0.2.1\n192.0.2.2\n192.0.2.3\n");
  REQUIRE(rig.daemon->until([&] { return rig.one.generation().number == 2; }));
  const auto verdict = [&](const char* key) {
    return rig.daemon->ask({{"command", "explain"}, {"key", key}}).at("as_source").at("action").get<std::string>();
  };
  CHECK(verdict("203.0.113.7") == "drop");
  CHECK(verdict("198.51.100.9") == "pass");
  // Nor one that is bad, and it does not keep feeds from being read.
  rig.folder.write("weir.yaml", "no: policy\n");
  put(rig.folder, "fed.txt", "192.0.2.1\n192.0.2.2\n192.0.2.9\n");
  REQUIRE(rig.daemon->until([&] { return rig.one.generation().number == 3; }));
  CHECK(verdict("203.0.113.7") == "drop");
  CHECK(verdict("192.0.2.9") == "drop");
  CHECK_FALSE(rig.daemon->reload()->ok);
}

TEST_CASE("a feed that holds the same entries publishes nothing, and where they are written is known") {
  Rig rig;
  put(rig.folder, "fed.txt", "# more\n\n192.0.2.4\n192.0.2.3\n192.0.2.2\n192.0.2.1\n");
  REQUIRE(rig.daemon->until([&] { return rig.daemon->daemon->last_reload()->cause != "asked for"; }));
  CHECK(rig.stays(1));
  const Json origins = rig.daemon->ask({{"command", "explain"}, {"key", "192.0.2.4"}}).at("origins");
  CHECK(origins.at(0).at("line") == 3);
}

TEST_CASE("a feed that goes wrong is refused by itself, and taken again when it is mended") {
  Rig rig;
  put(rig.folder, "fed.txt", "");
  const auto is_refused = [&] { return rig.daemon->daemon->running()->book->at(2).refusal.has_value(); };
  REQUIRE(rig.daemon->until(is_refused));
  CHECK(rig.entries() == 4);
  CHECK(rig.stays(1));
  put(rig.folder, "fed.txt", "192.0.2.1\n192.0.2.2\n192.0.2.3\n192.0.2.4\n");
  CHECK(rig.daemon->until([&] { return !is_refused(); }));
  std::filesystem::remove(rig.folder / "fed.txt");
  CHECK(rig.daemon->until(is_refused));
  CHECK(rig.entries() == 4);
}

TEST_CASE("a feed that is half written is not read, whatever else causes a reload") {
  Rig rig;
  {
    const Fd writer(open((rig.folder / "fed.txt").c_str(), O_WRONLY | O_TRUNC));
    REQUIRE(write(writer.get(), "192.0.2.1\n192.0.2.2\n192.0.2.3\n", 30) == 30);
    CHECK(rig.daemon->reload()->refused.empty());
    CHECK(rig.entries() == 4);
    CHECK(rig.stays(2));
    REQUIRE(write(writer.get(), "192.0.2.4\n192.0.2.5\n", 20) == 20);
  }
  CHECK(rig.daemon->until([&] { return rig.entries() == 5; }));
  CHECK(rig.number() == 3);
}

TEST_CASE("a feed that changes while its last change is read is read again") {
  Rig rig;
  for (int i = 5; i < 105; i++) {
    std::string text;
    for (int host = 1; host < i; host++) text += "192.0.2." + std::to_string(host) + "\n";
    put(rig.folder, "fed.txt", text);
    rig.eventually_for(i % 4, [] { return false; });
  }
  CHECK(rig.daemon->until([&] { return rig.entries() == 103; }));
  const uint64_t last = rig.number();
  CHECK(rig.stays(last));
  CHECK(last <= 101);
}
