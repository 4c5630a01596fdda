#include "common/paths.h"
#include "dataplane/start/config.h"
#include "dataplane/start/config_keys.h"
#include "tests/catch.h"
#include "tests/unit/defaults.h"

using namespace weir;
using namespace weir::dataplane;

namespace {

Config good(const std::string& text) {
  Diagnostics diagnostics;
  Config config = parse_config("dataplane.yaml", text, diagnostics);
  INFO(format(diagnostics));
  REQUIRE(diagnostics.ok());
  return config;
}

}  // namespace

TEST_CASE("an empty file is every default") {
  for (const char* text : {"", "# nothing\n", "socket:\n"}) {
    const Config config = good(text);
    CHECK(config.socket_path == default_dataplane_socket());
    CHECK(config.state_dir == default_state_dir() + "/dataplane");
    CHECK(config.snapshot_memory == uint64_t{1} << 30);
    CHECK(config.pass_without_snapshot);
    CHECK(config.forward == Forward::pair);
    CHECK_FALSE(config.ports);
    CHECK_FALSE(config.drop_port);
    CHECK_FALSE(config.mbufs);
    CHECK(config.data_room == kDefaultDataRoom);
    CHECK(config.privileges.keep == 0);
    CHECK(config.privileges.seccomp == Seccomp::refuse);
    CHECK(config.idle.mode == IdleMode::pause);
    CHECK(config.sample_one_in == kDefaultSampleOneIn);
  }
}

TEST_CASE("the manual by example loads, and says the defaults") {
  Diagnostics diagnostics;
  const Config config = read_config("configs/dataplane.yaml", diagnostics);
  INFO(format(diagnostics));
  REQUIRE(diagnostics.ok());
  CHECK(diagnostics.warnings() == 0);
  const Config defaults = dataplane::default_config();
  CHECK(config.snapshot_memory == defaults.snapshot_memory);
  CHECK(config.pass_without_snapshot == defaults.pass_without_snapshot);
  CHECK(config.forward == defaults.forward);
  CHECK_FALSE(config.ports);
  CHECK_FALSE(config.mbufs);
  CHECK(config.data_room == defaults.data_room);
  CHECK(config.idle.mode == defaults.idle.mode);
  CHECK(config.idle.pause_us == defaults.idle.pause_us);
  CHECK(config.idle.sleep_us == defaults.idle.sleep_us);
  CHECK(config.sample_one_in == defaults.sample_one_in);
}

TEST_CASE("the defaults of dataplane.yaml's rows are those of the program") {
  // Without what depends on who runs it.
  const std::string written = tests::defaults_of(kConfigSection, {"path", "state_dir", "user"});
  INFO(written);
  const Config config = good(written), defaults = dataplane::default_config();
  CHECK(config.allow_uid == defaults.allow_uid);
  CHECK(config.snapshot_memory == defaults.snapshot_memory);
  CHECK(config.pass_without_snapshot == defaults.pass_without_snapshot);
  CHECK(config.forward == defaults.forward);
  CHECK(config.mbufs == defaults.mbufs);
  CHECK(config.data_room == defaults.data_room);
  CHECK(config.privileges.keep == defaults.privileges.keep);
  CHECK(config.privileges.seccomp == defaults.privileges.seccomp);
  CHECK(config.idle.mode == defaults.idle.mode);
  CHECK(config.idle.pause_us == defaults.idle.pause_us);
  CHECK(config.idle.sleep_us == defaults.idle.sleep_us);
  CHECK(config.sample_one_in == defaults.sample_one_in);
  const std::string port = tests::defaults_of(tests::section_at(kConfigSection, "ports"));
  const Config with_port = good("forward: sink\nports: [{port: 0, " + port.substr(1) + "]");
  CHECK(with_port.ports->at(0).queues == PortConfig().queues);
  CHECK(with_port.ports->at(0).promiscuous == PortConfig().promiscuous);
}

TEST_CASE("the configuration of host mode loads") {
  Diagnostics diagnostics;
  const Config config = read_config("configs/host-mode.yaml", diagnostics);
  INFO(format(diagnostics));
  CHECK(diagnostics.ok());
  CHECK(config.ports->size() == 2);
}

TEST_CASE("every setting is read") {
  const Config config = good(
      "socket: {path: /s, allow_uid: [root, 1234]}\n"
      "state_dir: /d\nsnapshot_memory: 64MiB\nno_snapshot: drop\nforward: hairpin\n"
      "ports: [{port: 3, queues: 2}, {port: 1, descriptors: 256, mtu: 9000, promiscuous: false, spread: 4}]\n"
      "drop_port: 2\n"
      "mempool: {mbufs: 100000, data_room: 9000}\n"
      "privileges: {user: root, keep: [net_admin, net_raw], seccomp: kill}\n"
      "idle: {mode: interrupt, pause_us: 7, sleep_us: 20}\ntelemetry: {sample_one_in: 1}\n");
  CHECK(config.socket_path == "/s");
  CHECK(config.allow_uid == std::vector<uid_t>{0, 1234});
  CHECK(config.state_dir == "/d");
  CHECK(config.snapshot_memory == uint64_t{64} << 20);
  CHECK_FALSE(config.pass_without_snapshot);
  CHECK(config.forward == Forward::hairpin);
  REQUIRE(config.ports->size() == 2);
  CHECK(config.ports->at(0).port == 3);
  CHECK(config.ports->at(0).queues == 2);
  CHECK(config.ports->at(1).queues == 1);
  CHECK(config.ports->at(1).descriptors == 256);
  CHECK(config.ports->at(0).mtu == 0);
  CHECK(config.ports->at(0).promiscuous);
  CHECK(config.ports->at(0).spread == 0);
  CHECK(config.ports->at(1).mtu == 9000);
  CHECK_FALSE(config.ports->at(1).promiscuous);
  CHECK(config.ports->at(1).spread == 4);
  CHECK(config.drop_port == 2);
  CHECK(config.mbufs == 100000u);
  CHECK(config.data_room == 9000);
  REQUIRE(config.privileges.user);
  CHECK(config.privileges.user->uid == 0);
  CHECK(confine::names_of(config.privileges.keep) == "net_admin, net_raw");
  CHECK(config.privileges.seccomp == Seccomp::kill);
  CHECK(good("privileges: {keep: [all]}").privileges.keep == ~Capabilities{0});
  CHECK(config.idle.mode == IdleMode::interrupt);
  CHECK(config.idle.pause_us == 7);
  CHECK(config.idle.sleep_us == 20);
  CHECK(config.sample_one_in == 1);
  CHECK(good("telemetry: {sample_one_in: 0}").sample_one_in == 0);
  CHECK(good("mempool: {mbufs: auto}").mbufs == std::nullopt);
}

TEST_CASE("wrong settings name their place") {
  struct Row {
    const char* text;
    const char* where;
    const char* words;
  };
  const Row rows[] = {
      {"prots: []", "dataplane.yaml:1:1", "prots"},
      {"forward: both", "dataplane.yaml:1:10", "both"},
      {"no_snapshot: maybe", "dataplane.yaml:1:14", "maybe"},
      {"snapshot_memory: 1MiB", "dataplane.yaml:1:18", "snapshot_memory"},
      {"drop_port: -1", "dataplane.yaml:1:12", "drop_port"},
      {"mempool: {mbufs: many}", "dataplane.yaml:1:18", "many"},
      {"mempool: {data_room: 10}", "dataplane.yaml:1:22", "data_room"},
      {"idle: {mode: nap}", "dataplane.yaml:1:14", "nap"},
      {"idle: {pause_us: 0}", "dataplane.yaml:1:18", "pause_us"},
      {"idle: {sleep_us: 10001}", "dataplane.yaml:1:18", "sleep_us"},
      {"telemetry: {sample_one_in: -1}", "dataplane.yaml:1:28", "sample_one_in"},
      {"telemetry: {sample: 1}", "dataplane.yaml:1:13", "sample"},
      {"socket: {allow_uid: [{}]}", "dataplane.yaml:1:22", "user names and numbers"},
      {"privileges: {user: no-such-user-here}", "dataplane.yaml:1:20", "no user `no-such-user-here`"},
      {"privileges: {keep: [net_amdin]}", "dataplane.yaml:1:21", "names of capabilities"},
      {"privileges: {seccomp: on}", "dataplane.yaml:1:23", "refuse"},
      {"ports: []", "dataplane.yaml:1:8", "no frame would be received"},
      {"ports: [{queues: 1}]", "dataplane.yaml:1:9", "has no `port`"},
      {"ports: [{port: 0, queues: 0}]", "dataplane.yaml:1:27", "queues"},
      {"ports: [{port: 0}]", "dataplane.yaml:1:8", "even number of ports, here are 1"},
      {"ports: [{port: 0}, {port: 0}]", "dataplane.yaml:1:20", "port 0 is listed twice"},
      {"ports: [{port: 0}, {port: 1}]\ndrop_port: 1", "dataplane.yaml:2:12", "also in `ports`"},
      {"ports: [{port: 0, queues: 2}, {port: 1}]", "dataplane.yaml:1:31",
       "has 1 queues and its partner, port 0, has 2"},
      {"ports: [{port: 0, mtu: 67}]", "dataplane.yaml:1:24", "mtu"},
      {"ports: [{port: 0, promiscuous: maybe}]", "dataplane.yaml:1:32", "maybe"},
      {"ports: [{port: 0, spread: 17}]", "dataplane.yaml:1:27", "spread"},
      {"forward: sink\nports: [{port: 0, queues: 2, spread: 2}]", "dataplane.yaml:2:9", "`spread` and 2 queues"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    Diagnostics diagnostics;
    parse_config("dataplane.yaml", row.text, diagnostics);
    REQUIRE_FALSE(diagnostics.ok());
    const std::string text = format(diagnostics);
    CHECK_THAT(text, Catch::Matchers::StartsWith(std::string(row.where) + ": error: "));
    CHECK_THAT(text, Catch::Matchers::ContainsSubstring(row.words));
  }
}

TEST_CASE("an unknown user is a warning: nobody is allowed by it") {
  Diagnostics diagnostics;
  const Config config = parse_config("f", "socket: {allow_uid: [no-such-user-here]}", diagnostics);
  CHECK(diagnostics.ok());
  CHECK(diagnostics.warnings() == 1);
  CHECK(config.allow_uid.empty());
}
