#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>

// A made-up machine for the doctor: files below a temporary folder.
namespace weir::dataplane::doctor {

// path -> content. "-> TARGET" is a symbolic link; nullopt: not there.
using Files = std::map<std::string, std::optional<std::string>>;

// Nothing to complain about when started with `-l 2,3 -a 0000:03:00.0`: 8 CPUs on two nodes, one card of DPDK's, one
// that carries the login, one that stays with its kernel driver.
inline Files healthy_machine() {
  Files files = {
      {"proc/cmdline", "ro quiet intel_iommu=on iommu=pt isolcpus=managed_irq,domain,2-3 nohz_full=2-3 rcu_nocbs=2-3"},
      {"proc/cpuinfo", "vendor_id\t: GenuineIntel\nflags\t\t: fpu constant_tsc nonstop_tsc avx2\n"},
      {"proc/stat", "cpu  8 0 8 800 0 0 0 0 0 0\ncpu2 1 0 1 100 0 0 0 0 0 0\ncpu3 1 0 1 100 0 0 0 0 0 0\n"},
      {"proc/mounts", "proc /proc proc rw 0 0\nhugetlbfs /dev/hugepages hugetlbfs rw,pagesize=2M 0 0\n"},
      {"proc/meminfo", "MemTotal: 33554432 kB\n"},
      {"proc/modules", "vfio 1 0 - Live 0x0\n"},
      {"proc/irq/24/smp_affinity_list", "0-1,4-7"},
      {"proc/irq/24/effective_affinity_list", "1"},
      {"proc/self/status",
       "Name:\tdataplane\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n"
       "Cpus_allowed_list:\t0-7\n"},
      {"proc/self/stat",
       "7 (data plane) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 5 1 1 1 1 1 1 1 1 0 0 0 0 0 0 0 "
       "17 1 0 0 0 0 0"},
      {"proc/self/limits",
       "Limit                     Soft Limit           Hard Limit           Units\n"
       "Max open files            524288               524288               files\n"
       "Max locked memory         8388608              8388608              bytes\n"},
      {"proc/self/cgroup", "0::/system.slice/weir.service\n"},
      {"proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"},
      {"sys/fs/cgroup/system.slice/weir.service/cpu.max", "max 100000"},
      {"sys/fs/cgroup/system.slice/weir.service/hugetlb.2MB.max", "max"},
      {"sys/fs/cgroup/system.slice/weir.service/cpuset.cpus.effective", "0-7"},
      {"proc/sys/kernel/numa_balancing", "0"},
      {"proc/sys/kernel/sched_rt_runtime_us", "950000"},
      {"proc/sys/kernel/seccomp/actions_avail", "kill_process allow"},
      {"proc/net/route",
       "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
       "eth0\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"},
      {"proc/net/tcp", "  sl  local_address rem_address   st\n   0: 0502000A:0016 0902000A:D431 01 0:0\n"},
      {"sys/devices/system/cpu/online", "0-7"},
      {"sys/devices/system/cpu/present", "0-7"},
      {"sys/devices/system/cpu/isolated", "2-3"},
      {"sys/devices/system/cpu/nohz_full", "2-3"},
      {"sys/devices/system/cpu/intel_pstate/no_turbo", "0"},
      {"sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI"},
      {"sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc"},
      {"sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm"},
      {"sys/devices/system/node/online", "0-1"},
      {"sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never"},
      {"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "1200"},
      {"sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "1200"},
      {"sys/kernel/iommu_groups/7/devices/0000:03:00.0", "-> x"},
      {"sys/bus/pci/drivers/vfio-pci/new_id", ""},
      {"sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "N"},
      {"dev/vfio/vfio", ""},
      {"usr/lib/pmds/librte_net_ixgbe.so.23", ""},
      {"usr/lib/pmds/librte_net_mlx5.so.23", ""},
  };
  for (int cpu = 0; cpu < 8; cpu++) {
    const std::string number = std::to_string(cpu);
    const std::string folder = "sys/devices/system/cpu/cpu" + number + "/";
    files[folder + "topology/thread_siblings_list"] = number;
    files[folder + (cpu < 4 ? "node0" : "node1")] = "-> x";
    files[folder + "cpufreq/scaling_governor"] = "performance";
    files[folder + "cpufreq/scaling_max_freq"] = "3500000";
    files[folder + "cpufreq/cpuinfo_max_freq"] = "3500000";
    files[folder + "cpuidle/state1/name"] = "C1";
    files[folder + "cpuidle/state1/latency"] = "2";
  }
  for (const char* node : {"0", "1"}) {
    const std::string folder = std::string("sys/devices/system/node/node") + node + "/";
    files[folder + "cpulist"] = *node == '0' ? "0-3" : "4-7";
    files[folder + "meminfo"] = std::string("Node ") + node + " MemTotal:       16777216 kB\n";
    files[folder + "hugepages/hugepages-2048kB/nr_hugepages"] = "600";
    files[folder + "hugepages/hugepages-2048kB/free_hugepages"] = "600";
  }
  const auto add_card = [&](const std::string& address, const char* driver, const char* node) {
    const std::string folder = "sys/bus/pci/devices/" + address + "/";
    files[folder + "class"] = "0x020000";
    files[folder + "vendor"] = "0x8086";
    files[folder + "device"] = "0x1572";
    files[folder + "driver"] = std::string("-> ../../drivers/") + driver;
    files[folder + "numa_node"] = node;
    for (const char* end : {"current", "max"}) {
      files[folder + end + "_link_speed"] = "8.0 GT/s PCIe";
      files[folder + end + "_link_width"] = "8";
    }
  };
  add_card("0000:03:00.0", "vfio-pci", "0");
  files["sys/bus/pci/devices/0000:03:00.0/iommu_group"] = "-> ../../kernel/iommu_groups/7";
  add_card("0000:00:19.0", "e1000e", "0");
  files["sys/bus/pci/devices/0000:00:19.0/net/eth0/mtu"] = "1500";
  files["sys/class/net/eth0/device"] = "-> ../../../bus/pci/devices/0000:00:19.0";
  add_card("0000:81:00.0", "mlx5_core", "1");
  files["sys/bus/pci/devices/0000:81:00.0/net/eth1/mtu"] = "1500";
  files["sys/class/net/eth1/device"] = "-> ../../../bus/pci/devices/0000:81:00.0";
  return files;
}

// The files below a folder of their own, which goes with it.
class TemporaryTree {
 public:
  explicit TemporaryTree(Files files) : files_(std::move(files)) {
    std::string name = (std::filesystem::temp_directory_path() / "weir-doctor-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    root_ = name;
    for (const auto& [path, content] : files_) write(path, content);
  }
  TemporaryTree(const TemporaryTree&) = delete;
  TemporaryTree& operator=(const TemporaryTree&) = delete;
  ~TemporaryTree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  std::string root() const { return root_.string(); }
  void apply(const Files& change) {
    for (const auto& [path, content] : change) write(path, content);
  }
  // Undoes it; folders that it made go, too.
  void revert(const Files& change) {
    for (const auto& [path, content] : change) {
      const auto before = files_.find(path);
      write(path, before == files_.end() ? std::nullopt : before->second);
    }
  }

 private:
  void write(const std::string& path, const std::optional<std::string>& content) {
    const std::filesystem::path file = root_ / path;
    std::filesystem::remove(file);
    if (!content) {
      std::error_code not_empty;
      for (auto folder = file.parent_path(); std::filesystem::remove(folder, not_empty);) folder = folder.parent_path();
      return;
    }
    std::filesystem::create_directories(file.parent_path());
    if (content->starts_with("-> ")) {
      std::filesystem::create_symlink(content->substr(3), file);
    } else {
      std::ofstream(file, std::ios::binary) << *content;
    }
  }

  Files files_;
  std::filesystem::path root_;
};

}  // namespace weir::dataplane::doctor
