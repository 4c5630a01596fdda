#include "tests/unit/dataplane/doctor/doctor_rows.h"

using namespace weir::dataplane;
using namespace weir::dataplane::doctor;

namespace {

const std::string kCpu = "sys/devices/system/cpu/";
const std::string kUser = "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n";

}  // namespace

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
