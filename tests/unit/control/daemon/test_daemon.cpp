// controld as a whole, in this process: policy file in, enforcers and API out.

#include <csignal>

#include "control/policy/read/parsers.h"
#include "tests/unit/control/daemon/started.h"
#include "tests/unit/control/support/enforcer.h"

using namespace weir;
using namespace weir::control;

TEST_CASE("who may only look is answered what changes nothing") {
  const Folder folder;
  folder.write("weir.yaml", policy_text("203.0.113.7"));
  Started daemon(options_for(folder, {}));
  REQUIRE(daemon.daemon);
  const auto ask = [&](const Json& request) { return daemon.ask_line(request.dump(), false); };
  const wire::Generation before = daemon.daemon->running()->publication->generation;
  for (const char* command : {"status", "stats", "telemetry", "list", "feeds", "shapes", "capture"}) {
    INFO(command);
    CHECK_FALSE(ask({{"command", command}}).contains("error"));
  }
  CHECK_FALSE(ask({{"command", "explain"}, {"key", "203.0.113.7"}}).contains("error"));
  for (const Json& request : {Json{{"command", "reload"}}, Json{{"command", "bypass"}, {"on", true}},
                              Json{{"command", "bypass"}, {"on", false}}, Json{{"command", "detach"}},
                              Json{{"command", "accept"}, {"name", "l1"}}}) {
    INFO(request.dump());
    const std::string error = ask(request).value("error", "");
    CHECK(error.find("user 1000 may look, and not change anything") == 0);
  }
  CHECK(daemon.daemon->running()->publication->generation == before);
  CHECK_FALSE(daemon.daemon->bypass_on());
}

TEST_CASE("start publishes, reload publishes the next one, a bad policy changes nothing") {
  const Folder folder;
  folder.write("weir.yaml", policy_text("203.0.113.7"));
  Enforcer one(folder / "one", {.packets = 5}), two(folder / "two", {.packets = 7});
  Started daemon(options_for(folder, {folder / "one", folder / "two"}));
  REQUIRE(daemon.daemon);
  const wire::Generation first = daemon->running()->publication->generation;
  CHECK(first.number == 1);
  REQUIRE(daemon.until([&] { return one.generation() == first && two.generation() == first; }));

  const auto second = daemon.reload();
  CHECK(second->ok);
  CHECK(second->generation == wire::Generation{first.epoch, 2});
  CHECK(second->entries == 2);
  CHECK(one.generation() == second->generation);
  std::vector<std::string> phases;
  for (const PhaseTime& phase : second->phases) phases.emplace_back(phase.name);
  CHECK(phases == std::vector<std::string>{"read", "merge", "index", "plan", "build", "prove", "seal", "store",
                                           "publish", "acknowledge"});

  folder.write("weir.yaml", policy_text("203.0.113.7/33"));
  const Json refused = daemon.ask({{"command", "reload"}});
  CHECK_FALSE(refused.at("ok"));
  CHECK(refused.at("diagnostics").at(0).at("line") == 3);
  CHECK(refused.at("generation").at("number") == 2);
  CHECK(one.publications() == 2);

  folder.write("weir.yaml", policy_text("203.0.113.8"));
  CHECK(second->changes.empty());
  const auto third = daemon.reload();
  CHECK(third->generation.number == 3);  // the failure used none
  REQUIRE(third->changes.size() == 1);
  CHECK(third->changes[0].name == "l1");
  CHECK((third->changes[0].added == 1 && third->changes[0].removed == 1));
  const Json explained = daemon.ask({{"command", "explain"}, {"key", "203.0.113.8"}});
  CHECK(explained.at("as_source").at("action") == "drop");
  CHECK(explained.at("origins").at(0).at("line") == 3);

  const Json packet = daemon.ask({{"command", "explain"}, {"key", "src 203.0.113.8 dst 192.0.2.9 proto udp"}});
  CHECK(packet.at("verdict").at("action") == "drop");
  CHECK(packet.at("origins").at(0).at("line") == 3);
  CHECK(packet.at("generation").at("number") == 3);

  const std::string blocked =
      "020000000001020000000002 0800 45000014 00000000 4011 0000 cb007108 c0000209";  // of 203.0.113.8
  const Json frame = daemon.ask({{"command", "explain"}, {"frame", blocked}});
  CHECK(frame.at("outcome") == "ip");
  CHECK(frame.at("verdict").at("action") == "drop");
  CHECK(frame.at("layer") == 1);
  CHECK(frame.at("layers").at(0).at("origins").at(0).at("line") == 3);
  CHECK(frame.at("generation").at("number") == 3);
  CHECK(daemon.ask({{"command", "explain"}, {"frame", "02"}}).at("outcome") == "malformed");
  CHECK(daemon.ask({{"command", "explain"}, {"frame", "0g"}}).contains("error"));
  CHECK(daemon.ask({{"command", "explain"}, {"frame", "02"}, {"key", "203.0.113.8"}}).contains("error"));

  const Json stats = daemon.ask({{"command", "stats"}});
  CHECK(stats.at("packets") == 12);
  CHECK(stats.at("lists").at("l1").at("matched") == 12);
  CHECK(stats.at("lists").at("l2").at("matched") == 0);
  CHECK(stats.at("targets").size() == 2);

  const Json bypassed = daemon.ask({{"command", "bypass"}, {"on", true}});
  CHECK(bypassed.at("ok"));
  CHECK((one.bypass() && two.bypass()));
  CHECK(daemon.ask({{"command", "status"}}).at("bypass"));
  CHECK(daemon.ask({{"command", "list"}, {"name", "nope"}}).contains("error"));
  CHECK(daemon.ask({{"command", "explain"}}).contains("error"));
  CHECK(daemon.ask({{"command", "dance"}}).at("error").get<std::string>().find("unknown command") == 0);
  CHECK(daemon.ask(Json::object()).contains("error"));
  for (const std::string& bad : {std::string(), std::string("{"), std::string("[1]"), std::string("\"text\""),
                                 std::string("nonsense"), std::string("{\"key\": \xff}"), std::string(60'000, '[')}) {
    INFO(bad);
    CHECK(daemon.ask_line(bad).at("error").get<std::string>().find("JSON object") != std::string::npos);
  }
  for (const char* bad : {"{\"key\": 5}", "{\"key\": {}}", "{\"command\": \"bypass\", \"on\": \"yes\"}"}) {
    INFO(bad);
    CHECK(daemon.ask_line(bad).at("error").get<std::string>().find("not understood") != std::string::npos);
  }
}

TEST_CASE("status and stats are answered while a reload waits for a target that hangs") {
  const Folder folder;
  folder.write("weir.yaml", policy_text("203.0.113.7"));
  Enforcer enforcer(folder / "dp", {.hangs = true});
  Started daemon(options_for(folder, {folder / "dp"}));
  REQUIRE(daemon.daemon);
  REQUIRE(daemon.until([&] { return enforcer.publications() == 1; }));
  const auto reload = daemon.begin_reload();
  REQUIRE(daemon.until([&] { return daemon->running()->publication->generation.number == 2; }));
  const Json status = daemon.ask({{"command", "status"}});
  CHECK(status.at("generation").at("number") == 2);
  CHECK_FALSE(status.at("targets").at(0).at("acknowledged"));
  const Json stats = daemon.ask({{"command", "stats"}});
  CHECK_FALSE(stats.at("targets").at(0).at("fresh"));
  CHECK(*reload == nullptr);
  enforcer.release();
  REQUIRE(daemon.until([&] { return *reload != nullptr; }));
  CHECK((*reload)->ok);
  CHECK(enforcer.generation().number == 2);
}

TEST_CASE(
    "a reload is acknowledged while the switch of a target is on its way to disk, and not while the disk is full") {
  const Folder folder;
  folder.write("weir.yaml", policy_text("203.0.113.7"));
  Enforcer::Behaviour behaviour;
  behaviour.switch_is_on_disk = false;
  Enforcer enforcer(folder / "enforcer.sock", behaviour);
  Started daemon(options_for(folder, {folder / "enforcer.sock"}));
  REQUIRE(daemon.daemon);

  const auto acknowledged = daemon.reload();
  CHECK(acknowledged->error == "");
  REQUIRE(acknowledged->targets.size() == 1);
  CHECK(acknowledged->targets[0].acknowledged);
  CHECK_FALSE(daemon.ask({{"command", "status"}})["targets"][0]["durable"].get<bool>());

  enforcer.set_disk_full(true);
  folder.write("weir.yaml", policy_text("203.0.113.8"));
  const auto refused = daemon.reload();
  CHECK_FALSE(refused->targets[0].acknowledged);
  CHECK(refused->targets[0].error == "enforced, not durable: no room");
}

TEST_CASE("reload names the target that is away") {
  const Folder folder;
  folder.write("weir.yaml", policy_text("203.0.113.7"));
  Enforcer enforcer(folder / "here");
  Daemon::Options options = options_for(folder, {folder / "here", folder / "away"});
  options.acknowledge_ms = 3000;
  Started daemon(options);
  REQUIRE(daemon.daemon);
  const auto report = daemon.reload();
  CHECK_FALSE(report->ok);
  REQUIRE(report->targets.size() == 2);
  CHECK(report->targets[0].acknowledged);
  CHECK_FALSE(report->targets[1].acknowledged);
  CHECK(report->targets[1].error.find("cannot connect") != std::string::npos);
}

TEST_CASE("reload says where the XDP plane is not attached, and goes on when it cannot be opened") {
  const Folder folder;
  folder.write("weir.yaml", policy_text("203.0.113.7"));
  Enforcer enforcer(folder / "dp");
  Daemon::Options options = options_for(folder, {folder / "dp"});
  options.acknowledge_ms = 3000;
  options.bpf_dir = folder / "no-bpf-file-system";
  options.targets.push_back(xdp_target({"no-such-if0"}, Attach::any));
  Started daemon(options);
  REQUIRE(daemon.daemon);
  const auto report = daemon.reload();
  REQUIRE(report->targets.size() == 2);
  CHECK(report->targets[0].acknowledged);
  CHECK(report->targets[1].socket == "xdp:no-such-if0");
  CHECK_FALSE(report->targets[1].acknowledged);
  CHECK_FALSE(report->targets[1].error.empty());
  const Json status = daemon.ask({{"command", "status"}});
  CHECK_FALSE(status.at("targets").at(0).contains("interfaces"));
  CHECK(status.at("targets").at(1).at("interfaces") == Json::array());
}

TEST_CASE("a feed that is refused leaves its list as it was, over restarts, until it is mended or accepted") {
  const Folder folder;
  Enforcer enforcer(folder / "dp");
  folder.write("weir.yaml", policy_text("203.0.113.7") + "  - {name: fed, action: drop, file: fed.txt}\n");
  const std::string good = "198.18.0.1\n198.18.0.2\n198.18.0.3\n";
  folder.write("fed.txt", good);
  const auto is_dropped = [](Started& daemon, const char* key) {
    return daemon.ask({{"command", "explain"}, {"key", key}}).at("as_source").at("action") == "drop";
  };
  const auto feed = [](Started& daemon) { return daemon.ask({{"command", "feeds"}}).at("feeds").at(0); };
  {
    Started daemon(options_for(folder, {folder / "dp"}));
    REQUIRE(daemon.daemon);
    CHECK(feed(daemon).at("state") == "good");
    folder.write("fed.txt", "<html>");
    const Json refused = daemon.ask({{"command", "reload"}});
    CHECK(refused.at("ok"));
    CHECK(refused.at("warnings") == 1);
    REQUIRE(refused.at("refused").size() == 1);
    CHECK(refused.at("refused").at(0).at("list") == "fed");
    CHECK(refused.at("refused").at(0).at("reason").get<std::string>().find("is an HTML page") != std::string::npos);
    CHECK(is_dropped(daemon, "198.18.0.2"));
    CHECK(daemon.ask({{"command", "status"}}).at("refused").size() == 1);
    CHECK(feed(daemon).at("state") == "refused");
    CHECK(feed(daemon).at("entries") == 3);
  }
  {
    Started daemon(options_for(folder, {folder / "dp"}));
    REQUIRE(daemon.daemon);
    CHECK_FALSE(daemon->running()->from_last_good);
    CHECK(is_dropped(daemon, "198.18.0.2"));
    CHECK(daemon.ask({{"command", "status"}}).at("refused").size() == 1);
    CHECK(daemon.ask({{"command", "accept"}, {"name", "l1"}}).at("error") == "list 'l1' has no feed");
    CHECK(daemon.ask({{"command", "accept"}}).at("error") == "no list is called ''");

    folder.write("fed.txt", good);
    CHECK(daemon.ask({{"command", "reload"}}).at("refused").empty());
    folder.write("fed.txt", "198.18.0.2\n");
    CHECK(daemon.ask({{"command", "reload"}}).at("refused").size() == 1);
    CHECK(is_dropped(daemon, "198.18.0.1"));
    const Json accepted = daemon.ask({{"command", "accept"}, {"name", "fed"}});
    CHECK(accepted.at("ok"));
    CHECK(accepted.at("refused").empty());
    CHECK_FALSE(is_dropped(daemon, "198.18.0.1"));
    CHECK(daemon.ask({{"command", "reload"}}).at("refused").empty());
    CHECK(feed(daemon).at("state") == "accepted");
  }
  Started daemon(options_for(folder, {folder / "dp"}));
  REQUIRE(daemon.daemon);
  CHECK_FALSE(is_dropped(daemon, "198.18.0.1"));
  CHECK(feed(daemon).at("state") == "accepted");
  std::filesystem::remove(folder / "fed.txt");
  CHECK(daemon.ask({{"command", "reload"}}).at("refused").size() == 1);
  CHECK(is_dropped(daemon, "198.18.0.2"));
}

TEST_CASE("a refused feed keeps its content when a crash came between the last good and its book") {
  const Folder folder;
  Enforcer enforcer(folder / "dp");
  const std::string policy = policy_text("203.0.113.7") + "  - {name: fed, action: drop, file: fed.txt}\n";
  const std::string book = folder / "state/book.weir";
  folder.write("weir.yaml", policy);
  folder.write("fed.txt", "198.18.0.1\n198.18.0.2\n");
  const auto is_dropped = [](Started& daemon, const char* key) {
    return daemon.ask({{"command", "explain"}, {"key", key}}).at("as_source").at("action") == "drop";
  };
  {
    Started daemon(options_for(folder, {folder / "dp"}));
    REQUIRE(daemon.daemon);
    std::filesystem::copy_file(book, folder / "older");
    folder.write("fed.txt", "198.18.0.1\n198.18.0.2\n198.18.0.3\n");
    REQUIRE(daemon.reload()->ok);
  }
  folder.write("fed.txt", "<html>");
  const bool is_policy_bad = GENERATE(false, true);
  std::filesystem::copy_file(folder / "older", book, std::filesystem::copy_options::overwrite_existing);
  if (is_policy_bad) folder.write("weir.yaml", "lists: [nonsense\n");
  Started daemon(options_for(folder, {folder / "dp"}));
  REQUIRE(daemon.daemon);
  CHECK(daemon->running()->from_last_good == is_policy_bad);
  folder.write("weir.yaml", policy);
  CHECK(daemon.reload()->diagnostics.ok());
  CHECK_FALSE(daemon->running()->from_last_good);
  CHECK(daemon.ask({{"command", "status"}}).at("refused").size() == 1);
  CHECK(is_dropped(daemon, "198.18.0.2"));
}

TEST_CASE("a warning about a feed's content stands, also when the feed is not read again, and over restarts") {
  const Folder folder;
  Enforcer enforcer(folder / "dp");
  folder.write("weir.yaml", policy_text("203.0.113.7") + "  - {name: fed, action: drop, file: fed.txt}\n");
  folder.write("fed.txt", "203.0.113.7/8\n");
  const auto is_said = [](Started& daemon) {
    const Json feed = daemon.ask({{"command", "feeds"}}).at("feeds").at(0);
    const Json status = daemon.ask({{"command", "status"}});
    return feed.at("state") == "warned" && feed.at("warnings").size() == 1 && status.at("warned").size() == 1 &&
           feed.at("warnings").at(0).at("reason").get<std::string>().starts_with("has host bits in 1 prefix") &&
           status.at("warned").at(0).at("list") == "fed";
  };
  {
    Started daemon(options_for(folder, {folder / "dp"}));
    REQUIRE(daemon.daemon);
    CHECK(is_said(daemon));
    CHECK(daemon.ask({{"command", "reload"}}).at("warnings") == 1);
    CHECK(is_said(daemon));
  }
  Started daemon(options_for(folder, {folder / "dp"}));
  REQUIRE(daemon.daemon);
  CHECK(is_said(daemon));
  folder.write("fed.txt", "203.0.0.0/8\n");
  CHECK(daemon.ask({{"command", "reload"}}).at("warnings") == 0);
  const Json feed = daemon.ask({{"command", "feeds"}}).at("feeds").at(0);
  CHECK(feed.at("state") == "good");
  CHECK(feed.at("warnings").empty());
}

#if !defined(__SANITIZE_THREAD__)  // it does not follow a process that is forked from one that was
TEST_CASE("without processes that parse a reload fails alone, and what is enforced stays") {
  const Folder folder;
  folder.write("weir.yaml", policy_text("203.0.113.7"));
  const auto parsers = start_parsers();
  REQUIRE(parsers);
  Enforcer one(folder / "one", {});
  Daemon::Options options = options_for(folder, {folder / "one"});
  options.parsers = parsers->get();
  Started daemon(options);
  INFO(daemon.error);
  REQUIRE(daemon.daemon);
  folder.write("weir.yaml", policy_text("203.0.113.8"));
  CHECK(daemon.reload()->ok);
  const wire::Generation before = daemon->running()->publication->generation;
  REQUIRE(daemon.until([&] { return one.generation() == before; }));

  REQUIRE(kill((*parsers)->pid(), SIGKILL) == 0);
  folder.write("weir.yaml", policy_text("203.0.113.9"));
  for (int i = 0; i < 2; i++) {
    const Json refused = daemon.ask({{"command", "reload"}});
    CHECK_FALSE(refused.at("ok"));
    const std::string message = refused.at("diagnostics").at(0).at("message");
    CHECK(message.find("cannot read this YAML: the process that ") == 0);
    CHECK(refused.at("generation").at("number") == before.number);
  }
  CHECK(one.generation() == before);
  CHECK(daemon.ask({{"command", "explain"}, {"key", "203.0.113.8"}}).at("as_source").at("action") == "drop");
  CHECK(daemon.ask({{"command", "bypass"}, {"on", true}}).at("ok"));
}
#endif

TEST_CASE("reloads that come while one runs share the next one") {
  const Folder folder;
  folder.write("weir.yaml", policy_text("203.0.113.7"));
  Enforcer enforcer(folder / "dp", {.hangs = true});
  Started daemon(options_for(folder, {folder / "dp"}));
  REQUIRE(daemon.daemon);
  const auto running = daemon.begin_reload();
  REQUIRE(daemon.until([&] { return daemon->running()->publication->generation.number == 2; }));
  const auto next = daemon.begin_reload(), same = daemon.begin_reload();
  enforcer.release();
  REQUIRE(daemon.until([&] { return *next != nullptr && *same != nullptr; }));
  CHECK((*running)->generation.number == 2);
  CHECK((*next)->generation.number == 3);
  CHECK(*next == *same);
  CHECK(daemon->last_reload() == *next);
  CHECK(daemon.reload()->generation.number == 4);
}

TEST_CASE("a stop answers whoever waits, at once") {
  const Folder folder;
  folder.write("weir.yaml", policy_text("203.0.113.7"));
  Enforcer enforcer(folder / "dp", {.hangs = true});
  Started daemon(options_for(folder, {folder / "dp"}));
  REQUIRE(daemon.daemon);
  const auto running = daemon.begin_reload(), next = daemon.begin_reload();
  REQUIRE(daemon.until([&] { return daemon->running()->publication->generation.number == 2; }));
  daemon->stop();
  REQUIRE(*running != nullptr);
  REQUIRE(*next != nullptr);
  CHECK((*running)->error == "controld stops");
  CHECK_FALSE((*next)->ok);
  // Who comes later is told so; the panic switch takes its orders.
  for (const char* command : {"reload", "status", "explain", "history", "add", "rebuild", "lists", "drops"}) {
    INFO(command);
    CHECK(daemon.ask({{"command", command}}).at("error") == "controld stops");
  }
  CHECK(daemon.ask({{"command", "bypass"}, {"on", true}}).value("error", "").find("controld stops") ==
        std::string::npos);
}
