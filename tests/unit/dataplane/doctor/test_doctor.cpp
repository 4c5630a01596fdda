#include <algorithm>
#include <sstream>

#include <nlohmann/json.hpp>

#include "dataplane/doctor/doctor.h"
#include "tests/catch.h"
#include "tests/unit/dataplane/doctor/doctor_tree.h"

using namespace weir::dataplane;
using namespace weir::dataplane::doctor;

namespace {

Inputs inputs_of_healthy() {
  Inputs inputs;
  inputs.eal = {"-l", "2,3", "-a", "0000:03:00.0"};
  inputs.addresses = {{"eth0", "10.0.2.5"}, {"eth0", "fe80::5"}, {"eth1", "192.0.2.1"}};
  inputs.kernels = {{"avx512", true}, {"avx2", true}, {"scalar", true}};
  inputs.dpdk_version = "DPDK 22.11";
  inputs.pmd_folder = "/usr/lib/pmds";
  inputs.config.privileges.user = User{"weir", 990, 990};
  return inputs;
}

Report examine_tree(const TemporaryTree& tree, Inputs inputs) {
  inputs.root = tree.root();
  const weir::Result<Report> report = examine(inputs);
  if (!report) FAIL(report.error());
  return *report;
}

std::vector<Finding> findings_of(const Report& report, const std::string& section, const std::string& check) {
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

const std::string kCpu = "sys/devices/system/cpu/";
const std::string kCard = "sys/bus/pci/devices/0000:03:00.0/";
const std::string kNode0 = "sys/devices/system/node/node0/hugepages/hugepages-2048kB/";
const std::string kGroup = "sys/fs/cgroup/system.slice/weir.service/";
const std::string kStatus = "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0\nSeccomp:\t2\nCpus_allowed_list:\t0-7\n";
const std::string kUser = "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n";
const std::vector<std::string> kNoCard = {"-l", "2,3"};
// A kernel driver instead of DPDK's, and the login on another card.
const Files kKernelDriver = {{kCard + "driver", "-> ../../drivers/ixgbe"}, {kCard + "net/eth2/mtu", "1500"}};

Files with(Files files, const Files& more) {
  for (const auto& [path, content] : more) files[path] = content;
  return files;
}

void check_rows(const std::vector<Row>& rows) {
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
    CHECK_THAT(found[0].found, Catch::Matchers::Contains(row.found));
    CHECK_THAT(found[0].fix, Catch::Matchers::Contains(row.fix));
    CHECK(found[0].fix.empty() == (row.health == Health::ok || row.health == Health::unknown));
  }
}

}  // namespace

TEST_CASE("a machine that is prepared well has nothing but ok") {
  const Report report = examine_tree(TemporaryTree(healthy_machine()), inputs_of_healthy());
  INFO(as_text(report));
  CHECK(report.count(Health::ok) > 30);
  CHECK(report.count(Health::hint) == 0);
  CHECK(report.count(Health::problem) == 0);
  CHECK(report.count(Health::unknown) == 0);
}

TEST_CASE("the workers' CPUs are there, allowed and apart") {
  const auto sibling = [](const char* cpu) { return kCpu + "cpu" + cpu + "/topology/thread_siblings_list"; };
  check_rows({
      {"cpu", "present", Health::ok, "CPUs 2,3 online, of 0-7", "", {}},
      {"cpu", "present", Health::problem, "CPU 9 not there", "-l 2,3", {}, {"-l", "3,9"}},
      {"cpu",
       "present",
       Health::problem,
       "CPU 3 offline",
       "tee /sys/devices/system/cpu/cpu3/online",
       {{kCpu + "online", "0-2,4-7"}}},
      {"cpu", "present", Health::unknown, "cannot be read", "", {{kCpu + "online", "0-x"}}},
      {"cpu",
       "allowed",
       Health::problem,
       "CPU 3 not allowed, only 0-2",
       "AllowedCPUs=2,3",
       {{"proc/self/status", kUser + "Cpus_allowed_list:\t0-2\n"}, {kGroup + "cpuset.cpus.effective", "0-2"}}},
      {"cpu",
       "allowed",
       Health::hint,
       "CPU 3 not allowed",
       "taskset",
       {{"proc/self/status", kUser + "Cpus_allowed_list:\t0-2\n"}}},
      {"cpu", "allowed", Health::unknown, "Cpus_allowed_list", "", {{"proc/self/status", kUser}}},
      {"cpu", "left", Health::hint, "CPU 0", "dataplane -l 2,3", {}, {"-l", "0,2"}},
      {"cpu", "left", Health::hint, "no CPU is left", "fewer workers", {}, {"-c", "ff"}},
      {"cpu", "own-cpu", Health::hint, "share CPU 2", "-l 2,3", {}, {"--lcores", "0@2,1@2"}},
      {"cpu",
       "own-core",
       Health::hint,
       "SMT siblings (CPUs 2,3)",
       "dataplane -l 1,2",
       {{sibling("2"), "2-3"}, {sibling("3"), "2-3"}, {kCpu + "isolated", "2"}}},
      {"cpu",
       "own-core",
       Health::hint,
       "CPU 6: SMT sibling",
       "tee /sys/devices/system/cpu/cpu6/online",
       {{sibling("2"), "2,6"}, {sibling("6"), "2,6"}}},
      {"cpu", "own-core", Health::ok, "isolated too: 6", "", {{sibling("2"), "2,6"}, {kCpu + "isolated", "2,3,6"}}},
      {"cpu", "own-core", Health::unknown, "thread_siblings_list", "", {{sibling("3"), std::nullopt}}},
  });
}

TEST_CASE("isolation of the workers' CPUs, and time on them") {
  const Files version_1 = {{"proc/self/cgroup", "3:cpuset:/\n1:cpu,cpuacct:/weir\n"},
                           {"proc/self/mountinfo", "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"},
                           {"sys/fs/cgroup/cpu/weir/cpu.cfs_period_us", "100000"}};
  const std::string quota_1 = "sys/fs/cgroup/cpu/weir/cpu.cfs_quota_us";
  check_rows({
      {"cpu", "isolated", Health::hint, "CPU 3", "isolcpus=managed_irq,domain,2,3", {{kCpu + "isolated", "2"}}},
      {"cpu",
       "isolated",
       Health::ok,
       "covers",
       "",
       {{kCpu + "isolated", ""}, {"sys/fs/cgroup/cpuset.cpus.isolated", "2-3"}}},
      {"cpu", "isolated", Health::unknown, "isolcpus", "", {{kCpu + "isolated", "\xff"}}},
      {"cpu",
       "isolated",
       Health::hint,
       "CPU 0",
       "dataplane -l 2, and boot with isolcpus=managed_irq,domain,2,3",
       {},
       {"-l", "0"}},
      {"cpu", "tick", Health::hint, "CPUs 2,3", "nohz_full=2,3", {{kCpu + "nohz_full", ""}}},
      {"cpu", "tick", Health::ok, "covers", "", {{kCpu + "nohz_full", "(null)"}}},  // the command line tells
      {"cpu", "tick", Health::unknown, "CONFIG_NO_HZ_FULL", "", {{kCpu + "nohz_full", std::nullopt}}},
      {"cpu",
       "rcu",
       Health::hint,
       "CPUs 2,3",
       "rcu_nocbs=2,3",
       {{kCpu + "nohz_full", ""}, {"proc/cmdline", "quiet iommu=pt"}}},
      {"cpu", "rcu", Health::ok, "covers", "", {{"proc/cmdline", "quiet iommu=pt"}}},  // nohz_full does it
      {"cpu", "rcu", Health::unknown, "rcu_nocbs", "", {{"proc/cmdline", std::nullopt}}},
      {"cpu", "quota", Health::problem, "allows 1.50 CPUs", "CPUQuota=", {{kGroup + "cpu.max", "150000 100000"}}},
      {"cpu",
       "quota",
       Health::problem,
       "system.slice/cpu.max allows 2.00",
       "echo max",
       {{"sys/fs/cgroup/system.slice/cpu.max", "200000 100000"}}},
      {"cpu", "quota", Health::ok, "allows 4.00", "", {{kGroup + "cpu.max", "400000 100000"}}},
      {"cpu", "quota", Health::ok, "no control group", "", {{kGroup + "cpu.max", "garbage 0"}}},
      {"cpu", "quota", Health::problem, "cpu.cfs_quota_us allows 0.50",
       "CPUQuota=", with(version_1, {{quota_1, "50000"}})},
      {"cpu", "quota", Health::ok, "no control group", "", with(version_1, {{quota_1, "-1"}})},
      {"cpu", "quota", Health::unknown, "cgroup", "", {{"proc/self/cgroup", std::nullopt}}},
  });
}

TEST_CASE("what slows the workers' CPUs down or interrupts them") {
  const std::string vm = "flags : constant_tsc nonstop_tsc hypervisor\n";
  const auto stat = [](const char* steal) {
    return std::string("cpu2 1 0 1 997 0 0 0 0 0 0\ncpu3 1 0 1 997 0 0 0 ") + steal + " 0 0\n";
  };
  const auto policy = [](const char* number) {
    return std::string("7 (a) b) S 1 7 7 0 -1 4 1 0 0 0 0 0 0 0 20 0 1 0 5 1 1 1 1 1 1 1 1 0 0 0 0 0 0 0 17 1 5 ") +
           number + " 0 0 0";
  };
  const std::string clock = "sys/devices/system/clocksource/clocksource0/current_clocksource";
  const Files no_frequency = {{kCpu + "cpu3/cpufreq/scaling_governor", std::nullopt},
                              {kCpu + "cpu3/cpufreq/scaling_max_freq", "x"}};
  check_rows({
      {"quiet",
       "irqs",
       Health::hint,
       "1 of 2 interrupts may come to a worker's CPU, 0 do now",
       "echo 0,1,4-7",
       {{"proc/irq/25/smp_affinity_list", "0-7"}, {"proc/irq/25/effective_affinity_list", "0"}}},
      {"quiet",
       "irqs",
       Health::hint,
       "1 of 1",
       "IRQBALANCE_BANNED_CPULIST=2,3",
       {{"proc/irq/24/smp_affinity_list", "2"}}},
      {"quiet", "irqs", Health::unknown, "smp_affinity_list", "", {{"proc/irq/24/smp_affinity_list", "3-1"}}},
      {"quiet",
       "governor",
       Health::hint,
       "CPU 3: powersave",
       "tee /sys/devices/system/cpu/cpu3/cpufreq",
       {{kCpu + "cpu3/cpufreq/scaling_governor", "powersave"}}},
      {"quiet", "governor", Health::unknown, "firmware", "", no_frequency},
      {"quiet",
       "frequency",
       Health::hint,
       "CPU 2 held to 2000 of 3500 MHz",
       "echo 3500000",
       {{kCpu + "cpu2/cpufreq/scaling_max_freq", "2000000"}}},
      {"quiet", "frequency", Health::unknown, "CPU 3", "", no_frequency},
      {"quiet", "turbo", Health::hint, "off", "no_turbo", {{kCpu + "intel_pstate/no_turbo", "1"}}},
      {"quiet",
       "turbo",
       Health::hint,
       "off",
       "cpufreq/boost",
       {{kCpu + "intel_pstate/no_turbo", std::nullopt}, {kCpu + "cpufreq/boost", "0"}}},
      {"quiet", "turbo", Health::unknown, "boost", "", {{kCpu + "intel_pstate/no_turbo", "?"}}},
      {"quiet",
       "c-states",
       Health::hint,
       "C6, 133 us",
       "cpupower idle-set -D 10",
       {{kCpu + "cpu2/cpuidle/state3/name", "C6"}, {kCpu + "cpu2/cpuidle/state3/latency", "133"}}},
      {"quiet",
       "c-states",
       Health::ok,
       "C1, 2 us",
       "",
       {{kCpu + "cpu2/cpuidle/state3/latency", "133"}, {kCpu + "cpu2/cpuidle/state3/disable", "1"}}},
      {"quiet",
       "c-states",
       Health::unknown,
       "no cpuidle",
       "",
       {{kCpu + "cpu2/cpuidle/state1/latency", "x"}, {kCpu + "cpu3/cpuidle/state1/latency", "-1"}}},
      {"quiet", "vm", Health::ok, "took 0.00 %", "", {{"proc/cpuinfo", vm}, {"proc/stat", stat("0")}}},
      {"quiet", "vm", Health::hint, "took 0.10 %", "vcpupin", {{"proc/cpuinfo", vm}, {"proc/stat", stat("1")}}},
      {"quiet", "vm", Health::unknown, "/proc/stat", "", {{"proc/cpuinfo", vm}, {"proc/stat", "cpu3 1"}}},
      {"quiet", "scheduling", Health::hint, "950000 us", "chrt", {{"proc/self/stat", policy("1")}}},
      {"quiet",
       "scheduling",
       Health::hint,
       "starves",
       "chrt",
       {{"proc/self/stat", policy("2")}, {"proc/sys/kernel/sched_rt_runtime_us", "-1"}}},
      {"quiet", "scheduling", Health::unknown, "policy", "", {{"proc/self/stat", "7 (a"}}},
      {"quiet", "clock", Health::hint, "hpet", "echo tsc", {{clock, "hpet"}}},
      {"quiet", "clock", Health::hint, "not steady", "frequency", {{"proc/cpuinfo", "flags : constant_tsc\n"}}},
      {"quiet", "clock", Health::unknown, "cannot be read", "", {{clock, std::nullopt}}},
      {"quiet", "numa-balancing", Health::hint, "on", "numa_balancing=0", {{"proc/sys/kernel/numa_balancing", "1"}}},
      {"quiet",
       "numa-balancing",
       Health::ok,
       "one NUMA node",
       "",
       {{"proc/sys/kernel/numa_balancing", "1"}, {"sys/devices/system/node/online", "0"}}},
      {"quiet", "numa-balancing", Health::unknown, "read", "", {{"proc/sys/kernel/numa_balancing", "yes"}}},
      {"quiet",
       "mitigations",
       Health::ok,
       "1 active, 1 left open",
       "",
       {{kCpu + "vulnerabilities/mds", "Vulnerable: no microcode"}}},
  });
}

TEST_CASE("huge pages of each node in use, as many as the configuration wants") {
  const auto terabyte = [](Inputs& inputs) { inputs.config.snapshot_memory = uint64_t{1} << 40; };
  const auto few_mbufs = [](Inputs& inputs) { inputs.config.mbufs = 1000; };
  const Files version_1 = {{"proc/self/cgroup", "5:hugetlb:/weir\n"},
                           {"proc/self/mountinfo", "32 31 0:29 / /cg/h rw - cgroup cgroup rw,hugetlb\n"},
                           {"cg/h/weir/hugetlb.2MB.limit_in_bytes", "1048576"}};
  const std::string limits = "Max locked memory ";
  check_rows({
      // 1 GiB; 1000 * (192 + 2176) bytes and 4 MiB are 4 pages
      {"memory",
       "node0",
       Health::ok,
       "516 pages of 2 MiB needed (1 GiB snapshot_memory, about 7 MiB",
       "",
       {},
       {},
       few_mbufs},
      {"memory",
       "node0",
       Health::problem,
       "416 missing",
       "echo 616 > /sys/devices/system/node/node0/hugepages",
       {{kNode0 + "free_hugepages", "100"}, {kNode0 + "nr_hugepages", "200"}},
       {},
       few_mbufs},
      {"memory",
       "node0",
       Health::problem,
       "524292 pages of 2 MiB needed (1024 GiB",
       "16 GiB in all: lower snapshot_memory",
       {},
       {},
       [](Inputs& inputs) { inputs.config.mbufs = 1000, inputs.config.snapshot_memory = uint64_t{1} << 40; }},
      {"memory", "node1", Health::ok, "512 pages", "", {}, {"-l", "2,4", "-a", "03:00.0"}},
      {"memory", "node0", Health::unknown, "2 MiB", "", {{kNode0 + "free_hugepages", "many"}}},
      {"memory", "node", Health::hint, "--no-huge", "leave --no-huge out", {}, {"-l", "2,3", "--no-huge"}, terabyte},
      {"memory", "sizes", Health::ok, "2 MiB: 1200 (1200 free)", "", {}},
      {"memory",
       "sizes",
       Health::unknown,
       "no size",
       "",
       {{"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", std::nullopt}}},
      {"memory",
       "mount",
       Health::hint,
       "asks for files",
       "mount -t hugetlbfs",
       {{"proc/mounts", "proc /proc proc rw 0 0"}},
       {"-l", "2,3", "--file-prefix=x"}},
      {"memory", "mount", Health::ok, "--in-memory needs none", "", {{"proc/mounts", ""}}},
      {"memory", "mount", Health::unknown, "cannot be read", "", {{"proc/mounts", std::nullopt}}},
      {"memory",
       "cgroup",
       Health::problem,
       "hugetlb.2MB.max is 512 MiB",
       "echo 1",
       {{kGroup + "hugetlb.2MB.max", "536870912"}}},
      {"memory", "cgroup", Health::problem, "limit_in_bytes is 1 MiB", "echo 1", version_1},
      {"memory", "cgroup", Health::unknown, "read", "", {{"proc/self/cgroup", std::nullopt}}},
      {"memory",
       "transparent",
       Health::hint,
       "never",
       "echo madvise",
       {{"sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]"}}},
      {"memory", "transparent", Health::unknown, "read", "", {{"sys/kernel/mm/transparent_hugepage/enabled", "]["}}},
      {"memory",
       "memlock",
       Health::problem,
       "8 MiB",
       "ulimit -l",
       {{"proc/self/status", kStatus}},
       {"-l", "2", "-a", "03:00.0"}},
      {"memory", "memlock", Health::hint, "8 MiB", "LimitMEMLOCK", {{"proc/self/status", kStatus}}, kNoCard},
      {"memory",
       "memlock",
       Health::ok,
       "unlimited",
       "",
       {{"proc/self/status", kStatus}, {"proc/self/limits", limits + "unlimited unlimited bytes"}}},
      {"memory",
       "memlock",
       Health::unknown,
       "number",
       "",
       {{"proc/self/status", kStatus}, {"proc/self/limits", limits + "lots lots bytes"}}},
      {"memory", "memlock", Health::unknown, "limits", "", {{"proc/self/limits", std::nullopt}}},
  });
}

TEST_CASE("IOMMU, VFIO and nodes") {
  const Files no_groups = {{"sys/kernel/iommu_groups/7/devices/0000:03:00.0", std::nullopt}};
  const std::string unsafe = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
  const std::string vm = "flags : hypervisor\n";
  check_rows({
      {"numa", "nodes", Health::unknown, "read", "", {{"sys/devices/system/node/online", ""}}},
      {"numa", "0000:03:00.0", Health::ok, "node 0, as a worker", "", {}},
      {"numa", "0000:03:00.0", Health::hint, "on node 1, no worker is", "CPUs of 4-7", {{kCard + "numa_node", "1"}}},
      {"numa", "0000:03:00.0", Health::unknown, "firmware", "", {{kCard + "numa_node", "-1"}}},
      {"iommu", "groups", Health::ok, "1 group", "", {}},
      {"iommu", "groups", Health::hint, "off", "intel_iommu=on iommu=pt", no_groups},
      {"iommu", "groups", Health::hint, "off", "AMD-Vi",
       with(no_groups, {{"proc/cpuinfo", "vendor_id : AuthenticAMD\n"}})},
      {"iommu", "groups", Health::hint, "off", "QEMU", with(no_groups, {{"proc/cpuinfo", vm}})},
      {"iommu", "groups", Health::ok, "no card here", "", with(no_groups, {{kCard + "class", "0x010000"}})},
      {"iommu", "passthrough", Health::hint, "translates", "iommu=pt", {{"proc/cmdline", "intel_iommu=on"}}},
      {"iommu", "passthrough", Health::ok, "no IOMMU", "", with(no_groups, {{"proc/cmdline", ""}})},
      {"iommu", "passthrough", Health::unknown, "cmdline", "", {{"proc/cmdline", std::nullopt}}},
      {"iommu",
       "vfio",
       Health::hint,
       "not loaded",
       "modprobe vfio-pci",
       {{"sys/bus/pci/drivers/vfio-pci/new_id", std::nullopt}}},
      {"iommu", "vfio", Health::hint, "/dev/vfio/vfio is missing", "modprobe", {{"dev/vfio/vfio", std::nullopt}}},
      {"iommu", "no-iommu mode", Health::hint, "on", "echo N", {{unsafe, "Y"}}},
      {"iommu", "no-iommu mode", Health::unknown, "neither", "", {{unsafe, "0"}}},
      {"iommu", "0000:03:00.0 group", Health::ok, "group 7", "", {}},
      {"iommu",
       "0000:03:00.0 group",
       Health::problem,
       "0000:00:19.0 (e1000e)",
       "ACS",
       {{"sys/kernel/iommu_groups/7/devices/0000:00:19.0", "-> x"}}},
      {"iommu",
       "0000:03:00.0 group",
       Health::ok,
       "shared with no",
       "",
       {{"sys/kernel/iommu_groups/7/devices/0000:02:00.0", "-> x"},
        {"sys/bus/pci/devices/0000:02:00.0/driver", "-> ../../drivers/pcieport"},
        {"sys/bus/pci/devices/0000:02:00.0/class", "0x060400"}}},
  });
}

TEST_CASE("drivers of network cards, and what each card carries") {
  const std::string login = "carries an SSH session (10.0.2.5), the default route";
  const Files no_iommu = {{"sys/kernel/iommu_groups/7/devices/0000:03:00.0", std::nullopt}};
  const Files no_modules = with(no_iommu, {{"proc/modules", std::nullopt}});
  const Files other_login = {{"proc/net/route", ""}, {"proc/net/tcp", ""}};
  check_rows({
      {"cards", "ports", Health::ok, "1 card and 0 virtual", "", {}},
      {"cards", "ports", Health::hint, "two virtual ones", "-a", kKernelDriver, {"-l", "2", "-b", "81:00.0"}},
      {"cards", "0000:03:00.0", Health::ok, "vfio-pci: used", "", {}},
      {"cards", "0000:03:00.0", Health::ok, "not used with these options", "", {}, {"-l", "2", "-a", "81:00.0"}},
      {"cards",
       "0000:03:00.0",
       Health::hint,
       "without the IOMMU",
       "dpdk-devbind.py -b vfio-pci 0000:03:00.0",
       {{kCard + "driver", "-> ../../drivers/uio_pci_generic"}}},
      {"cards", "0000:03:00.0", Health::problem, "ixgbe, eth2: DPDK cannot",
       "ip link set eth2 down; dpdk-devbind.py -b vfio-pci 0000:03:00.0", kKernelDriver},
      {"cards", "0000:03:00.0", Health::problem, "no driver", "dpdk-devbind.py", {{kCard + "driver", std::nullopt}}},
      {"cards", "0000:03:00.0", Health::problem, "ixgbe",
       "modprobe uio_pci_generic; dpdk-devbind.py -b uio_pci_generic", with(kKernelDriver, no_iommu)},
      {"cards", "0000:03:00.0", Health::problem, "ixgbe", "enable_unsafe_noiommu_mode=1; dpdk-devbind.py -b vfio-pci",
       with(with(kKernelDriver, no_iommu), {{kCard + "physfn", "-> x"}})},
      {"cards", "0000:03:00.0", Health::problem, "ixgbe", "loads no modules", with(kKernelDriver, no_modules)},
      {"cards",
       "0000:03:00.0",
       Health::hint,
       "could use it",
       "dataplane -a 0000:03:00.0",
       kKernelDriver,
       {"-l", "2", "-b", "81:00.0"}},
      {"cards", "0000:00:19.0", Health::ok, (login + ": leave it").c_str(), "", {}},
      {"cards", "0000:00:19.0", Health::problem, login.c_str(), "never bind", {}, {"-l", "2", "-a", "00:19.0"}},
      {"cards", "0000:00:19.0", Health::ok, "SSH session (fe80::5)", "",
       with(other_login, {{"proc/net/tcp6", "h\n 0: 000080FE000000000000000005000000:0016 0:0 01\n"}})},
      {"cards", "0000:00:19.0", Health::ok, "SSH session (10.0.2.5)", "",
       with(other_login, {{"proc/net/tcp6", "h\n 0: 0000000000000000FFFF00000502000A:0016 0:0 01\n"}})},
      {"cards",
       "0000:00:19.0",
       Health::ok,
       "SSH session (10.0.2.5)",
       "",
       other_login,
       {},
       [](Inputs& inputs) { inputs.ssh_connection = "10.0.2.9 40000 10.0.2.5 2222"; }},
      {"cards", "0000:00:19.0", Health::ok, "not used", "",
       with(other_login, {{"proc/net/tcp", "h\n 0: 0502000A:0016 0:0 0A\n 1: 0502000A:0050 0:0 01\n"}})},
      {"cards",
       "0000:00:19.0",
       Health::ok,
       "the default route (of br0)",
       "",
       {{"proc/net/route", "br0 00000000 0102000A 0003 0 0 0 00000000 0 0 0\n"},
        {"proc/net/tcp", ""},
        {"sys/class/net/eth0/upper_br0", "-> x"},
        {"sys/class/net/br0/upper_br0", "-> x"}}},
      {"cards", "0000:81:00.0", Health::ok, "stays with its kernel driver", "", {}, {"-l", "2", "-a", "81:00.0"}},
      {"cards",
       "0000:81:00.0",
       Health::problem,
       "IPv6 default route, and these options take it",
       "-b 0000:81:00.0",
       {{"proc/net/ipv6_route",
         std::string(32, '0') + " 00 " + std::string(32, '0') + " 00 0 400 1 0 00000003 eth1\n"}},
       {"-l", "2"}},
      {"cards",
       "0000:09:00.0",
       Health::problem,
       "no such device",
       "--status-dev net",
       {},
       {"-l", "2", "-a", "09:00.0,x=1"}},
      {"cards", "0000:03:00.0 link", Health::ok, "8.0 GT/s PCIe x8", "", {}},
      {"cards",
       "0000:03:00.0 link",
       Health::hint,
       "x4, the card can 8.0 GT/s PCIe x8",
       "slot",
       {{kCard + "current_link_width", "4"}}},
      {"cards",
       "0000:03:00.0 link",
       Health::hint,
       "2.5 GT/s PCIe x8",
       "slot",
       {{kCard + "current_link_speed", "2.5 GT/s PCIe"}}},
      {"cards", "0000:03:00.0 link", Health::unknown, "link", "", {{kCard + "max_link_speed", "Unknown"}}},
      {"cards",
       "net_af_packet0,iface=eth7",
       Health::problem,
       "no interface 'eth7'",
       "ip link",
       {},
       {"-l", "2", "--vdev=net_af_packet0,iface=eth7"}},
      {"cards",
       "net_af_packet0,iface=eth1",
       Health::ok,
       "is there",
       "",
       {},
       {"-l", "2", "--vdev", "net_af_packet0,iface=eth1"}},
      {"cards", "usb0", Health::ok, "not on PCI", "", {{"sys/class/net/usb0/device/driver", "-> ../drivers/r8152"}}},
  });
}

TEST_CASE("rights, limits, instructions and software") {
  check_rows({
      {"process",
       "user",
       Health::hint,
       "user 1000, without CAP_NET_ADMIN",
       "start as root",
       {{"proc/self/status", kStatus}}},
      {"process",
       "user",
       Health::hint,
       "root, without CAP_NET_ADMIN",
       "CapabilityBoundingSet",
       {{"proc/self/status", "Uid:\t0\t0\t0\t0\nCapEff:\t1\nCpus_allowed_list: 0-7\n"}}},
      {"process", "user", Health::unknown, "Uid", "", {{"proc/self/status", "CapEff: z"}}},
      {"process", "becomes", Health::ok, "user weir", "", {}},
      {"process", "becomes", Health::ok, "nobody else", "", {{"proc/self/status", kStatus}}},
      {"process",
       "becomes",
       Health::problem,
       "there is no user weir",
       "useradd --system weir",
       {},
       {},
       [](Inputs& inputs) { inputs.config.privileges.user.reset(); }},
      {"process",
       "becomes",
       Health::hint,
       "it stays root",
       "useradd --system weir",
       {},
       {},
       [](Inputs& inputs) {
         inputs.config.privileges.user = User{"root", 0, 0};
       }},
      {"process", "seccomp", Health::ok, "filter is on already", "", {{"proc/self/status", kStatus}}},
      {"process", "seccomp", Health::unknown, "Seccomp", "", {{"proc/self/status", ""}}},
      {"process",
       "open files",
       Health::hint,
       "256",
       "ulimit -n",
       {{"proc/self/limits", "Max open files  256 256 files"}}},
      {"process", "open files", Health::unknown, "limits", "", {{"proc/self/limits", "Max open files"}}},
      {"software",
       "instructions",
       Health::hint,
       "kernels scalar; the processor lacks what avx512 and avx2 needs",
       "processor",
       {},
       {},
       [](Inputs& inputs) { inputs.kernels[0].usable = inputs.kernels[1].usable = false; }},
      {"software",
       "instructions",
       Health::unknown,
       "no filter kernels",
       "",
       {},
       {},
       [](Inputs& inputs) { inputs.kernels.clear(); }},
      {"software",
       "forced",
       Health::hint,
       "slower than avx512",
       "unset",
       {},
       {},
       [](Inputs& inputs) { inputs.forced_isa = "avx2"; }},
      {"software",
       "forced",
       Health::problem,
       "no such",
       "unset",
       {},
       {},
       [](Inputs& inputs) { inputs.forced_isa = "sse"; }},
      {"software",
       "drivers",
       Health::problem,
       "no librte_net",
       "apt-get",
       {{"usr/lib/pmds/librte_net_ixgbe.so", std::nullopt}}},
      {"software", "drivers", Health::ok, "linked", "", {}, {}, [](Inputs& inputs) { inputs.pmd_folder = ""; }},
  });
}
