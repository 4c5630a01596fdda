#pragma once

#include <string>
#include <string_view>

namespace weir::dataplane {

// What is wrong with the device of EAL's -a, with the way out; empty when nothing is, or when it is no PCI address.
// sysfs: /sys.
std::string check_pci_device(std::string_view value, const std::string& sysfs);

}  // namespace weir::dataplane
