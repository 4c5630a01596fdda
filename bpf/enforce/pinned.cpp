#include <bpf/bpf.h>
#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

#include "bpf/enforce/enforcer.h"
#include "bpf/enforce/program.h"
#include "common/files.h"

namespace weir::xdp {

namespace {

// What pin_path() wrote.
std::string decoded(std::string_view pin) {
  std::string name;
  for (size_t i = 0; i < pin.size(); i++) {
    const std::string_view code = pin.substr(i, 3);
    if (code != "%2e" && code != "%25") {
      name += pin[i];
      continue;
    }
    name += code == "%2e" ? '.' : '%';
    i += 2;
  }
  return name;
}

// Of maps.bpf.h. What steers (weir_steer) is somebody else's.
constexpr std::string_view kMapPins[] = {"weir_arenas", "weir_lists", "weir_names", "weir_state", "weir_totals"};

// Names in the folder that are pins of ours. None: there is no such folder.
Result<std::vector<std::string>> pins_in(const std::string& bpf_dir) {
  std::vector<std::string> pins;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(bpf_dir.c_str()), closedir);
  if (!folder && errno == ENOENT) return pins;
  if (!folder) return errno_error("cannot read " + bpf_dir);
  while (const dirent* entry = readdir(folder.get())) {
    const std::string_view pin = entry->d_name;
    const bool is_map = std::find(std::begin(kMapPins), std::end(kMapPins), pin) != std::end(kMapPins);
    if (pin == kProgramPin || pin.starts_with(kLinkPin) || is_map) pins.emplace_back(pin);
  }
  std::sort(pins.begin(), pins.end());
  return pins;
}

}  // namespace

Result<std::vector<std::string>> pinned_interfaces(const std::string& bpf_dir) {
  const Result<std::vector<std::string>> pins = pins_in(bpf_dir);
  if (!pins) return Error{pins.error()};
  std::vector<std::string> names;
  for (const std::string_view pin : *pins) {
    if (pin.starts_with(kLinkPin)) names.push_back(decoded(pin.substr(kLinkPin.size())));
  }
  return names;
}

Result<std::vector<std::string>> detach_pinned(const std::string& bpf_dir, std::optional<std::string> interface) {
  const Result<std::vector<std::string>> pinned = pinned_interfaces(bpf_dir);
  if (!pinned) return Error{pinned.error()};
  std::vector<std::string> detached;
  for (const std::string& name : *pinned) {
    if (interface && name != *interface) continue;
    const std::string path = link_pin(bpf_dir, name);
    // Whoever still holds the link keeps it alive, but no longer attached.
    if (const Fd link(bpf_obj_get(path.c_str())); link) (void)bpf_link_detach(link.get());
    if (unlink(path.c_str()) != 0) return errno_error("cannot take " + path + " away");
    detached.push_back(name);
  }
  if (interface && detached.empty()) return Error{"nothing is attached to " + *interface + " from " + bpf_dir};
  if (!interface) {
    const Result<std::vector<std::string>> others = pins_in(bpf_dir);
    if (!others) return Error{others.error()};
    for (const std::string& pin : *others) unlink((bpf_dir + "/" + pin).c_str());
  }
  return detached;
}

}  // namespace weir::xdp
