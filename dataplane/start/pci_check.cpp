#include "dataplane/start/pci_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

namespace weir::dataplane {

namespace {

namespace fs = std::filesystem;

// Kernel drivers that DPDK's port drivers work beside, so that the card stays with them: drivers/net/{mlx4,mlx5,mana}.
constexpr std::string_view kWorksBeside[] = {"mlx4_core", "mlx5_core", "mana"};

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

// [DDDD:]BB:DD.F, as sysfs writes it.
std::optional<std::string> pci_address(std::string_view device) {
  if (device.starts_with("pci:")) device.remove_prefix(4);
  if (device.size() == 7) return pci_address("0000:" + std::string(device));
  if (device.size() != 12 || device[4] != ':' || device[7] != ':' || device[10] != '.') return std::nullopt;
  if (!is_hex(device.substr(0, 4), 4) || !is_hex(device.substr(5, 2), 2) || !is_hex(device.substr(8, 2), 2)) {
    return std::nullopt;
  }
  if (device[11] < '0' || device[11] > '7') return std::nullopt;
  std::string address(device);
  std::transform(address.begin(), address.end(), address.begin(),
                 [](char c) { return static_cast<char>(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c); });
  return address;
}

std::string driver_of(const fs::path& device) {
  std::error_code error;
  const fs::path driver = fs::read_symlink(device / "driver", error);
  return error ? std::string() : driver.filename().string();
}

bool dpdk_can_use(const fs::path& device, const std::string& driver) {
  if (driver.find("vfio") != std::string::npos || driver.find("uio") != std::string::npos) return true;
  if (std::find(std::begin(kWorksBeside), std::end(kWorksBeside), driver) != std::end(kWorksBeside)) return true;
  std::string vendor;  // transitional virtio needs no driver at all: its registers are I/O ports
  std::ifstream(device / "vendor") >> vendor;
  return driver.empty() && vendor == "0x1af4";
}

}  // namespace

std::string check_pci_device(std::string_view value, const std::string& sysfs) {
  const std::optional<std::string> address = pci_address(value.substr(0, value.find(',')));
  if (!address || address->ends_with(":00:00.0")) return {};  // the host bridge: a customary way to say "no card"
  const fs::path device = fs::path(sysfs) / "bus/pci/devices" / *address;
  std::error_code error;
  if (!fs::exists(device, error)) {
    return fmt::format("-a {}: there is no PCI device {}; `dpdk-devbind.py --status-dev net` shows the network cards",
                       value, *address);
  }
  const std::string driver = driver_of(device);
  if (dpdk_can_use(device, driver)) return {};
  return fmt::format(
      "-a {}: {}; give it to DPDK: modprobe vfio-pci; dpdk-devbind.py -b vfio-pci {} (never the card that carries your "
      "login)",
      value, driver.empty() ? "no kernel driver holds it" : "the kernel driver " + driver + " holds it", *address);
}

}  // namespace weir::dataplane
