// What `controlctl fleet` makes of a policy's files, and when a rollout stops.
#include "control/ctl/fleet_files.h"
#include "control/ctl/fleet_rollout.h"
#include "control/policy/read/policy.h"
#include "tests/catch.h"
#include "tests/unit/folder.h"

namespace weir::control::ctl {
namespace {

fleet::Node node_that(double drops, double expected, double packets_per_s = 1000) {
  fleet::Node node;
  node.report.node = "n1";
  node.report.state = "enforcing";
  node.report.enforced_at = 100;
  node.report.at = 110;
  node.report.packets_per_s = packets_per_s;
  node.report.dropped_share = drops;
  node.report.expected_share = expected;
  node.report.expected_high = expected;
  return node;
}

std::optional<Policy> policy_in(const Folder& folder, const std::string& lists) {
  Diagnostics diagnostics;
  return parse_policy(folder.write("weir.yaml", "version: 1\nlists:\n" + lists), "version: 1\nlists:\n" + lists,
                      diagnostics);
}

std::vector<std::string> paths_of(const PolicyFiles& files) {
  std::vector<std::string> paths;
  for (const fleet::PushedFile& file : files.files) paths.push_back(file.path);
  return paths;
}

}  // namespace

TEST_CASE("a node is not well when it drops more than it expected, by a share of that and of all") {
  const fleet::Node before = node_that(0, 0);
  CHECK(ailment(node_that(0.25, 0.25), before, 0.3).empty());
  CHECK(ailment(node_that(0.32, 0.25), before, 0.3).empty());
  CHECK(
      ailment(node_that(0.33, 0.25), before, 0.3).find("node n1 drops 33.00 % of its packets, and expected 25.00 %") ==
      0);
  CHECK(ailment(node_that(0.33, 0.25), before, 0.5).empty());
  CHECK(ailment(node_that(0.009, 0), before, 0.3).empty());  // less than 1 % of all is noise
  CHECK_FALSE(ailment(node_that(0.02, 0), before, 0.3).empty());

  fleet::Node early = node_that(0.9, 0);
  early.report.at = early.report.enforced_at + 2;  // what it counted is of the time before, too
  CHECK(ailment(early, before, 0.3).empty());
  fleet::Node without = node_that(0.9, 0);
  without.report.expected_high.reset();
  CHECK(ailment(without, before, 0.3).empty());
  CHECK(ailment(node_that(0.9, 0, 50), node_that(0, 0, 50), 0.3).empty());  // too few packets to say
}

TEST_CASE("a node is not well when it sees half of its packets, or has something to say") {
  CHECK(ailment(node_that(0, 0, 600), node_that(0, 0, 1000), 0.3).empty());
  CHECK(ailment(node_that(0, 0, 400), node_that(0, 0, 1000), 0.3) ==
        "node n1 sees 400 packets a second, and saw 1000 before");
  fleet::Node refused = node_that(0, 0);
  refused.report.error = "list a keeps what it had";
  CHECK(ailment(refused, node_that(0, 0), 0.3) == "node n1: list a keeps what it had");
}

TEST_CASE("the files of a policy are those in its folder that it names") {
  const Folder folder;
  folder.write("feeds/a.txt", "192.0.2.1\n");
  folder.write("feeds/more/b.txt", "192.0.2.2\n");
  folder.write("feeds/more/c.txt", "192.0.2.3\n");
  auto policy =
      policy_in(folder,
                "  - {name: a, action: drop, file: feeds/a.txt}\n  - {name: same, action: drop, file: ./feeds/a.txt}\n"
                "  - {name: b, action: drop, file: \"feeds/more/*.txt\"}\n"
                "  - {name: c, action: drop, url: \"https://192.0.2.9/x\"}\n");
  REQUIRE(policy);
  const Result<PolicyFiles> files = policy_files(folder / "weir.yaml", *policy);
  REQUIRE(files);
  CHECK(files->policy == "weir.yaml");
  CHECK(paths_of(*files) ==
        std::vector<std::string>{"weir.yaml", "feeds/a.txt", "feeds/more/b.txt", "feeds/more/c.txt"});
  CHECK(files->files[1].bytes == "192.0.2.1\n");
  for (const char* outside : {"../a.txt", "/etc/hosts", "feeds/../../a.txt"}) {
    policy = policy_in(folder, std::string("  - {name: a, action: drop, file: ") + outside + "}\n");
    REQUIRE(policy);
    const Result<PolicyFiles> refused = policy_files(folder / "weir.yaml", *policy);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().find("not in the folder of the policy") != std::string::npos);
  }
  policy = policy_in(folder, "  - {name: a, action: drop, file: feeds/none.txt}\n");
  REQUIRE(policy);
  CHECK_FALSE(policy_files(folder / "weir.yaml", *policy));
}

TEST_CASE("entries go to the list that is named, or to the one that is dynamic") {
  const Folder folder;
  const auto one = policy_in(
      folder, "  - {name: a, action: drop, dynamic: true}\n  - {name: b, action: drop, entries: [192.0.2.1]}\n");
  REQUIRE(one);
  CHECK(*dynamic_list(*one, "") == "a");
  CHECK(*dynamic_list(*one, "a") == "a");
  CHECK_FALSE(dynamic_list(*one, "b"));
  const auto two =
      policy_in(folder, "  - {name: a, action: drop, dynamic: true}\n  - {name: b, action: drop, dynamic: true}\n");
  REQUIRE(two);
  CHECK(dynamic_list(*two, "").error().find("a, b") != std::string::npos);
  CHECK(*dynamic_list(*two, "b") == "b");
  const auto none = policy_in(folder, "  - {name: b, action: drop, entries: [192.0.2.1]}\n");
  REQUIRE(none);
  CHECK_FALSE(dynamic_list(*none, ""));
}

TEST_CASE("lines that differ") {
  CHECK(line_difference("a\nb\nc\n", "a\nd\nc\n", 10) == "- b\n+ d\n");
  CHECK(line_difference("a\nb\n", "b\na\n", 10).empty());  // the order alone
  CHECK(line_difference("a\na\n", "a\n", 10) == "- a\n");
  CHECK(line_difference("", "a\nb\nc\n", 2) == "+ a\n+ b\n... and 1 lines more\n");
}

}  // namespace weir::control::ctl
