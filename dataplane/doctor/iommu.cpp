#include <fmt/format.h>

#include <algorithm>

#include "dataplane/doctor/subject.h"

// IOMMU and VFIO (kernel: driver-api/vfio.rst), and the NUMA nodes of workers and cards.
namespace weir::dataplane::doctor {

namespace {

constexpr int64_t kBridgeClass = 0x06;

// A card that DPDK drives, or could: neither bifurcated nor somebody's way in.
bool needs_vfio(const Card& card) {
  return !is_bifurcated(card.driver) && card.carries.empty();
}

bool any_needs_vfio(const Subject& subject) {
  return std::any_of(subject.cards.begin(), subject.cards.end(), needs_vfio);
}

void check_groups(const Subject& subject, Section& section) {
  if (subject.iommu) {
    const size_t groups = subject.tree.names("sys/kernel/iommu_groups").size();
    return section.ok("groups", "on: " + plural(groups, "group"));
  }
  if (!subject.tree.exists("sys/kernel")) return section.unknown("groups", "/sys/kernel/iommu_groups cannot be read");
  if (!any_needs_vfio(subject)) return section.ok("groups", "off; no card here that needs it");
  const bool amd = subject.tree.value("proc/cpuinfo", "vendor_id") == "AuthenticAMD";
  if (subject.virtual_machine) {
    return section.hint("groups", "off: cards are driven without protection of the memory (uio_pci_generic)",
                        "a virtual IOMMU for the VM (QEMU: -device intel-iommu,intremap=on), and intel_iommu=on");
  }
  section.hint("groups", "off: cards are driven without protection of the memory (uio_pci_generic)",
               fmt::format("switch it on in the firmware ({}), and boot with {}", amd ? "IOMMU, AMD-Vi" : "VT-d",
                           amd ? "iommu=pt" : "intel_iommu=on iommu=pt"),
               amd ? "iommu=pt" : "intel_iommu=on iommu=pt");
}

void check_passthrough(const Subject& subject, Section& section) {
  const std::optional<std::string> command_line = subject.tree.text("proc/cmdline");
  if (!command_line) return section.unknown("passthrough", "/proc/cmdline cannot be read");
  if (!subject.iommu) return section.ok("passthrough", "no IOMMU, nothing to pass through");
  if (has_word(*command_line, "iommu=pt") || has_word(*command_line, "iommu.passthrough=1")) {
    return section.ok("passthrough", "iommu=pt");
  }
  section.hint("passthrough", "the IOMMU translates for kernel drivers too: slower for them, mlx5 among them",
               "boot with iommu=pt", "iommu=pt");
}

void check_vfio(const Subject& subject, Section& section) {
  const bool driver = subject.tree.exists("sys/bus/pci/drivers/vfio-pci");
  const bool device = subject.tree.exists("dev/vfio/vfio");
  if (driver && device) return section.ok("vfio", "vfio-pci is loaded, /dev/vfio/vfio is there");
  if (!any_needs_vfio(subject)) return section.ok("vfio", "not loaded; no card here that needs it");
  if (!subject.iommu) return section.ok("vfio", "not loaded; without an IOMMU uio_pci_generic does");
  section.hint("vfio", driver ? "/dev/vfio/vfio is missing" : "vfio-pci is not loaded",
               "modprobe vfio-pci (at every boot: echo vfio-pci > /etc/modules-load.d/vfio-pci.conf)");
}

void check_unsafe_mode(const Subject& subject, Section& section) {
  const std::string file = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
  const std::optional<std::string> mode = subject.tree.text(file);
  if (!mode) return section.ok("no-iommu mode", "vfio has none here");
  if (*mode != "Y" && *mode != "N") return section.unknown("no-iommu mode", "/" + file + " is neither Y nor N");
  if (*mode == "N") return section.ok("no-iommu mode", "off");
  section.hint(
      "no-iommu mode", "on: a card may write anywhere in memory, and taints the kernel",
      subject.iommu ? "the IOMMU is there: echo N > /" + file : "an IOMMU (see groups), then echo N > /" + file);
}

// A group is viable when all its devices are with VFIO, without a driver, or bridges.
void check_sharing(const Subject& subject, Section& section) {
  bool any = false;
  for (const Card& card : subject.cards) {
    if (!card.used || is_bifurcated(card.driver) || card.iommu_group.empty()) continue;
    any = true;
    std::vector<std::string> others;
    for (const std::string& address : subject.tree.names("sys/kernel/iommu_groups/" + card.iommu_group + "/devices")) {
      const std::string folder = "sys/bus/pci/devices/" + address;
      const std::string driver = subject.tree.link_name(folder + "/driver");
      const bool bridge = subject.tree.number(folder + "/class", 16).value_or(0) >> 16 == kBridgeClass;
      if (address == card.address || bridge || driver.empty() || driver == "vfio-pci") continue;
      others.push_back(address + " (" + driver + ")");
    }
    const std::string check = card.address + " group";
    if (others.empty()) {
      section.ok(check, "group " + card.iommu_group + ", shared with no device of the kernel's");
    } else {
      section.problem(check, "group " + card.iommu_group + " also has " + join(others, ", ") + ": VFIO refuses it",
                      "give these to vfio-pci as well (dpdk-devbind.py -b vfio-pci ADDRESS), or use another slot; "
                      "firmware: ACS on");
    }
  }
  if (!any) section.ok("sharing", "no used card is in an IOMMU group");
}

void check_card_nodes(const Subject& subject, const std::set<int64_t>& workers, Section& section) {
  for (const Card& card : subject.cards) {
    if (!card.used) continue;
    if (card.numa_node < 0) {
      section.unknown(card.address, "the firmware does not tell the node of the card");
    } else if (workers.contains(card.numa_node)) {
      section.ok(card.address, "on node " + std::to_string(card.numa_node) + ", as a worker");
    } else {
      const std::string file = "sys/devices/system/node/node" + std::to_string(card.numa_node) + "/cpulist";
      const std::string near = to_text(subject.tree.cpus(file).value_or(Cpus{}));
      section.hint(
          card.address, fmt::format("on node {}, no worker is: frames cross between the sockets", card.numa_node),
          "dataplane -l with CPUs of " + (near.empty() ? "that node" : near) + ", or another slot for the card");
    }
  }
}

}  // namespace

Section check_numa(const Subject& subject) {
  Section section{"numa", "NUMA", {}};
  const std::optional<Cpus> nodes = subject.tree.cpus("sys/devices/system/node/online");
  if (!nodes || nodes->empty()) {
    section.unknown("nodes", "/sys/devices/system/node/online cannot be read");
    return section;
  }
  std::vector<std::string> used;
  const std::set<int64_t> workers = subject.worker_nodes();
  for (const int64_t node : workers) used.push_back(std::to_string(node));
  section.ok("nodes", plural(nodes->size(), "node") + ", workers on " + join(used, ", "));
  if (nodes->size() > 1) check_card_nodes(subject, workers, section);
  return section;
}

Section check_iommu(const Subject& subject) {
  Section section{"iommu", "IOMMU", {}};
  check_groups(subject, section);
  check_passthrough(subject, section);
  check_vfio(subject, section);
  check_unsafe_mode(subject, section);
  check_sharing(subject, section);
  return section;
}

}  // namespace weir::dataplane::doctor
