#include <algorithm>
#include <array>
#include <iterator>

#include "dataplane/doctor/subject.h"

// Network cards as sysfs shows them (kernel: Documentation/PCI/sysfs-pci.rst, ABI/testing/sysfs-bus-pci).
namespace weir::dataplane::doctor {

namespace {

// dpdk_drivers of DPDK's usertools/dpdk-devbind.py.
constexpr std::array<std::string_view, 3> kDpdkDrivers = {"vfio-pci", "uio_pci_generic", "igb_uio"};
// The kernel's and DPDK's own, as its library is named. DPDK: doc/guides/linux_gsg/linux_drv.rst ("Bifurcated Driver"),
// nics/mlx4.rst, nics/mlx5.rst, nics/mana.rst.
struct Bifurcated {
  std::string_view kernel, dpdk;
};
constexpr Bifurcated kBifurcated[] = {{"mlx5_core", "mlx5"}, {"mlx4_core", "mlx4"}, {"mana", "mana"}};

constexpr int64_t kNetworkClass = 0x02;  // the upper byte of class

template <size_t n>
bool is_one_of(const std::array<std::string_view, n>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool holds(const std::vector<std::string>& list, const std::string& entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
}

bool is_used(const Card& card, const EalOptions& eal) {
  if (eal.no_pci) return false;
  if (!eal.allow.empty()) return holds(eal.allow, card.address);
  return (is_dpdk_driver(card.driver) || is_bifurcated(card.driver)) && !holds(eal.block, card.address);
}

// A plain driver's interfaces are below the device, those of virtio below virtioN.
std::vector<std::string> interfaces_of(const Tree& tree, const std::string& folder) {
  std::vector<std::string> interfaces = tree.names(folder + "/net");
  for (const std::string& name : tree.names(folder)) {
    if (!name.starts_with("virtio")) continue;
    for (std::string& interface : tree.names(folder + "/" + name + "/net")) interfaces.push_back(std::move(interface));
  }
  return interfaces;
}

std::string hex_of(const Tree& tree, const std::string& file) {
  std::string text = tree.text(file).value_or("?");
  return text.starts_with("0x") ? text.substr(2) : "?";
}

}  // namespace

bool is_dpdk_driver(const std::string& driver) {
  return is_one_of(kDpdkDrivers, driver);
}

bool is_bifurcated(const std::string& driver) {
  return !dpdk_driver_beside(driver).empty();
}

std::string dpdk_driver_beside(const std::string& driver) {
  const auto* row = std::find_if(std::begin(kBifurcated), std::end(kBifurcated),
                                 [&](const Bifurcated& one) { return one.kernel == driver; });
  return row == std::end(kBifurcated) ? "" : std::string(row->dpdk);
}

std::vector<Card> find_cards(const Tree& tree, const Inputs& inputs, const EalOptions& eal) {
  std::vector<Card> cards;
  const std::vector<Carrier> carriers = find_carriers(tree, inputs);
  for (const std::string& address : tree.names("sys/bus/pci/devices")) {
    const std::string folder = "sys/bus/pci/devices/" + address;
    if (tree.number(folder + "/class", 16).value_or(0) >> 16 != kNetworkClass) continue;
    Card card;
    card.address = address;
    card.id = hex_of(tree, folder + "/vendor") + ":" + hex_of(tree, folder + "/device");
    card.driver = tree.link_name(folder + "/driver");
    card.interfaces = interfaces_of(tree, folder);
    for (const std::string& interface : card.interfaces) {
      if (card.carries.empty()) card.carries = carried_by(tree, carriers, interface);
    }
    card.numa_node = tree.number(folder + "/numa_node").value_or(-1);
    card.iommu_group = tree.link_name(folder + "/iommu_group");
    card.virtual_function = tree.exists(folder + "/physfn");
    card.used = is_used(card, eal);
    cards.push_back(std::move(card));
  }
  return cards;
}

}  // namespace weir::dataplane::doctor
