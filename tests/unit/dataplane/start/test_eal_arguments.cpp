#include <algorithm>

#include "dataplane/start/eal_arguments.h"
#include "dataplane/start/options.h"
#include "tests/catch.h"

using namespace weir::dataplane;

namespace {

using Arguments = std::vector<std::string>;

const Machine kFull = {true, true, true, 3, 42};

Arguments complete(const Arguments& given, const Machine& machine, size_t notes) {
  EalArguments eal = complete_eal_arguments(given, machine);
  CHECK(eal.notes.size() == notes);
  std::erase_if(eal.arguments, [](const std::string& argument) { return argument.starts_with("--log-level="); });
  return eal.arguments;
}

}  // namespace

TEST_CASE("EAL's arguments are completed by what the machine lacks, and each is said once") {
  Machine no_pages = kFull;
  no_pages.huge_pages = false;
  Machine no_mount = kFull;
  no_mount.huge_mount = false;
  Machine user = kFull;
  user.root = false;

  CHECK(complete({}, kFull, 1) == Arguments{"-l", "3", "--in-memory"});
  CHECK(complete({"-l", "0"}, kFull, 0) == Arguments{"-l", "0", "--in-memory"});
  for (const char* lcores : {"-l0", "-c1", "--lcores=0@0"}) {
    CHECK(complete({lcores, "--file-prefix=x"}, kFull, 0) == Arguments{lcores, "--file-prefix=x"});
  }
  CHECK(complete({"-l0"}, no_pages, 1) == Arguments{"-l0", "--no-huge", "-m", "1024", "--file-prefix=weir-42"});
  CHECK(complete({"-l0", "-m", "2048"}, no_pages, 1) ==
        Arguments{"-l0", "-m", "2048", "--no-huge", "--file-prefix=weir-42"});
  CHECK(complete({"-l0", "--in-memory", "--file-prefix", "x"}, no_pages, 2) ==
        Arguments{"-l0", "--file-prefix", "x", "--no-huge", "-m", "1024"});
  CHECK(complete({"-l0", "--no-huge", "--in-memory"}, kFull, 1) ==
        Arguments{"-l0", "--no-huge", "--file-prefix=weir-42"});
  CHECK(complete({"-l0"}, no_mount, 0) == Arguments{"-l0", "--in-memory"});
  CHECK(complete({"-l0", "--file-prefix=x"}, no_mount, 1) ==
        Arguments{"-l0", "--file-prefix=x", "--no-huge", "-m", "1024"});
  CHECK(complete({"-l0", "--in-memory"}, user, 1) == Arguments{"-l0", "--in-memory", "--no-pci"});
  CHECK(complete({"-l0", "--in-memory", "--no-pci"}, user, 0) == Arguments{"-l0", "--in-memory", "--no-pci"});
}

TEST_CASE("EAL says only what is wrong, unless it is asked for more") {
  const auto said = [](const Arguments& given) {
    Arguments levels = complete_eal_arguments(given, kFull).arguments;
    std::erase_if(levels, [](const std::string& argument) { return !argument.starts_with("--log-level"); });
    return levels;
  };
  CHECK(said({"-l0"}) ==
        Arguments{"--log-level=lib.*:warning", "--log-level=lib.telemetry:error", "--log-level=pmd.*:warning"});
  CHECK(said({"-l0", "--log-level=debug"}) == Arguments{"--log-level=debug"});
}

TEST_CASE("the command line is split at `--`, or taken whole") {
  const auto parse = [](const Arguments& arguments) { return parse_command_line(arguments); };
  const CommandLine both = parse({"-l", "0", "--", "--config", "a.yaml", "--wait-for-snapshot"});
  CHECK(both.eal == Arguments{"-l", "0"});
  CHECK(both.options.config_path == "a.yaml");
  CHECK(both.options.wait_for_snapshot);
  CHECK_FALSE(both.exit_code);

  const CommandLine program = parse({"--state-dir=/d", "--socket", "/s"});
  CHECK(program.eal.empty());
  CHECK(program.options.state_dir == "/d");
  CHECK(program.options.socket_path == "/s");
  CHECK(parse({"--vdev=net_null0", "-l", "1"}).eal == Arguments{"--vdev=net_null0", "-l", "1"});
  CHECK(parse({}).eal.empty());
  CHECK_FALSE(parse({}).exit_code);

  CHECK(parse({"--doctor", "--json"}).options.doctor);
  CHECK(parse({"-l", "2", "--", "--doctor"}).eal == Arguments{"-l", "2"});
  CHECK(parse({"--json"}).exit_code == 2);  // without --doctor

  CHECK(parse({"--version"}).exit_code == 0);
  CHECK(parse({"-l", "0", "--", "--help"}).exit_code == 0);
  CHECK(parse({"--", "--confg", "x"}).exit_code == 2);
  CHECK(parse({"-l", "0", "--config", "x"}).exit_code == 2);  // mixed without `--`
}

TEST_CASE("--now is a time of day in UTC, to the second") {
  const auto parse = [](const char* text) { return parse_command_line(Arguments{"--now", text}); };
  CHECK_FALSE(parse_command_line({}).options.now_unix_s);
  CHECK(parse("2026-12-01T00:00:00Z").options.now_unix_s == 1796083200u);
  CHECK(parse("1970-01-01T00:00:01Z").options.now_unix_s == 1u);
  CHECK(parse("2028-02-29T23:59:59Z").options.now_unix_s == 1835481599u);
  for (const char* bad : {"tomorrow", "2026-12-01", "2026-12-01T00:00:00", "2026-12-01T00:00:00ZZ",
                          "2026-02-29T00:00:00Z", "2026-1-1T00:00:00Z", "2026-12-01T24:00:00Z",
                          "2026-12-01T00:00:00+01:00", "1969-12-31T23:59:59Z", " 2026-12-01T00:00:00Z"}) {
    INFO(bad);
    CHECK(parse(bad).exit_code == 2);
  }
}
