// controld as a whole, in this process: policy file in, enforcers and API out.
#include <sys/socket.h>

#include <future>

#include <nlohmann/json.hpp>

#include "common/unix_socket.h"
#include "control/daemon/answers.h"
#include "control/daemon/api.h"
#include "control/daemon/daemon.h"
#include "tests/unit/control/daemon/enforcer.h"
#include "tests/unit/control/daemon/support.h"
#include "tests/unit/stale_socket.h"

using namespace weir;
using namespace weir::control;

namespace {

using Json = nlohmann::json;

// Over the text of both, as a client sees them.
Json asked(Daemon& daemon, const Json& request) {
  const Result<Document> document = Document::parse(request.dump());
  REQUIRE(document);
  const Result<Request> read = read_json<Request>(*document);
  REQUIRE(read);
  return Json::parse(control::answer(daemon, *read));
}

Daemon::Options options_for(const Folder& folder, std::vector<std::string> targets) {
  Daemon::Options options;
  options.config = folder / "weir.yaml";
  options.state_dir = folder / "state";
  for (std::string& socket : targets) options.targets.push_back(dataplane_target(std::move(socket)));
  options.times = {5, 20, 10'000, 20'000};
  options.acknowledge_ms = 20'000;
  return options;
}

// The raw answer to raw bytes; end: also says that no more comes.
std::string raw_call(const std::string& path, const std::string& bytes, bool end) {
  const Result<Fd> connected = unix_socket::connect(path, unix_socket::Kind::stream, 20'000);
  REQUIRE(connected);
  const Fd& fd = *connected;
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t put = send(fd.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (put < 0) break;  // refused before all of it was read
    sent += static_cast<size_t>(put);
  }
  if (end) shutdown(fd.get(), SHUT_WR);
  std::string text;
  char chunk[4096];
  for (ssize_t got; (got = recv(fd.get(), chunk, sizeof chunk, 0)) > 0;) text.append(chunk, static_cast<size_t>(got));
  return text;
}

std::string error_of(const std::string& line) {
  const Json json = Json::parse(line, nullptr, false);
  REQUIRE(json.is_object());
  CHECK(json.value("version", "") == WEIR_VERSION);
  return json.value("error", "");
}

}  // namespace

TEST_CASE("the API answers everybody who may speak, whatever they say") {
  const Folder folder;
  const std::string path = folder / "api.sock";
  const auto echo = [](const Request& request) {
    return request.key ? answer_line(Request{*request.key}) : failure_line("not understood: there is no key");
  };
  auto server = ApiServer::start(path, echo, 100);
  REQUIRE(server);
  CHECK(Json::parse(raw_call(path, "{\"key\": \"x\"}\n", false)) ==
        Json({{"command", "x"}, {"version", WEIR_VERSION}}));
  CHECK(Json::parse(raw_call(path, "{\"key\": \"x\"}", true)).at("command") == "x");
  for (const char* bad : {"\n", "{\n", "[1]\n", "\"text\"\n", "nonsense\n", "{\"key\": \xff}\n"}) {
    INFO(bad);
    CHECK(error_of(raw_call(path, bad, false)).find("JSON object") != std::string::npos);
  }
  for (const char* bad : {"{}\n", "{\"key\": 5}\n", "{\"key\": {}}\n"}) {
    INFO(bad);
    CHECK(error_of(raw_call(path, bad, false)).find("not understood") != std::string::npos);
  }
  const std::string huge(ApiServer::kMaxRequestBytes + 1, ' ');
  CHECK(error_of(raw_call(path, huge, false)).find("65536 bytes") != std::string::npos);
  CHECK(error_of(raw_call(path, std::string(60'000, '[') + "\n", false)).find("JSON object") != std::string::npos);
  CHECK(error_of(raw_call(path, "{\"key\"", false)).find("in time") != std::string::npos);  // and then silence

  auto second = ApiServer::start(path, echo);
  REQUIRE_FALSE(second);
  CHECK(second.error().find("already") != std::string::npos);
}

TEST_CASE("a socket that a killed controld left is replaced; another file is not") {
  const Folder folder;
  const auto nothing = [](const Request&) { return std::string(); };
  leave_socket(folder / "api.sock", SOCK_STREAM);
  CHECK(ApiServer::start(folder / "api.sock", nothing));
  folder.write("file", "precious");
  CHECK_FALSE(ApiServer::start(folder / "file", nothing));
  CHECK(folder.read("file") == "precious");
}

TEST_CASE("start publishes, reload publishes the next one, a bad policy changes nothing") {
  const Folder folder;
  folder.write("weir.yaml", policy_text("203.0.113.7"));
  Enforcer one(folder / "one", {.packets = 5}), two(folder / "two", {.packets = 7});
  auto started = Daemon::start(options_for(folder, {folder / "one", folder / "two"}));
  REQUIRE(started);
  Daemon& daemon = **started;
  const wire::Generation first = daemon.running()->publication->generation;
  CHECK(first.number == 1);
  REQUIRE(eventually([&] { return one.generation() == first && two.generation() == first; }));

  const auto second = daemon.reload();
  CHECK(second->ok);
  CHECK(second->generation == wire::Generation{first.epoch, 2});
  CHECK(second->entries == 2);
  CHECK(one.generation() == second->generation);
  std::vector<std::string> phases;
  for (const PhaseTime& phase : second->phases) phases.emplace_back(phase.name);
  CHECK(phases == std::vector<std::string>{"read", "merge", "index", "plan", "build", "prove", "seal", "publish",
                                           "acknowledge", "store"});

  folder.write("weir.yaml", policy_text("203.0.113.7/33"));
  const Json refused = asked(daemon, {{"command", "reload"}});
  CHECK_FALSE(refused.at("ok"));
  CHECK(refused.at("diagnostics").at(0).at("line") == 3);
  CHECK(refused.at("generation").at("number") == 2);
  CHECK(one.publications() == 2);

  folder.write("weir.yaml", policy_text("203.0.113.8"));
  CHECK(daemon.reload()->generation.number == 3);  // the failure used none
  const Json explained = asked(daemon, {{"command", "explain"}, {"key", "203.0.113.8"}});
  CHECK(explained.at("as_source").at("action") == "drop");
  CHECK(explained.at("origins").at(0).at("line") == 3);

  std::filesystem::remove(folder / "state/origins.weir");
  const Json without_origins = asked(daemon, {{"command", "explain"}, {"key", "203.0.113.8"}});
  CHECK(without_origins.at("as_source").at("action") == "drop");
  CHECK(without_origins.at("origins").empty());

  const Json stats = asked(daemon, {{"command", "stats"}});
  CHECK(stats.at("packets") == 12);
  CHECK(stats.at("lists").at("l1").at("matched") == 12);
  CHECK(stats.at("lists").at("l2").at("matched") == 0);
  CHECK(stats.at("targets").size() == 2);

  const Json bypassed = asked(daemon, {{"command", "bypass"}, {"on", true}});
  CHECK(bypassed.at("ok"));
  CHECK((one.bypass() && two.bypass()));
  CHECK(asked(daemon, {{"command", "status"}}).at("bypass"));
  CHECK(asked(daemon, {{"command", "list"}, {"name", "nope"}}).contains("error"));
  CHECK(asked(daemon, {{"command", "explain"}}).contains("error"));
  CHECK(asked(daemon, {{"command", "dance"}}).at("error").get<std::string>().find("unknown command") == 0);
  CHECK(asked(daemon, Json::object()).contains("error"));
}

TEST_CASE("status and stats are answered while a reload waits for a target that hangs") {
  const Folder folder;
  folder.write("weir.yaml", policy_text("203.0.113.7"));
  Enforcer enforcer(folder / "dp", {.hangs = true});
  auto daemon = Daemon::start(options_for(folder, {folder / "dp"}));
  REQUIRE(daemon);
  REQUIRE(eventually([&] { return enforcer.publications() == 1; }));
  auto reload = std::async(std::launch::async, [&] { return (*daemon)->reload(); });
  REQUIRE(eventually([&] { return (*daemon)->running()->publication->generation.number == 2; }));
  const Json status = asked(**daemon, {{"command", "status"}});
  CHECK(status.at("generation").at("number") == 2);
  CHECK_FALSE(status.at("targets").at(0).at("acknowledged"));
  const Json stats = asked(**daemon, {{"command", "stats"}});
  CHECK_FALSE(stats.at("targets").at(0).at("fresh"));
  CHECK(reload.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
  enforcer.release();
  CHECK(reload.get()->ok);
  CHECK(enforcer.generation().number == 2);
}

TEST_CASE("reload names the target that is away") {
  const Folder folder;
  folder.write("weir.yaml", policy_text("203.0.113.7"));
  Enforcer enforcer(folder / "here");
  Daemon::Options options = options_for(folder, {folder / "here", folder / "away"});
  options.acknowledge_ms = 3000;
  auto daemon = Daemon::start(options);
  REQUIRE(daemon);
  const auto report = (*daemon)->reload();
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
  options.acknowledge_ms = 300;
  options.bpf_dir = folder / "no-bpf-file-system";
  options.targets.push_back(xdp_target({"no-such-if0"}, Attach::any));
  auto daemon = Daemon::start(options);
  REQUIRE(daemon);
  const auto report = (*daemon)->reload();
  REQUIRE(report->targets.size() == 2);
  CHECK(report->targets[0].acknowledged);
  CHECK(report->targets[1].socket == "xdp:no-such-if0");
  CHECK_FALSE(report->targets[1].acknowledged);
  CHECK_FALSE(report->targets[1].error.empty());
  const Json status = asked(**daemon, {{"command", "status"}});
  CHECK_FALSE(status.at("targets").at(0).contains("interfaces"));
  CHECK(status.at("targets").at(1).at("interfaces") == Json::array());
}

TEST_CASE("a start on a bad policy publishes the last good, and fails without one") {
  const Folder folder;
  const auto start = [&] {
    Daemon::Options options = options_for(folder, {folder / "dp"});
    options.acknowledge_ms = 100;
    return Daemon::start(options);
  };
  folder.write("weir.yaml", "lists: [nonsense\n");
  auto nothing = start();
  REQUIRE_FALSE(nothing);
  CHECK(nothing.error().find("no last good") != std::string::npos);

  folder.write("weir.yaml", policy_text("203.0.113.7"));
  wire::Generation good;
  {
    auto daemon = start();
    REQUIRE(daemon);
    REQUIRE((*daemon)->bypass(true).value().size() == 1);  // nobody is there to confirm; it is remembered
    good = (*daemon)->running()->publication->generation;
  }
  folder.write("weir.yaml", policy_text("203.0.113.7/33"));
  Enforcer enforcer(folder / "dp");
  auto daemon = start();
  REQUIRE(daemon);
  CHECK((*daemon)->running()->from_last_good);
  REQUIRE(eventually([&] { return enforcer.generation() == good; }));
  CHECK(eventually([&] { return enforcer.bypass(); }));
  const Json status = asked(**daemon, {{"command", "status"}});
  CHECK(status.at("from_last_good"));
  CHECK_FALSE(status.at("last_reload").at("ok"));
  CHECK(status.at("last_reload").at("errors") == 1);
  const Json shapes = asked(**daemon, {{"command", "shapes"}});
  CHECK(shapes.at("shapes").size() > 0);
  const Json list = asked(**daemon, {{"command", "list"}, {"name", "l1"}});
  CHECK(list.at("lists").at(0).at("entries") == 1);
}

TEST_CASE("a start on a policy that cannot be read gives the last good to those who had it, from where it was") {
  const Folder folder;
  const auto start = [&](const std::string& config) {
    Daemon::Options options = options_for(folder, {});
    options.config = folder / config;
    options.state_dir.reset();
    options.default_state_dir = folder / "usual";
    return Daemon::start(options);
  };
  const std::string places = "state_dir: " + (folder / "mine") + "\ntargets: [{dataplane: " + (folder / "dp") + "}]\n";
  folder.write("weir.yaml", places + policy_text("203.0.113.7"));
  wire::Generation good;
  {
    auto daemon = start("weir.yaml");
    REQUIRE(daemon);
    good = (*daemon)->running()->publication->generation;
  }
  Enforcer enforcer(folder / "dp");
  for (const std::string& bad : {std::string("lists: [nonsense\n"), std::string(),
                                 "state_dir: " + (folder / "mine") + "\ntargets: [{dataplane: " + (folder / "other") +
                                     "}]\n" + policy_text("203.0.113.7/33")}) {
    INFO(bad);
    folder.write("weir.yaml", bad);
    auto daemon = start("weir.yaml");
    REQUIRE(daemon);
    CHECK((*daemon)->state_dir() == folder / "mine");
    REQUIRE((*daemon)->targets().size() == 1);
    CHECK((*daemon)->targets()[0]->socket() == folder / "dp");
    CHECK(eventually([&] { return enforcer.generation() == good; }));
  }
  // Another policy, of which nothing is known: the last good of its folder is not its own.
  folder.write("other.yaml", "state_dir: " + (folder / "mine") + "\nlists: nonsense\n");
  auto other = start("other.yaml");
  REQUIRE_FALSE(other);
  CHECK(other.error().find("is that of " + (folder / "weir.yaml")) != std::string::npos);
  folder.write("other.yaml", "lists: [nonsense\n");
  auto unknown = start("other.yaml");
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().find("name the targets with --target") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder / "usual/snapshot.weir"));
}

TEST_CASE("reloads that come while one runs share the next one") {
  const Folder folder;
  folder.write("weir.yaml", policy_text("203.0.113.7"));
  Enforcer enforcer(folder / "dp", {.hangs = true});
  auto daemon = Daemon::start(options_for(folder, {folder / "dp"}));
  REQUIRE(daemon);
  const auto reload = [&] { return std::async(std::launch::async, [&] { return (*daemon)->reload(); }); };
  auto running = reload();
  REQUIRE(eventually([&] { return (*daemon)->running()->publication->generation.number == 2; }));
  (*daemon)->request_reload();
  (*daemon)->request_reload();
  enforcer.release();
  CHECK(running.get()->generation.number == 2);
  REQUIRE(eventually([&] { return (*daemon)->last_reload()->generation.number == 3; }));
  CHECK(reload().get()->generation.number == 4);
}
