// What a change would do to the traffic that targets tell of: asked for, and as a limit of reloads and feeds.

#include <filesystem>

#include "common/clock.h"
#include "control/policy/model/packet.h"
#include "tests/unit/control/daemon/started.h"
#include "tests/unit/control/support/enforcer.h"

using namespace weir;
using namespace weir::control;

namespace {

wire::SampledTraffic seen_from(Ipv4 source, uint32_t weight) {
  wire::SampledTraffic sampled;
  sampled.sample.time_unix_ns = unix_now_ns();
  sampled.sample.weight = weight;
  sampled.sample.frame_bytes = 60;
  sampled.sample.layers = 1;
  weir_packet packet = {};
  packet.family = 4;
  set_address(packet, WEIR_SIDE_SOURCE, source);
  set_address(packet, WEIR_SIDE_DESTINATION, Ipv4{0x09090909});
  memcpy(sampled.packets[0].data(), &packet, sizeof packet);
  return sampled;
}

// One packet in ten comes from 203.0.113.8, the others from 203.0.113.9.
Enforcer::Behaviour traffic_of_two() {
  Enforcer::Behaviour behaviour;
  for (int i = 0; i < 100; i++) behaviour.traffic.push_back(seen_from(0xcb007108, 1));
  for (int i = 0; i < 100; i++) behaviour.traffic.push_back(seen_from(0xcb007109, 9));
  return behaviour;
}

bool knows_traffic(Started& daemon) {
  return daemon.until([&] { return daemon->reservoir().size() >= 200; });
}

// Lists a and b, each with a feed of its own.
void write_two_feeds(const Folder& folder) {
  folder.write("a", "203.0.113.7\n");
  folder.write("b", "192.0.2.1\n");
  folder.write("weir.yaml",
               "version: 1\nplan: {max_newly_dropped: 5%}\nlists:\n  - {name: a, action: drop, file: a}\n"
               "  - {name: b, action: drop, file: b}\n");
}

// The new entry of a exceeds the limit, that of b does not.
void grow_two_feeds(const Folder& folder) {
  folder.write("a", "203.0.113.7\n203.0.113.9\n");
  folder.write("b", "192.0.2.1\n192.0.2.2\n");
}

std::string limited_policy(const std::string& entry, const std::string& more = "") {
  return "version: 1\n" + more + "lists:\n  - {name: l1, action: drop, entries: [" + entry + "]}\n";
}

}  // namespace

TEST_CASE("a plan tells what would be dropped, and changes nothing") {
  const Folder folder;
  folder.write("weir.yaml", limited_policy("203.0.113.7"));
  Enforcer enforcer(folder / "one", traffic_of_two());
  Started daemon(options_for(folder, {folder / "one"}));
  REQUIRE(daemon.daemon);
  const wire::Generation before = daemon->running()->publication->generation;
  Json plan =
      daemon.ask({{"command", "plan"}, {"policy", limited_policy("203.0.113.8")}, {"path", folder / "other.yaml"}});
  REQUIRE(knows_traffic(daemon));
  plan = daemon.ask({{"command", "plan"}, {"policy", limited_policy("203.0.113.8")}, {"path", folder / "other.yaml"}});
  CHECK(plan.at("ok"));
  const Json& radius = plan.at("radius");
  CHECK(radius.at("newly_dropped").at("value").get<double>() == Approx(0.1));
  CHECK(radius.at("newly_dropped").at("low").get<double>() < 0.1);
  CHECK(radius.at("newly_passed").at("value") == 0);
  CHECK(radius.at("credits").at(0).at("name") == "l1");
  CHECK(radius.at("talkers").at(0).at("address") == "203.0.113.8");
  CHECK(plan.at("lists").at(0).at("new").at(0).at("file") == folder / "other.yaml");
  CHECK(plan.at("lists").at(0).at("old").at(0).at("entry") == "203.0.113.7");
  CHECK(plan.at("before").at("entries") == 1);
  CHECK(plan.at("after").at("snapshot_bytes") > 0);
  CHECK(daemon->running()->publication->generation == before);
  CHECK(enforcer.publications() == 1);

  const Json bad = daemon.ask({{"command", "plan"}, {"policy", limited_policy("203.0.113.8/40")}, {"path", "/x.yaml"}});
  CHECK_FALSE(bad.at("ok"));
  CHECK(bad.at("diagnostics").at(0).at("line") == 3);
  const std::string refused =
      daemon.ask_line(Json{{"command", "plan"}, {"policy", limited_policy("203.0.113.8")}}.dump(), false)
          .value("error", "");
  CHECK(refused.find("user 1000 may look") == 0);  // files are read with the rights of controld
}

TEST_CASE("a plan reads another file instead of a feed") {
  const Folder folder;
  folder.write("feed", "203.0.113.7\n");
  folder.write("other", "203.0.113.7\n203.0.113.9\n");
  folder.write("weir.yaml",
               "version: 1\nlists:\n  - {name: l1, action: drop, file: feed}\n  - {name: l2, action: "
               "drop, entries: [192.0.2.1]}\n");
  Enforcer enforcer(folder / "one", traffic_of_two());
  Started daemon(options_for(folder, {folder / "one"}));
  REQUIRE(daemon.daemon);
  REQUIRE(knows_traffic(daemon));
  const auto plan = [&](const char* list) {
    return daemon.ask({{"command", "plan"}, {"name", list}, {"file", folder / "other"}});
  };
  const Json told = plan("l1");
  CHECK(told.at("radius").at("newly_dropped").at("value").get<double>() == Approx(0.9));
  CHECK(told.at("lists").at(0).at("new").at(0).at("line") == 2);
  CHECK(plan("l2").at("error") == "list 'l2' has no feed that a file could stand for");
  CHECK(plan("none").at("error") == "no list is called 'none'");
  CHECK(daemon.ask({{"command", "plan"}, {"name", "l1"}}).at("error").get<std::string>().find("plan needs") == 0);
}

TEST_CASE("a reload past a limit is refused, and taken by force") {
  const Folder folder;
  const std::string limit = "plan: {max_newly_dropped: 5%}\n";
  folder.write("weir.yaml", limited_policy("203.0.113.7", limit));
  Enforcer enforcer(folder / "one", traffic_of_two());
  Started daemon(options_for(folder, {folder / "one"}));
  REQUIRE(daemon.daemon);
  REQUIRE(knows_traffic(daemon));
  folder.write("weir.yaml", limited_policy("203.0.113.8", limit));
  const Json plan = daemon.ask({{"command", "plan"}, {"policy", limited_policy("203.0.113.8", limit)}, {"path", "/x"}});
  CHECK_FALSE(plan.at("ok"));
  CHECK(plan.at("over_limits").at(0).at("limit") == "max_newly_dropped");
  const Json refused = daemon.ask({{"command", "reload"}});
  CHECK_FALSE(refused.at("ok"));
  CHECK(refused.at("over_limits").at(0).at("allowed").get<double>() == Approx(0.05));
  CHECK(refused.at("error").get<std::string>().find("plan.max_newly_dropped is 5 %") != std::string::npos);
  CHECK(enforcer.publications() == 1);
  const Json forced = daemon.ask({{"command", "reload"}, {"force", true}});
  CHECK(forced.at("ok"));
  CHECK(forced.at("generation").at("number") == 2);

  folder.write("weir.yaml", limited_policy("203.0.113.7", "plan: {max_newly_passed: 5%}\n"));
  const Json passes = daemon.ask({{"command", "reload"}});
  CHECK(passes.at("over_limits").at(0).at("limit") == "max_newly_passed");
  folder.write("weir.yaml", limited_policy("203.0.113.7", "plan: {max_newly_passed: 50%}\n"));
  CHECK(daemon.ask({{"command", "reload"}}).at("ok"));
}

TEST_CASE("a feed past a limit is held back, and the others come through") {
  const Folder folder;
  write_two_feeds(folder);
  Enforcer enforcer(folder / "one", traffic_of_two());
  Daemon::Options options = options_for(folder, {folder / "one"});
  options.watch_feeds = true;
  Started daemon(options);
  REQUIRE(daemon.daemon);
  REQUIRE(knows_traffic(daemon));
  grow_two_feeds(folder);
  REQUIRE(daemon.until([&] { return (*daemon->running()->book)[1].entries() == 2; }));
  REQUIRE(daemon.until([&] { return (*daemon->running()->book)[0].refusal.has_value(); }));
  CHECK((*daemon->running()->book)[0].entries() == 1);
  CHECK((*daemon->running()->book)[0].refusal->reason.find("would newly be dropped") != std::string::npos);
  const Json feeds = daemon.ask({{"command", "feeds"}});
  CHECK(feeds.dump().find("controlctl feeds --accept a") != std::string::npos);
  const Json accepted = daemon.ask({{"command", "accept"}, {"name", "a"}});
  CHECK(accepted.at("ok"));
  CHECK((*daemon->running()->book)[0].entries() == 2);
  CHECK_FALSE((*daemon->running()->book)[0].refusal);
}

TEST_CASE("to accept a feed waives the limits for that feed alone") {
  const Folder folder;
  write_two_feeds(folder);
  Enforcer enforcer(folder / "one", traffic_of_two());
  Started daemon(options_for(folder, {folder / "one"}));
  REQUIRE(daemon.daemon);
  REQUIRE(knows_traffic(daemon));
  const auto lists = [&] { return daemon->running()->book; };
  folder.write("a", "203.0.113.7\n203.0.113.9\n");
  folder.write("b", "192.0.2.1\n203.0.113.8\n");  // one packet in ten, and the limit is one in twenty
  const Json accepted = daemon.ask({{"command", "accept"}, {"name", "a"}});
  CHECK(accepted.at("ok"));
  CHECK((*lists())[0].entries() == 2);
  CHECK((*lists())[1].entries() == 1);
  REQUIRE((*lists())[1].refusal);
  CHECK((*lists())[1].refusal->hint.find("--accept b") != std::string::npos);

  folder.write("weir.yaml",
               "version: 1\nplan: {max_newly_dropped: 5%}\nlists:\n  - {name: a, action: drop, file: a}\n"
               "  - {name: b, action: drop, file: b}\n  - {name: c, action: drop, entries: [203.0.113.8]}\n");
  for (const char* b : {"192.0.2.1\n203.0.113.8\n", "192.0.2.1\n"}) {  // over its limit, and not
    folder.write("b", b);
    folder.write("a", "203.0.113.9\n203.0.113.10\n");
    const Json refused = daemon.ask({{"command", "accept"}, {"name", "a"}});
    CHECK_FALSE(refused.at("ok"));
    CHECK(refused.at("over_limits").at(0).at("limit") == "max_newly_dropped");
    CHECK(lists()->size() == 2);
  }
  CHECK(daemon.ask({{"command", "reload"}, {"force", true}}).at("ok"));
  CHECK(lists()->size() == 3);
}

TEST_CASE("a rebuild makes a new base, also when a feed is held back") {
  const Folder folder;
  write_two_feeds(folder);
  Enforcer enforcer(folder / "one", traffic_of_two());
  Started daemon(options_for(folder, {folder / "one"}));
  REQUIRE(daemon.daemon);
  REQUIRE(knows_traffic(daemon));
  grow_two_feeds(folder);
  CHECK(daemon.ask({{"command", "rebuild"}}).at("ok"));
  CHECK((*daemon->running()->book)[0].refusal);
  CHECK((*daemon->running()->book)[1].entries() == 2);
  CHECK(daemon->running()->publication->base == nullptr);
}

TEST_CASE("each file of a list past a limit is held back, and watched by itself") {
  const Folder folder;
  std::filesystem::create_directory(folder / "feeds");
  folder.write("feeds/one.txt", "203.0.113.7\n");
  folder.write("feeds/two.txt", "192.0.2.1\n");
  folder.write("weir.yaml",
               "version: 1\nplan: {max_newly_dropped: 5%}\nlists:\n  - {name: a, action: drop, file: feeds/*.txt}\n");
  Enforcer enforcer(folder / "one", traffic_of_two());
  Daemon::Options options = options_for(folder, {folder / "one"});
  options.watch_feeds = true;
  Started daemon(options);
  REQUIRE(daemon.daemon);
  REQUIRE(knows_traffic(daemon));
  folder.write("feeds/one.txt", "203.0.113.7\n203.0.113.9\n");
  REQUIRE(daemon.until([&] { return (*daemon->running()->book)[0].refusal.has_value(); }));
  const auto running = daemon->running();
  const List& list = (*running->book)[0];
  CHECK(list.refusal->path == list.feed.path);
  REQUIRE(list.files.size() == 2);
  for (const FeedFile& file : list.files) {
    REQUIRE(file.refusal);
    CHECK(file.refusal->path == file.feed.path);
  }
  folder.write("feeds/one.txt", "203.0.113.7\n");
  CHECK(daemon.until([&] { return !(*daemon->running()->book)[0].refusal; }));
}

TEST_CASE("what is known of traffic is forgotten when the policy wants no samples") {
  const Folder folder;
  folder.write("weir.yaml", limited_policy("203.0.113.7"));
  Enforcer enforcer(folder / "one", traffic_of_two());
  Started daemon(options_for(folder, {folder / "one"}));
  REQUIRE(daemon.daemon);
  REQUIRE(knows_traffic(daemon));
  folder.write("weir.yaml", limited_policy("203.0.113.7", "plan: {samples: 0}\n"));
  REQUIRE(daemon.reload()->ok);
  CHECK(daemon->reservoir().size() == 0);
  const Json plan = daemon.ask({{"command", "plan"}, {"policy", limited_policy("203.0.113.8")}, {"path", "/x"}});
  CHECK(plan.at("ok"));
  CHECK(plan.at("why_no_radius") == "`plan.samples` of the policy is 0: no traffic is kept");
}
