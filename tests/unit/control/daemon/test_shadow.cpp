// A candidate beside what runs: begun, told of, promoted, ended; and what stays as it is meanwhile.

#include "tests/unit/control/daemon/started.h"
#include "tests/unit/control/support/enforcer.h"

using namespace weir;
using namespace weir::control;

namespace {

const char* const kDynamicBans = "  - {name: bans, action: drop, dynamic: true}\n";

std::string shadow_policy(const std::string& entry, const std::string& more = "") {
  return policy_text(entry) + kDynamicBans + more;
}

bool drops_source(Started& daemon, const std::string& key) {
  return daemon.ask({{"command", "explain"}, {"key", key}}).at("as_source").at("action") == "drop";
}

Json begin_shadow(Started& daemon, const Folder& folder, const std::string& text, const char* file = "next.yaml") {
  return daemon.ask({{"command", "shadow-begin"}, {"path", folder / file}, {"policy", text}, {"one_in", 3}});
}

Json ask_shadow(Started& daemon) {
  return daemon.ask({{"command", "shadow"}});
}

Json promote_shadow(Started& daemon) {
  return daemon.ask({{"command", "shadow-promote"}});
}

uint64_t generation_number(const Json& generation) {
  return generation.at("number");
}

std::string running_base_digest(Started& daemon) {
  const Publication& running = *daemon->running()->publication;
  return digest_text((running.base != nullptr ? *running.base : running).digest);
}

}  // namespace

TEST_CASE("a shadow is told of, changes nothing, and is promoted with what was added since") {
  const Folder folder;
  Enforcer enforcer(folder / "target");
  folder.write("weir.yaml", shadow_policy("203.0.113.7"));
  uint64_t promoted_number = 0;
  {
    Started daemon(options_for(folder, {folder / "target"}));
    REQUIRE(daemon.daemon);
    REQUIRE(daemon.until([&] { return daemon->is_settled(); }));
    const uint64_t first = daemon->running()->publication->generation.number;
    CHECK_FALSE(ask_shadow(daemon).at("on"));
    REQUIRE(daemon.ask({{"command", "add"}, {"name", "bans"}, {"entries", {"198.51.100.1"}}}).at("ok"));

    const Json begun = begin_shadow(daemon, folder, shadow_policy("203.0.113.8"));
    INFO(begun.dump());
    CHECK(begun.at("ok"));
    CHECK(begun.at("on"));
    CHECK(begun.at("one_in") == 3);
    CHECK(begun.at("file") == folder / "next.yaml");
    CHECK(generation_number(begun.at("candidate")) > generation_number(begun.at("beside")));
    CHECK(enforcer.shadow().number == generation_number(begun.at("candidate")));
    CHECK(drops_source(daemon, "203.0.113.7"));
    CHECK_FALSE(drops_source(daemon, "203.0.113.8"));
    REQUIRE(daemon.ask({{"command", "add"}, {"name", "bans"}, {"entries", {"198.51.100.2"}}}).at("ok"));

    const Json told = ask_shadow(daemon);
    CHECK(told.at("packets") == 100);
    CHECK(told.at("newly_dropped") == 7);
    CHECK(told.at("lists").at(0).at("list") == "l1");
    CHECK(told.at("targets").at(0).at("cycles") == 50);
    CHECK(told.at("targets").at(0).at("acknowledged"));
    CHECK(told.at("flows").at(0).at("candidate") == "drop by list l1");
    CHECK(told.at("flows").at(0).at("running") == "pass by default");
    CHECK(enforcer.shadows() == 1);

    const Json promoted = promote_shadow(daemon);
    INFO(promoted.dump());
    REQUIRE(promoted.at("ok"));
    CHECK(promoted.at("judged_digest") == begun.at("digest"));
    CHECK(promoted.at("enforced_digest") == begun.at("digest"));
    CHECK(promoted.contains("overlay_digest"));
    CHECK(promoted.at("notice").get<std::string>().find("weir.yaml") != std::string::npos);
    CHECK(promoted.at("cause").get<std::string>().find("next.yaml promoted") != std::string::npos);
    CHECK(running_base_digest(daemon) == begun.at("digest").get<std::string>());
    CHECK(enforcer.generation().number == generation_number(promoted.at("generation")));
    CHECK_FALSE(drops_source(daemon, "203.0.113.7"));
    for (const char* key : {"203.0.113.8", "198.51.100.1", "198.51.100.2"}) CHECK(drops_source(daemon, key));
    CHECK(daemon.until([&] { return enforcer.shadow() == wire::Generation(); }));
    const Json after = ask_shadow(daemon);
    CHECK_FALSE(after.at("on"));
    CHECK(after.at("ended").get<std::string>().find("promoted") == 0);
    CHECK(daemon.ask({{"command", "history"}}).at("generations").at(0).at("cause") == promoted.at("cause"));

    // It is a generation like any other: changes stand on it, and a rollback leads back.
    REQUIRE(daemon.ask({{"command", "del"}, {"name", "bans"}, {"entries", {"198.51.100.2"}}}).at("ok"));
    CHECK_FALSE(drops_source(daemon, "198.51.100.2"));
    REQUIRE(daemon.ask({{"command", "rollback"}, {"number", first}}).at("ok"));
    CHECK(drops_source(daemon, "203.0.113.7"));
    REQUIRE(daemon.ask({{"command", "rollback"}, {"number", generation_number(promoted.at("generation"))}}).at("ok"));
    CHECK(drops_source(daemon, "203.0.113.8"));
    CHECK_FALSE(drops_source(daemon, "203.0.113.7"));
    promoted_number = daemon->running()->publication->generation.number;
  }
  Started again(options_for(folder, {folder / "target"}));  // the last good holds until the policy file is read again
  REQUIRE(again.daemon);
  CHECK(again->running()->publication->generation.number > promoted_number);
}

TEST_CASE("without anything published since, the candidate is published under its own number") {
  const Folder folder;
  Enforcer enforcer(folder / "target");
  folder.write("weir.yaml", shadow_policy("203.0.113.7"));
  Started daemon(options_for(folder, {folder / "target"}));
  REQUIRE(daemon.daemon);
  REQUIRE(daemon.until([&] { return daemon->is_settled(); }));
  folder.write("next.yaml", shadow_policy("203.0.113.8"));
  const Json begun = begin_shadow(daemon, folder, shadow_policy("203.0.113.8"));
  REQUIRE(begun.at("ok"));
  const Json promoted = promote_shadow(daemon);
  INFO(promoted.dump());
  REQUIRE(promoted.at("ok"));
  CHECK(promoted.at("generation") == begun.at("candidate"));
  CHECK_FALSE(promoted.contains("overlay_digest"));
  CHECK(running_base_digest(daemon) == begun.at("digest").get<std::string>());
  CHECK(drops_source(daemon, "203.0.113.8"));
  // What follows has another number.
  REQUIRE(daemon.reload()->ok);
  CHECK(daemon->running()->publication->generation.number > generation_number(promoted.at("generation")));
  CHECK(drops_source(daemon, "203.0.113.7"));  // the policy file was read
}

TEST_CASE("a reload goes on beside a shadow, and a promotion takes feeds as they are then") {
  const Folder folder;
  folder.write("feed.txt", "198.18.0.1\n");
  const std::string fed = "  - {name: fed, action: drop, file: feed.txt}\n";
  folder.write("weir.yaml", shadow_policy("203.0.113.7", fed) + "targets: []\n");
  Started daemon(options_for(folder, {}));
  REQUIRE(daemon.daemon);
  const Json begun = begin_shadow(daemon, folder, shadow_policy("203.0.113.8", fed) + "targets: []\n");
  REQUIRE(begun.at("on"));
  folder.write("feed.txt", "198.18.0.1\n198.18.0.2\n");
  REQUIRE(daemon.reload()->ok);
  CHECK(ask_shadow(daemon).at("on"));
  const Json promoted = promote_shadow(daemon);
  REQUIRE(promoted.at("ok"));
  CHECK(promoted.at("enforced_digest") == begun.at("digest"));
  CHECK(drops_source(daemon, "198.18.0.2"));
  CHECK(drops_source(daemon, "203.0.113.8"));
}

TEST_CASE("a candidate that is wrong is told so, and what judged before goes on") {
  const Folder folder;
  Enforcer enforcer(folder / "target");
  folder.write("weir.yaml", shadow_policy("203.0.113.7"));
  Started daemon(options_for(folder, {folder / "target"}));
  REQUIRE(daemon.daemon);
  CHECK(promote_shadow(daemon).at("error").get<std::string>().find("no shadow") != std::string::npos);
  CHECK(daemon.ask({{"command", "shadow-discard"}}).contains("error"));
  REQUIRE(begin_shadow(daemon, folder, shadow_policy("203.0.113.8")).at("ok"));
  const Json wrong = begin_shadow(daemon, folder, shadow_policy("no address"));
  CHECK_FALSE(wrong.at("ok"));
  CHECK(wrong.at("errors") == 1);
  CHECK(wrong.at("diagnostics").at(0).at("file") == folder / "next.yaml");
  CHECK(ask_shadow(daemon).at("on"));
  CHECK(enforcer.shadows() == 1);
  CHECK(daemon.ask({{"command", "shadow-begin"}, {"path", "x"}}).contains("error"));
  CHECK(daemon.ask({{"command", "shadow-begin"}, {"path", "x"}, {"policy", ""}, {"one_in", 0}}).contains("error"));
  const std::string refused = daemon.ask_line(R"({"command": "shadow-promote"})", false).at("error");
  CHECK(refused.find("may look") != std::string::npos);
  CHECK(daemon.ask_line(R"({"command": "shadow"})", false).at("on"));

  const Json discarded = daemon.ask({{"command", "shadow-discard"}});
  CHECK_FALSE(discarded.at("on"));
  CHECK(discarded.at("ended") == "discarded");
  CHECK(discarded.at("packets") == 100);  // its last counts
  CHECK(enforcer.shadow() == wire::Generation());
  CHECK(drops_source(daemon, "203.0.113.7"));
}

TEST_CASE("a target that starts anew is given the candidate again, one that refuses or ends it is not") {
  const Folder folder;
  folder.write("weir.yaml", shadow_policy("203.0.113.7"));
  auto enforcer = std::make_unique<Enforcer>(folder / "target");
  Started daemon(options_for(folder, {folder / "target"}));
  REQUIRE(daemon.daemon);
  REQUIRE(begin_shadow(daemon, folder, shadow_policy("203.0.113.8")).at("ok"));
  enforcer = nullptr;
  enforcer = std::make_unique<Enforcer>(folder / "target");
  CHECK(daemon.until([&] { return enforcer->shadow() != wire::Generation(); }));

  enforcer->end_shadow("no room for it");
  const auto is_told = [&] { return ask_shadow(daemon).at("targets").at(0).value("error", "") == "no room for it"; };
  CHECK(daemon.until(is_told));
  CHECK_FALSE(ask_shadow(daemon).at("ok"));
  CHECK(enforcer->shadows() == 1);

  Enforcer::Behaviour behaviour;
  behaviour.refuses_shadows = true;
  enforcer = nullptr;
  enforcer = std::make_unique<Enforcer>(folder / "target", behaviour);
  CHECK(daemon.until(
      [&] { return ask_shadow(daemon).at("targets").at(0).value("error", "") == "refused in step check: no room"; }));
  CHECK(ask_shadow(daemon).at("error") == "1 of 1 targets do not");
}

TEST_CASE("a target that judges by a candidate of before is told to end it") {
  const Folder folder;
  Enforcer enforcer(folder / "target");
  folder.write("weir.yaml", shadow_policy("203.0.113.7"));
  {
    Started daemon(options_for(folder, {folder / "target"}));
    REQUIRE(daemon.daemon);
    REQUIRE(begin_shadow(daemon, folder, shadow_policy("203.0.113.8")).at("ok"));
  }
  CHECK(enforcer.shadow() != wire::Generation());
  Started again(options_for(folder, {folder / "target"}));
  REQUIRE(again.daemon);
  CHECK(again.until([&] { return enforcer.shadow() == wire::Generation(); }));
  CHECK_FALSE(ask_shadow(again).at("on"));
}

TEST_CASE("a stop answers the caller of a candidate that is being read") {
  const Folder folder;
  folder.write("weir.yaml", shadow_policy("203.0.113.7") + "targets: []\n");
  Started daemon(options_for(folder, {}));
  REQUIRE(daemon.daemon);
  std::string error;
  int answers = 0;
  daemon->shadow().begin({folder / "next.yaml", shadow_policy("203.0.113.8")},
                         [&](const std::shared_ptr<const Shadow::Report>& report) {
                           error = report->error;
                           answers++;
                         });
  daemon->stop();
  CHECK(error == "controld stops");
  CHECK(daemon.until([&] { return daemon->is_idle() && !daemon->is_busy(); }));
  CHECK(answers == 1);
}
