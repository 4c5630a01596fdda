#include "dataplane/start/eal_arguments.h"

#include <mntent.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <string_view>

#include "common/own_folder.h"

namespace weir::dataplane {

namespace {

constexpr const char* kPlainMemoryMiB = "1024";  // EAL's own default without huge pages, 64 MiB, holds no mbuf pool

constexpr std::string_view kOptionsAboutFiles[] = {"--file-prefix", "--huge-dir",  "--huge-unlink",
                                                   "--legacy-mem",  "--proc-type", "--no-shconf"};

// --name, --name=value, and of short options also -lVALUE.
bool is_option(const std::string& argument, std::string_view name) {
  if (!argument.starts_with(name)) return false;
  if (argument.size() == name.size()) return true;
  const bool is_short = !name.starts_with("--");
  return is_short || argument[name.size()] == '=';
}

bool has_any(std::span<const std::string> arguments, std::span<const std::string_view> names) {
  for (const std::string& argument : arguments) {
    if (argument.starts_with("-")) {
      for (const std::string_view name : names) {
        if (is_option(argument, name)) return true;
      }
    }
  }
  return false;
}

bool has_any(std::span<const std::string> arguments, std::initializer_list<std::string_view> names) {
  return has_any(arguments, std::span(names.begin(), names.size()));
}

bool any_free_huge_page() {
  const std::string folder = "/sys/kernel/mm/hugepages";
  const Result<std::vector<std::string>> sizes = names_in(folder);
  if (!sizes) return false;
  for (const std::string& size : *sizes) {
    unsigned long free_pages = 0;
    std::ifstream(folder + "/" + size + "/free_hugepages") >> free_pages;
    if (free_pages > 0) return true;
  }
  return false;
}

bool any_writable_huge_mount() {
  FILE* mounts = setmntent("/proc/mounts", "r");
  if (mounts == nullptr) return false;
  bool found = false;
  while (const mntent* mount = getmntent(mounts)) {
    found = found || (strcmp(mount->mnt_type, "hugetlbfs") == 0 && access(mount->mnt_dir, W_OK) == 0);
  }
  endmntent(mounts);
  return found;
}

int first_allowed_cpu() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof cpus, &cpus) != 0) return 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (CPU_ISSET(cpu, &cpus)) return cpu;
  }
  return 0;
}

}  // namespace

Machine look_at_machine() {
  Machine machine;
  machine.root = geteuid() == 0;
  machine.huge_pages = any_free_huge_page();
  machine.huge_mount = any_writable_huge_mount();
  machine.first_cpu = first_allowed_cpu();
  machine.pid = getpid();
  return machine;
}

EalArguments complete_eal_arguments(std::span<const std::string> given, const Machine& machine) {
  EalArguments eal;
  eal.arguments.assign(given.begin(), given.end());
  if (!has_any(given, {"-l", "-c", "--lcores", "-s", "-S"})) {
    const std::string cpu = std::to_string(machine.first_cpu);
    eal.arguments.insert(eal.arguments.end(), {"-l", cpu});
    eal.notes.push_back("no -l given: one worker, on CPU " + cpu);
  }

  // What it finds on the machine is no news, and reads like errors. Warnings and errors stay.
  if (!has_any(given, {"--log-level", "--syslog"})) {
    eal.arguments.insert(eal.arguments.end(),
                         {"--log-level=lib.*:warning", "--log-level=lib.telemetry:error", "--log-level=pmd.*:warning"});
  }
  bool no_huge = has_any(given, {"--no-huge"});
  bool in_memory = has_any(given, {"--in-memory"});
  // Without files: needs no mount, leaves no huge pages behind when killed, and two processes never meet.
  if (!no_huge && !in_memory && machine.huge_pages && !has_any(given, kOptionsAboutFiles)) {
    in_memory = true;
    eal.arguments.push_back("--in-memory");
  }
  if (!no_huge && (!machine.huge_pages || (!machine.huge_mount && !in_memory))) {
    const std::string reason =
        machine.huge_pages ? "no huge page file system that may be written" : "no free huge pages";
    no_huge = true;
    eal.arguments.push_back("--no-huge");
    if (!has_any(given, {"-m", "--socket-mem"})) eal.arguments.insert(eal.arguments.end(), {"-m", kPlainMemoryMiB});
    eal.notes.push_back(reason + ": running on ordinary pages, which is slower (scripts/setup reserves huge pages)");
  }
  if (no_huge && in_memory) {
    std::erase(eal.arguments, "--in-memory");
    eal.notes.push_back("--in-memory is left out: DPDK refuses it without huge pages");
  }
  if (no_huge && !has_any(given, {"--file-prefix"})) {
    eal.arguments.push_back("--file-prefix=weir-" + std::to_string(machine.pid));
    eal.own_prefix = true;
  }
  if (!machine.root && !has_any(given, {"--no-pci", "-a", "--allow"})) {
    eal.arguments.push_back("--no-pci");
    eal.notes.push_back("not root: network cards are not looked for, virtual ports only");
  }
  return eal;
}

}  // namespace weir::dataplane
