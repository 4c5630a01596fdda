#pragma once

#include <string>
#include <string_view>
#include <vector>

// What is wrong with a `--vdev` before EAL starts, which only says that the device could not be initialized.
namespace weir::dataplane {

// value: NAME[,KEY=VALUE,...]. own_drivers: EAL's -d loads more, so that any name may be one.
// Reads files, folders and interfaces of this network namespace. Each error with its way out.
std::vector<std::string> check_vdev(std::string_view value, bool own_drivers);

}  // namespace weir::dataplane
