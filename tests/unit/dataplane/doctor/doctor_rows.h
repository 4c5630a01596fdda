#pragma once

#include <string>
#include <vector>

#include "dataplane/doctor/doctor.h"
#include "tests/catch.h"
#include "tests/unit/dataplane/doctor/doctor_tree.h"

// What the doctor says of the healthy machine with some files changed, a row for each change.
namespace weir::dataplane::doctor {

inline Inputs inputs_of_healthy() {
  Inputs inputs;
  inputs.eal = {"-l", "2,3", "-a", "0000:03:00.0"};
  inputs.addresses = {{"eth0", "10.0.2.5"}, {"eth0", "fe80::5"}, {"eth1", "192.0.2.1"}};
  inputs.kernels = {{"avx512", true}, {"avx2", true}, {"scalar", true}};
  inputs.dpdk_version = "DPDK 22.11";
  inputs.pmd_folder = "/usr/lib/pmds";
  inputs.config.privileges.user = User{"weir", 990, 990};
  return inputs;
}

inline Report examine_tree(const TemporaryTree& tree, Inputs inputs) {
  inputs.root = tree.root();
  const weir::Result<Report> report = examine(inputs);
  if (!report) FAIL(report.error());
  return *report;
}

inline std::vector<Finding> findings_of(const Report& report, const std::string& section, const std::string& check) {
  std::vector<Finding> found;
  for (const Section& each : report.sections) {
    if (each.name != section) continue;
    for (const Finding& finding : each.findings) {
      if (finding.check == check) found.push_back(finding);
    }
  }
  return found;
}

// The healthy machine with some files changed.
struct Row {
  const char* section;
  const char* check;
  Health health;
  const char* found;  // is in what was found
  const char* fix;    // is in the fix
  Files change;
  std::vector<std::string> eal = {};  // empty: as on the healthy machine
  void (*inputs)(Inputs&) = nullptr;
};

inline const std::string kGroup = "sys/fs/cgroup/system.slice/weir.service/";

inline Files with(Files files, const Files& more) {
  for (const auto& [path, content] : more) files[path] = content;
  return files;
}

inline void check_rows(const std::vector<Row>& rows) {
  TemporaryTree tree(healthy_machine());
  for (const Row& row : rows) {
    Inputs inputs = inputs_of_healthy();
    if (!row.eal.empty()) inputs.eal = row.eal;
    if (row.inputs != nullptr) row.inputs(inputs);
    tree.apply(row.change);
    const Report report = examine_tree(tree, inputs);
    tree.revert(row.change);
    const std::vector<Finding> found = findings_of(report, row.section, row.check);
    INFO(row.section << " " << row.check << " " << row.found << "\n" << as_text(report));
    REQUIRE(found.size() == 1);
    CHECK(std::string(name_of(found[0].health)) == name_of(row.health));
    CHECK_THAT(found[0].found, Catch::Matchers::ContainsSubstring(row.found));
    CHECK_THAT(found[0].fix, Catch::Matchers::ContainsSubstring(row.fix));
    CHECK(found[0].fix.empty() == (row.health == Health::ok || row.health == Health::unknown));
  }
}

}  // namespace weir::dataplane::doctor
