// The last good policy at a start: who gets it, when, and from where.
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/unit/control/daemon/started.h"
#include "tests/unit/control/support/enforcer.h"
#include "tests/unit/eventually.h"

using namespace weir;
using namespace weir::control;

namespace {
std::atomic<bool> no_compiling = false;
const std::thread::id main_thread = std::this_thread::get_id();
}  // namespace

// Instead of the C library's: a snapshot is compiled into such memory, on a thread of its own.
int memfd_create(const char* name, unsigned flags) noexcept {
  while (no_compiling && std::this_thread::get_id() != main_thread) {
    a_moment();
  }
  return static_cast<int>(syscall(SYS_memfd_create, name, flags));
}

TEST_CASE("a start on a bad policy publishes the last good, and fails without one") {
  const Folder folder;
  const auto start = [&] {
    Daemon::Options options = options_for(folder, {folder / "dp"});
    options.acknowledge_ms = 100;
    return options;
  };
  folder.write("weir.yaml", "lists: [nonsense\n");
  CHECK(Started(start()).error.find("no last good") != std::string::npos);

  folder.write("weir.yaml", policy_text("203.0.113.7"));
  wire::Generation good;
  {
    Started daemon(start());
    REQUIRE(daemon.daemon);
    const Json bypassed = daemon.ask({{"command", "bypass"}, {"on", true}});
    CHECK_FALSE(bypassed.at("ok"));  // nobody is there to confirm; it is remembered
    REQUIRE(bypassed.at("targets").size() == 1);
    const auto error = bypassed.at("targets").at(0).at("error").get<std::string>();
    CHECK(error.find("not reached, and told when it comes back: cannot connect") == 0);
    good = daemon->running()->publication->generation;
  }
  folder.write("weir.yaml", policy_text("203.0.113.7/33"));
  Enforcer enforcer(folder / "dp");
  Started daemon(start());
  REQUIRE(daemon.daemon);
  CHECK(daemon->running()->from_last_good);
  REQUIRE(daemon.until([&] { return enforcer.generation() == good; }));
  CHECK(daemon.until([&] { return enforcer.bypass(); }));
  const Json status = daemon.ask({{"command", "status"}});
  CHECK(status.at("from_last_good"));
  CHECK_FALSE(status.at("last_reload").at("ok"));
  CHECK(status.at("last_reload").at("errors") == 1);
  const Json shapes = daemon.ask({{"command", "shapes"}});
  CHECK(shapes.at("shapes").size() > 0);
  const Json list = daemon.ask({{"command", "list"}, {"name", "l1"}});
  CHECK(list.at("lists").at(0).at("entries") == 1);
}

TEST_CASE("a journal that can be read only after the lists were made is not changed before a reload") {
  const Folder folder;
  folder.write("weir.yaml", "version: 1\nlists: [{name: bans, action: drop, dynamic: true}]\n");
  REQUIRE(std::filesystem::create_directory(folder / "state"));
  REQUIRE(chmod((folder / "state").c_str(), 0700) == 0);
  REQUIRE(symlink("nowhere", (folder / "state/journal.db").c_str()) == 0);  // which is not followed
  Daemon::Options options = options_for(folder, {folder / "dp"});
  options.acknowledge_ms = 100;
  Started daemon(options);
  REQUIRE(daemon.daemon);
  REQUIRE(daemon.until([&] { return daemon->running() != nullptr && daemon->running()->policy != nullptr; }));
  const auto error_of_add = [&] {
    return daemon.ask({{"command", "add"}, {"entries", {"10.0.0.1"}}}).at("error").get<std::string>();
  };
  CHECK(error_of_add().find("cannot open") == 0);
  CHECK(std::filesystem::is_symlink(folder / "state/journal.db"));
  std::filesystem::remove(folder / "state/journal.db");
  CHECK(error_of_add().find("could not be read when the lists were made") != std::string::npos);
  (void)daemon.reload();
  CHECK(error_of_add().find("did not acknowledge") != std::string::npos);  // it is made: nobody is there
}

TEST_CASE("a start publishes the last good before it has compiled the policy, to those that had it") {
  const Folder folder;
  const auto start = [&] { return options_for(folder, {folder / "dp"}); };
  folder.write("weir.yaml", policy_text("203.0.113.7"));
  wire::Generation good;
  {
    Started daemon(start());
    REQUIRE(daemon.daemon);
    good = daemon->running()->publication->generation;
  }
  folder.write("weir.yaml", policy_text("203.0.113.8"));
  Enforcer enforcer(folder / "dp");
  wire::Generation first;
  no_compiling = true;
  std::thread watcher([&] {
    eventually([&] { return (first = enforcer.generation()).number != 0; });
    no_compiling = false;
  });
  Started daemon(start());
  watcher.join();
  REQUIRE(daemon.daemon);
  CHECK(first == good);
  CHECK_FALSE(daemon->running()->from_last_good);
  const wire::Generation now = daemon->running()->publication->generation;
  CHECK(now == wire::Generation{good.epoch, good.number + 1});
  CHECK(daemon.until([&] { return enforcer.generation() == now; }));
}

TEST_CASE("a start on a policy that cannot be read gives the last good to those who had it, from where it was") {
  const Folder folder;
  const auto start = [&](const std::string& config) {
    Daemon::Options options = options_for(folder, {});
    options.config = folder / config;
    options.state_dir.reset();
    options.default_state_dir = folder / "usual";
    return options;
  };
  const std::string places = "state_dir: " + (folder / "mine") + "\ntargets: [{dataplane: " + (folder / "dp") + "}]\n";
  folder.write("weir.yaml", places + policy_text("203.0.113.7"));
  wire::Generation good;
  {
    Started daemon(start("weir.yaml"));
    REQUIRE(daemon.daemon);
    good = daemon->running()->publication->generation;
  }
  Enforcer enforcer(folder / "dp");
  for (const std::string& bad : {std::string("lists: [nonsense\n"), std::string(),
                                 "state_dir: " + (folder / "mine") + "\ntargets: [{dataplane: " + (folder / "other") +
                                     "}]\n" + policy_text("203.0.113.7/33")}) {
    INFO(bad);
    folder.write("weir.yaml", bad);
    Started daemon(start("weir.yaml"));
    REQUIRE(daemon.daemon);
    CHECK(daemon->state_dir() == folder / "mine");
    REQUIRE(daemon->targets().size() == 1);
    CHECK(daemon->targets()[0]->name() == folder / "dp");
    CHECK(daemon.until([&] { return enforcer.generation() == good; }));
  }
  // Another policy, of which nothing is known: the last good of its folder is not its own.
  folder.write("other.yaml", "state_dir: " + (folder / "mine") + "\nlists: nonsense\n");
  CHECK(Started(start("other.yaml")).error.find("is that of " + (folder / "weir.yaml")) != std::string::npos);
  folder.write("other.yaml", "lists: [nonsense\n");
  CHECK(Started(start("other.yaml")).error.find("name the targets with --target") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder / "usual/snapshot.weir"));
}

TEST_CASE("a stop right after an entry was added keeps it for a start on a bad policy") {
  const Folder folder;
  const std::string dynamic = "  - {name: bans, action: drop, dynamic: true}\n";
  folder.write("weir.yaml", policy_text("203.0.113.7") + dynamic);
  Enforcer enforcer(folder / "dp");
  wire::Generation last;
  {
    Started daemon(options_for(folder, {folder / "dp"}));
    REQUIRE(daemon.daemon);
    REQUIRE(daemon.ask({{"command", "add"}, {"name", "bans"}, {"entries", {"198.18.0.1"}}}).at("ok"));
    last = daemon->running()->publication->generation;
    daemon->stop();
    REQUIRE(daemon.until([&] { return daemon->is_idle(); }));
  }
  folder.write("weir.yaml", policy_text("203.0.113.7/33"));
  Started daemon(options_for(folder, {folder / "dp"}));
  REQUIRE(daemon.daemon);
  CHECK(daemon->running()->from_last_good);
  CHECK(daemon->running()->publication->generation == last);
  CHECK(daemon.ask({{"command", "explain"}, {"key", "198.18.0.1"}}).at("as_source").at("action") == "drop");
}
