#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/result.h"
#include "dataplane/start/config.h"

// dataplane --doctor: is the machine fit for these options? Reads /proc and /sys, changes nothing, needs no EAL.
namespace weir::dataplane::doctor {

enum class Health : uint8_t {
  ok,
  hint,     // it runs, but slower or less evenly
  problem,  // it does not run as asked, frames would be lost, or somebody would be locked out
  unknown,  // cannot be read here
};
const char* name_of(Health health);

struct Finding {
  std::string check;  // stable name
  Health health = Health::ok;
  std::string found;
  std::string fix;   // of hints and problems: the command or setting
  std::string boot;  // the part of the fix that belongs on the kernel's command line
};

struct Section {
  std::string name;  // stable
  std::string title;
  std::vector<Finding> findings;

  void ok(std::string check, std::string found) { add(std::move(check), Health::ok, std::move(found)); }
  void unknown(std::string check, std::string found) { add(std::move(check), Health::unknown, std::move(found)); }
  void hint(std::string check, std::string found, std::string fix, std::string boot = "") {
    add(std::move(check), Health::hint, std::move(found), std::move(fix), std::move(boot));
  }
  void problem(std::string check, std::string found, std::string fix, std::string boot = "") {
    add(std::move(check), Health::problem, std::move(found), std::move(fix), std::move(boot));
  }

 private:
  void add(std::string check, Health health, std::string found, std::string fix = "", std::string boot = "") {
    findings.push_back({std::move(check), health, std::move(found), std::move(fix), std::move(boot)});
  }
};

struct InterfaceAddress {
  std::string interface;
  std::string address;  // as inet_ntop writes it
};

struct KernelSet {
  std::string name;
  bool usable;
};

// What is looked at. Everything that no file tells is passed in, so that a test can make it up.
struct Inputs {
  std::string root = "/";        // folder of proc, sys, dev
  std::vector<std::string> eal;  // EAL's options as given
  Config config;
  std::vector<InterfaceAddress> addresses;
  std::string ssh_connection;      // the environment variable; empty: not set
  std::vector<KernelSet> kernels;  // filter/probe/dispatch.h, best first
  std::string forced_isa;          // WEIR_FORCE_ISA; empty: not set
  std::string dpdk_version;
  std::string pmd_folder;  // where EAL looks for drivers; empty: they are linked in
};
// This process on this machine.
Inputs look_at_process(std::vector<std::string> eal, Config config);

struct Report {
  std::vector<Section> sections;
  size_t count(Health health) const;
};
// An error: EAL's options name no CPUs.
Result<Report> examine(const Inputs& inputs);

std::string as_text(const Report& report);
std::string as_json(const Report& report);

}  // namespace weir::dataplane::doctor
