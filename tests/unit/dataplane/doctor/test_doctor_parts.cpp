#include <random>
#include <sstream>

#include <nlohmann/json.hpp>

#include "dataplane/doctor/doctor.h"
#include "dataplane/doctor/eal.h"
#include "dataplane/doctor/tree.h"
#include "tests/catch.h"
#include "tests/unit/dataplane/doctor/doctor_tree.h"

using namespace weir::dataplane;
using namespace weir::dataplane::doctor;

namespace {

std::string random_text(std::mt19937& random) {
  // Bytes that mean something in these files, and any other.
  constexpr std::string_view kTelling = "0123456789abcdefx-,:. \n\t()[]@/%";
  std::string text(random() % 40, '\0');
  for (char& byte : text) {
    byte = random() % 8 == 0 ? static_cast<char>(random()) : kTelling[random() % kTelling.size()];
  }
  return text;
}

Report examine_tree(const TemporaryTree& tree, std::vector<std::string> eal) {
  Inputs inputs;
  inputs.root = tree.root();
  inputs.config.privileges.user = User{"weir", 990, 990};
  inputs.eal = std::move(eal);
  inputs.addresses = {{"eth0", "10.0.2.5"}};
  const weir::Result<Report> report = examine(inputs);
  if (!report) FAIL(report.error());
  return *report;
}

std::vector<Cpus> workers(const std::vector<std::string>& arguments) {
  const weir::Result<EalOptions> options = parse_eal_options(arguments);
  return options ? options->workers : std::vector<Cpus>();
}

}  // namespace

TEST_CASE("lists of CPUs") {
  CHECK(parse_cpus("0-3,8\n") == Cpus{0, 1, 2, 3, 8});
  CHECK(parse_cpus(" 5 ") == Cpus{5});
  CHECK(parse_cpus("") == Cpus{});
  for (const char* bad :
       {"3-1", "1,", ",", "-", "1-", "-1", "a", "1 2", "0x3", "8192", "99999999999999999999", "(null)"}) {
    INFO(bad);
    CHECK_FALSE(parse_cpus(bad));
  }
  for (const char* text : {"0", "0,1", "0-2", "1,3-5,7,8,8191"}) CHECK(to_text(*parse_cpus(text)) == text);
}

TEST_CASE("EAL's options about CPUs") {
  CHECK(workers({"-l", "1,3-4"}) == std::vector<Cpus>{{1}, {3}, {4}});
  CHECK(workers({"-l2"}) == std::vector<Cpus>{{2}});
  CHECK(workers({"-c", "0x1a"}) == std::vector<Cpus>{{1}, {3}, {4}});
  CHECK(workers({"--lcores=1,2@(5-7),(3-5)@(0,2),(0,6),7-8"}) ==
        std::vector<Cpus>{{0, 6}, {1}, {5, 6, 7}, {0, 2}, {0, 2}, {0, 2}, {0, 6}, {7}, {8}});
  CHECK(workers({"--lcores", "0@3,1@3"}) == std::vector<Cpus>{{3}, {3}});
  for (const char* bad : {"-l", "-lx", "-l3-1", "-c", "-cxyz", "--lcores=(1", "--lcores=1@", "--lcores="}) {
    INFO(bad);
    CHECK_FALSE(parse_eal_options(std::vector<std::string>{bad}));
  }
}

TEST_CASE("EAL's options about devices") {
  const std::vector<std::string> arguments = {"-a",        "03:00.0,x=1", "--allow=0000:AF:00.1", "-b81:00.0", "--vdev",
                                              "net_null0", "--no-pci",    "--log-level",          "8",         "-a",
                                              "vdev:none"};
  const weir::Result<EalOptions> options = parse_eal_options(arguments);
  REQUIRE(options);
  CHECK(options->allow == std::vector<std::string>{"0000:03:00.0", "0000:af:00.1"});
  CHECK(options->block == std::vector<std::string>{"0000:81:00.0"});
  CHECK(options->vdevs == std::vector<std::string>{"net_null0"});
  CHECK(options->no_pci);
  CHECK_FALSE(options->no_huge);
}

TEST_CASE("no file is needed: what is missing is unknown") {
  const Report report = examine_tree(TemporaryTree({}), {"-l", "2"});
  INFO(as_text(report));
  CHECK(report.count(Health::unknown) > 15);
  CHECK(report.count(Health::problem) == 0);
}

TEST_CASE("garbage in a file is no crash") {
  std::mt19937 random(7);
  const Files healthy = healthy_machine();
  TemporaryTree tree(healthy);
  for (int round = 0; round < 100; round++) {
    Files garbage;
    for (const auto& [path, content] : healthy) {
      if (!content->starts_with("-> ") && random() % 16 == 0) garbage[path] = random_text(random);
    }
    tree.apply(garbage);  // on top of that of the rounds before
    const Report report = examine_tree(tree, {"-l", "2,3", "-a", "0000:03:00.0"});
    CHECK(nlohmann::json::parse(as_json(report))["sections"].size() == report.sections.size());
    CHECK_FALSE(as_text(report).empty());
  }
  for (int round = 0; round < 20000; round++) {
    const std::string text = random_text(random);
    if (const std::optional<Cpus> cpus = parse_cpus(text)) CHECK(parse_cpus(to_text(*cpus)) == cpus);
    (void)parse_eal_options(std::vector<std::string>{"--lcores", text});
    (void)parse_eal_options(std::vector<std::string>{"-c", text});
    const std::string address = full_pci_address(text);
    CHECK((address.empty() || address.size() == 12));
  }
}

TEST_CASE("the report is aligned, narrow, and gathers what belongs on the kernel's command line") {
  Files files = healthy_machine();
  files["sys/devices/system/cpu/isolated"] = "";
  files["proc/cmdline"] = "quiet";
  files["sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages"] = "0";
  const Report report = examine_tree(TemporaryTree(files), {"-l", "2,3", "-a", "0000:03:00.0"});
  const std::string text = as_text(report);
  INFO(text);
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("For the next boot"));
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("\n  isolcpus=managed_irq,domain,2,3 hugepagesz=2M hugepages="));
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("1 problem, "));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 120);

  const nlohmann::json json = nlohmann::json::parse(as_json(report));
  CHECK(json["problems"] == 1);
  CHECK(json["hints"] == report.count(Health::hint));
  CHECK(json["sections"][0]["section"] == "cpu");
  CHECK(json["sections"][0]["findings"][0]["health"] == "ok");
  CHECK(json["boot"][0] == "isolcpus=managed_irq,domain,2,3");
}
