#include "dataplane/doctor/subject.h"

#include <algorithm>

namespace weir::dataplane::doctor {

namespace {

// As look_at_machine(), below any root.
Machine machine_of(const Tree& tree) {
  Machine machine;
  const std::string uids = tree.value("proc/self/status", "Uid").value_or("");
  const std::vector<std::string_view> uid = words_of(uids);  // real, effective, saved, file system
  machine.root = uid.size() > 1 && uid[1] == "0";
  for (const std::string& size : tree.names("sys/kernel/mm/hugepages")) {
    machine.huge_pages |= tree.number("sys/kernel/mm/hugepages/" + size + "/free_hugepages").value_or(0) > 0;
  }
  machine.huge_mount = machine.root && tree.text("proc/mounts").value_or("").find(" hugetlbfs ") != std::string::npos;
  const std::optional<Cpus> affinity = parse_cpus(tree.value("proc/self/status", "Cpus_allowed_list").value_or(""));
  if (affinity && !affinity->empty()) machine.first_cpu = static_cast<int>(*affinity->begin());
  return machine;
}

// CPUs for as many workers: of the online ones, not 0, one per core, isolated ones and those of the present nodes
// first.
Cpus advise(const Subject& subject, size_t count) {
  const Cpus isolated = subject.tree.cpus("sys/devices/system/cpu/isolated").value_or(Cpus{});
  const std::set<int64_t> nodes = subject.worker_nodes();
  std::vector<std::pair<int, unsigned>> ranked;  // lower is better
  for (const unsigned cpu : subject.online) {
    if (subject.siblings_of(cpu).contains(0)) continue;
    const int rank = (isolated.contains(cpu) ? 0 : 4) + (nodes.contains(subject.numa_node_of(cpu)) ? 0 : 2) +
                     (subject.workers.contains(cpu) ? 0 : 1);
    ranked.emplace_back(rank, cpu);
  }
  std::sort(ranked.begin(), ranked.end());
  Cpus advised;
  for (const auto& [rank, cpu] : ranked) {
    if (advised.size() < count && !share_any(subject.siblings_of(cpu), advised)) advised.insert(cpu);
  }
  return advised.size() == count ? advised : Cpus{};
}

bool workers_are_placed_well(const Subject& subject) {
  Cpus taken;
  for (const Cpus& worker : subject.eal.workers) {
    if (worker.size() != 1) return false;
    const Cpus core = subject.siblings_of(*worker.begin());
    if (core.contains(0) || share_any(core, taken)) return false;
    taken.insert(*worker.begin());
  }
  return contains_all(subject.online, taken);
}

}  // namespace

Cpus Subject::siblings_of(unsigned cpu) const {
  const std::string file = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list";
  Cpus cpus = tree.cpus(file).value_or(Cpus{});
  cpus.insert(cpu);
  return cpus;
}

// As EAL takes them (eal_plugindir_init of lib/eal/common/eal_common_options.c): librte_net_ixgbe.so is there where
// programs are built, and librte_net_ixgbe.so.23 where they run.
std::set<std::string> Subject::installed_drivers() const {
  constexpr std::string_view kBegin = "librte_net_", kEnd = ".so";
  std::set<std::string> drivers;
  const std::string& folder = inputs.pmd_folder;
  if (folder.empty()) return drivers;
  for (const std::string& name : tree.names(folder.substr(folder.find_first_not_of('/')))) {
    const size_t end = name.find(kEnd);
    if (!name.starts_with(kBegin) || end == std::string::npos) continue;
    drivers.insert(name.substr(kBegin.size(), end - kBegin.size()));
  }
  return drivers;
}

int64_t Subject::numa_node_of(unsigned cpu) const {
  for (const std::string& name : tree.names("sys/devices/system/cpu/cpu" + std::to_string(cpu))) {
    if (!name.starts_with("node")) continue;
    if (const std::optional<int64_t> node = parse_number(name.substr(4)); node && *node >= 0) return *node;
  }
  return 0;
}

std::set<int64_t> Subject::worker_nodes() const {
  std::set<int64_t> nodes;
  for (const unsigned cpu : workers) nodes.insert(numa_node_of(cpu));
  return nodes;
}

Result<Subject> look_at(const Inputs& inputs) {
  const Tree tree(inputs.root);
  const Machine machine = machine_of(tree);
  EalArguments completed = complete_eal_arguments(inputs.eal, machine);
  Result<EalOptions> eal = parse_eal_options(completed.arguments);
  if (!eal) return Error{eal.error()};
  Subject subject{tree, inputs, machine, std::move(completed), std::move(*eal), {}, {}, {}, {}, false, false};
  subject.online = tree.cpus("sys/devices/system/cpu/online").value_or(Cpus{});
  for (const Cpus& worker : subject.eal.workers) subject.workers.insert(worker.begin(), worker.end());
  const bool good = workers_are_placed_well(subject);
  subject.advised = good ? subject.workers : advise(subject, subject.eal.workers.size());
  subject.cards = find_cards(tree, inputs, subject.eal);
  subject.iommu = !tree.names("sys/kernel/iommu_groups").empty();
  subject.virtual_machine = has_word(tree.value("proc/cpuinfo", "flags").value_or(""), "hypervisor");
  return subject;
}

std::string cpus_text(const Cpus& cpus) {
  return (cpus.size() == 1 ? "CPU " : "CPUs ") + to_text(cpus);
}

std::string cpu_files(const Cpus& cpus, const std::string& below) {
  std::vector<std::string> numbers;
  for (const unsigned cpu : cpus) numbers.push_back(std::to_string(cpu));
  const std::string list = join(numbers, ",");
  return "/sys/devices/system/cpu/cpu" + (cpus.size() == 1 ? list : "{" + list + "}") + "/" + below;
}

std::string plural(size_t count, const std::string& one) {
  return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
}

}  // namespace weir::dataplane::doctor
