#pragma once

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "control/daemon/answers.h"
#include "control/daemon/daemon.h"
#include "tests/unit/control/support/support.h"

// controld as a whole, in the test's process.
namespace weir::control {

using Json = nlohmann::json;

inline Daemon::Options options_for(const Folder& folder, std::vector<std::string> targets) {
  Daemon::Options options;
  options.config = folder / "weir.yaml";
  options.state_dir = folder / "state";
  for (std::string& socket : targets) options.targets.push_back(dataplane_target(std::move(socket)));
  options.times = {5, 20, 10'000, 20'000};
  options.times.switched = 20'000;
  options.acknowledge_ms = 20'000;
  return options;
}

// A daemon on the test's own thread, which turns the loop while it waits for answers.
struct Started {
  explicit Started(const Daemon::Options& options) {
    Result<std::unique_ptr<Daemon>> started = Daemon::start(loop, options);
    if (started) {
      daemon = std::move(*started);
    } else {
      error = started.error();
    }
  }
  Daemon* operator->() { return daemon.get(); }
  template <class Test>
  bool until(Test test) {
    return eventually(loop, test);
  }
  // What is there once the reload is done.
  std::shared_ptr<std::shared_ptr<const ReloadAnswer>> begin_reload() {
    auto report = std::make_shared<std::shared_ptr<const ReloadAnswer>>();
    daemon->reload([report](std::shared_ptr<const ReloadAnswer> done) { *report = std::move(done); });
    return report;
  }
  std::shared_ptr<const ReloadAnswer> reload() {
    const auto report = begin_reload();
    REQUIRE(until([&] { return *report != nullptr; }));
    return *report;
  }
  Json ask_line(const std::string& request, bool may_change = true) {
    std::string line;
    answer(*daemon, request, {1000, 1234, may_change}, [&](const std::string& told) { line = told; });
    REQUIRE(until([&] { return !line.empty(); }));
    const Json json = Json::parse(line);
    CHECK(json.value("version", "") == WEIR_VERSION);
    return json;
  }
  Json ask(const Json& request) { return ask_line(request.dump()); }

  Loop loop;
  std::unique_ptr<Daemon> daemon;
  std::string error;  // why there is none
};

}  // namespace weir::control
