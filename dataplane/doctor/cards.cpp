#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "dataplane/doctor/subject.h"

// Drivers and links of the network cards.
namespace weir::dataplane::doctor {

namespace {

std::string describe(const Card& card) {
  std::string text = card.address + " " + card.id;
  text += card.driver.empty() ? ", no driver" : ", " + card.driver;
  if (!card.interfaces.empty()) text += ", " + join(card.interfaces, " ");
  return text;
}

bool loads_modules(const Tree& tree) {
  return tree.exists("proc/modules") && tree.number("proc/sys/kernel/modules_disabled") != 1;
}

// The commands that give the card to DPDK.
std::string bind_commands(const Subject& subject, const Card& card) {
  const bool no_iommu_vf = !subject.iommu && card.virtual_function;  // uio_pci_generic wants INTx, which a VF lacks
  const std::string driver = subject.iommu || no_iommu_vf ? "vfio-pci" : "uio_pci_generic";
  const bool loaded = subject.tree.exists("sys/bus/pci/drivers/" + driver);
  if (!loaded && !loads_modules(subject.tree)) {
    return "this kernel has no " + driver + " and loads no modules: boot another one" +
           (card.interfaces.empty() ? ""
                                    : ", or leave the card to it and use --vdev net_af_packet0,iface=" +
                                          card.interfaces.front() + ",qdisc_bypass=1");
  }
  std::vector<std::string> commands;
  for (const std::string& interface : card.interfaces) commands.push_back("ip link set " + interface + " down");
  if (no_iommu_vf) commands.emplace_back("modprobe vfio enable_unsafe_noiommu_mode=1");
  if (!loaded) commands.push_back("modprobe " + driver);
  commands.push_back("dpdk-devbind.py -b " + driver + " " + card.address);
  return join(commands, "; ");
}

// The command that brings DPDK's driver for a card that stays with its kernel driver; empty: it is there.
std::string missing_driver(const Subject& subject, const Card& card) {
  const std::string driver = dpdk_driver_beside(card.driver);
  if (subject.inputs.pmd_folder.empty() || subject.installed_drivers().contains(driver)) return "";
  return "apt install 'librte-net-" + driver + "*'";
}

void judge_used(const Subject& subject, const Card& card, Section& section) {
  const std::string text = describe(card);
  if (is_dpdk_driver(card.driver)) {
    if (card.driver == "vfio-pci" || !subject.iommu) return section.ok(card.address, text + ": used");
    return section.hint(card.address, text + ": used, without the IOMMU's protection", bind_commands(subject, card));
  }
  if (!card.carries.empty()) {
    return section.problem(card.address, text + ": carries " + card.carries + ", and these options take it",
                           is_bifurcated(card.driver) ? "leave it out: -a of other cards, or -b " + card.address
                                                      : "never bind this card: choose another one for -a");
  }
  if (is_bifurcated(card.driver)) {
    const std::string missing = missing_driver(subject, card);
    if (missing.empty()) return section.ok(card.address, text + ": used, stays with its kernel driver");
    return section.problem(card.address, text + ": DPDK's driver for it is not installed", missing);
  }
  section.problem(card.address, text + ": DPDK cannot drive it while the kernel does", bind_commands(subject, card));
}

void judge_unused(const Subject& subject, const Card& card, bool wanted, Section& section) {
  const std::string text = describe(card);
  if (is_dpdk_driver(card.driver))
    return section.ok(card.address, text + ": bound for DPDK, not used with these options");
  if (!card.carries.empty()) {
    return section.ok(card.address, text + ": carries " + card.carries + ": leave it, never bind it");
  }
  if (!wanted) return section.ok(card.address, text + ": not used with these options");
  const std::string first = is_bifurcated(card.driver) ? missing_driver(subject, card) : bind_commands(subject, card);
  section.hint(card.address, text + ": weir could use it",
               (first.empty() ? "" : first + "; ") + "dataplane -a " + card.address);
}

// "8.0 GT/s PCIe" -> 8; 0: it is no number.
double leading_number(const std::string& text) {
  const double number = std::strtod(text.c_str(), nullptr);
  return number > 0 && number < 1e6 ? number : 0;
}

void check_link(const Subject& subject, const Card& card, Section& section) {
  const std::string folder = "sys/bus/pci/devices/" + card.address + "/";
  const auto read = [&](const char* file) { return subject.tree.text(folder + file).value_or(""); };
  const std::string speed = read("current_link_speed"), width = read("current_link_width");
  const std::string max_speed = read("max_link_speed"), max_width = read("max_link_width");
  const std::string check = card.address + " link";
  if (leading_number(speed) == 0 || leading_number(width) == 0 || leading_number(max_speed) == 0 ||
      leading_number(max_width) == 0) {
    return section.unknown(check, "no PCIe link is told (emulated, or a virtual function)");
  }
  const std::string found = fmt::format("{} x{}", speed, width);
  if (leading_number(speed) >= leading_number(max_speed) && leading_number(width) >= leading_number(max_width)) {
    return section.ok(check, found);
  }
  section.hint(check, fmt::format("{}, the card can {} x{}", found, max_speed, max_width),
               "a slot with more lanes or of a newer generation, or another riser; firmware: link speed Auto "
               "(lspci -vv -s " +
                   card.address + ")");
}

void check_missing(const Subject& subject, Section& section) {
  for (const std::string& address : subject.eal.allow) {
    if (subject.tree.exists("sys/bus/pci/devices/" + address)) continue;
    section.problem(address, "-a " + address + ": there is no such device",
                    "dpdk-devbind.py --status-dev net lists what there is");
  }
}

// iface= of --vdev net_af_packet0,iface=eth1.
void check_virtual(const Subject& subject, Section& section) {
  for (const std::string& vdev : subject.eal.vdevs) {
    if (!vdev.starts_with("net_af_packet") && !vdev.starts_with("net_af_xdp")) continue;
    for (const std::string_view argument : split_at(vdev, ',')) {
      if (!argument.starts_with("iface=")) continue;
      const std::string interface(argument.substr(6));
      if (interface.empty() || !subject.tree.exists("sys/class/net/" + interface)) {
        section.problem(vdev, "there is no interface '" + interface + "'", "ip link lists what there is");
      } else {
        section.ok(vdev, "interface " + interface + " is there");
      }
    }
  }
}

// Interfaces with a device that is not PCI (USB, virtio-mmio, Hyper-V, platform).
void check_other_buses(const Subject& subject, Section& section) {
  const std::vector<Carrier> carriers = find_carriers(subject.tree, subject.inputs);
  for (const std::string& name : subject.tree.names("sys/class/net")) {
    const std::string folder = "sys/class/net/" + name + "/device";
    if (!subject.tree.exists(folder)) continue;
    const bool is_card = std::any_of(subject.cards.begin(), subject.cards.end(), [&](const Card& card) {
      return std::find(card.interfaces.begin(), card.interfaces.end(), name) != card.interfaces.end();
    });
    if (is_card) continue;
    const std::string carries = carried_by(subject.tree, carriers, name);
    section.ok(name, "not on PCI (" + subject.tree.link_name(folder + "/driver") +
                         "): reached by --vdev net_af_packet0,iface=" + name +
                         (carries.empty() ? "" : "; carries " + carries));
  }
}

void check_ports(const Subject& subject, size_t used, Section& section) {
  const size_t virtual_ports = subject.eal.vdevs.size();
  if (used + virtual_ports > 0) {
    return section.ok("ports",
                      plural(used, "card") + " and " + plural(virtual_ports, "virtual device") + " with these options");
  }
  section.hint("ports", "no port with these options: two virtual ones that receive empty frames",
               subject.machine.root || !subject.eal.no_pci
                   ? "name cards with -a (bound to a DPDK driver), or --vdev net_af_packet0,iface=NAME"
                   : "start as root: without it no card is looked for");
}

}  // namespace

Section check_cards(const Subject& subject) {
  Section section{"cards", "Network cards", {}};
  if (!subject.tree.exists("sys/bus/pci/devices")) section.unknown("pci", "/sys/bus/pci/devices is not there");
  const auto used = static_cast<size_t>(
      std::count_if(subject.cards.begin(), subject.cards.end(), [](const Card& card) { return card.used; }));
  check_ports(subject, used, section);
  check_missing(subject, section);
  const bool wanted = used == 0 && subject.eal.vdevs.empty();
  for (const Card& card : subject.cards) {
    if (!card.used) {
      judge_unused(subject, card, wanted, section);
    } else {
      judge_used(subject, card, section);
      check_link(subject, card, section);
    }
  }
  check_virtual(subject, section);
  check_other_buses(subject, section);
  return section;
}

}  // namespace weir::dataplane::doctor
