#include <bpf/bpf.h>
#include <dirent.h>
#include <net/if.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

#include "bpf/enforce/attach.h"
#include "bpf/enforce/enforcer.h"
#include "bpf/enforce/group.h"
#include "bpf/enforce/program.h"
#include "bpf/program/plane.h"
#include "common/fd.h"
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
constexpr std::string_view kMapPins[] = {"weir_arenas",  "weir_bases", "weir_lists",  "weir_names",
                                         "weir_samples", "weir_state", "weir_totals", "weir_traffic"};

// Folders that stand for interfaces which were detached on demand; without a name, for all: file systems of BPF objects
// hold nothing else.
constexpr std::string_view kMark = "detached_";

std::string mark_of(const std::string& bpf_dir, const std::string& interface) {
  return pin_path(bpf_dir, std::string(kMark) + interface);
}

std::vector<std::string> marks_in(const std::string& bpf_dir) {
  std::vector<std::string> marks;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(bpf_dir.c_str()), closedir);
  while (const dirent* entry = folder ? readdir(folder.get()) : nullptr) {
    if (std::string_view(entry->d_name).starts_with(kMark)) marks.emplace_back(entry->d_name);
  }
  return marks;
}

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

bool is_detached(const std::string& bpf_dir, const std::string& interface) {
  if (!interface.empty()) {
    return access(mark_of(bpf_dir, interface).c_str(), F_OK) == 0 || access(mark_of(bpf_dir, "").c_str(), F_OK) == 0;
  }
  return !marks_in(bpf_dir).empty();
}

void forget_detached(const std::string& bpf_dir) {
  for (const std::string& mark : marks_in(bpf_dir)) rmdir((bpf_dir + "/" + mark).c_str());
}

Result<std::vector<std::string>> detach_pinned(const std::string& bpf_dir, std::optional<std::string> interface,
                                               Maps maps) {
  const Result<std::vector<std::string>> pinned = pinned_interfaces(bpf_dir);
  if (!pinned) return Error{pinned.error()};
  std::vector<std::string> detached;
  for (const std::string& name : *pinned) {
    if (interface && name != *interface) continue;
    const std::string path = link_pin(bpf_dir, name);
    // Whoever still holds the link keeps it alive, but no longer attached.
    const Fd link(bpf_obj_get(path.c_str()));
    if (!link && errno != ENOENT) return errno_error("cannot open " + path);
    if (link && bpf_link_detach(link.get()) != 0) return errno_error("cannot detach " + name);
    // One that is gone by now was taken away by an enforcer that saw the mark.
    if (unlink(path.c_str()) != 0 && errno != ENOENT) return errno_error("cannot take " + path + " away");
    detached.push_back(name);
  }
  if (interface && detached.empty()) return Error{"nothing is attached to " + *interface + " from " + bpf_dir};
  if (!interface && maps == Maps::go) {
    const Result<std::vector<std::string>> others = pins_in(bpf_dir);
    if (!others) return Error{others.error()};
    for (const std::string& pin : *others) unlink((bpf_dir + "/" + pin).c_str());
  }
  return detached;
}

Result<std::vector<std::string>> detach_on_demand(const std::string& bpf_dir, std::optional<std::string> interface,
                                                  Maps maps) {
  // First: whoever attaches looks for it afterwards.
  if (mkdir(mark_of(bpf_dir, interface.value_or("")).c_str(), 0700) != 0 && errno != EEXIST && errno != ENOENT) {
    return errno_error("cannot mark in " + bpf_dir + " what is detached");
  }
  Result<std::vector<std::string>> off = detach_pinned(bpf_dir, interface, maps);
  if (!off && interface && if_nametoindex(interface->c_str()) == 0) rmdir(mark_of(bpf_dir, *interface).c_str());
  return off;
}

namespace {

// The pinned values that programs read while they run, to be read and written in place.
Result<Mapping> map_state(const std::string& bpf_dir) {
  const Fd map(bpf_obj_get(pin_path(bpf_dir, "weir_state").c_str()));
  if (!map && errno == ENOENT) return Error{"nothing is pinned in " + bpf_dir};
  if (!map) return errno_error("cannot open " + pin_path(bpf_dir, "weir_state"));
  bpf_map_info info = {};
  uint32_t size = sizeof info;
  if (bpf_obj_get_info_by_fd(map.get(), &info, &size) != 0) return errno_error("cannot ask about " + bpf_dir);
  if (info.value_size != sizeof(weir_state)) return Error{"what is pinned in " + bpf_dir + " is of another version"};
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t bytes = (sizeof(weir_state) + page - 1) / page * page;
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, map.get(), 0);
  if (address == MAP_FAILED) return errno_error("cannot map what is pinned in " + bpf_dir);
  Mapping state(address, bytes);
  if (reinterpret_cast<const weir_state*>(address)->version != WEIR_XDP_VERSION) {
    return Error{"what is pinned in " + bpf_dir + " is of another version"};
  }
  return state;
}

}  // namespace

Result<void> bypass_pinned(const std::string& bpf_dir, bool on) {
  const Result<Mapping> mapping = map_state(bpf_dir);
  if (!mapping) return Error{mapping.error()};
  auto* state = reinterpret_cast<weir_state*>(mapping->bytes().data());
  __atomic_store_n(&state->bypass, on ? 1u : 0u, __ATOMIC_RELEASE);
  return {};
}

Result<PinnedState> look_at_pinned(const std::string& bpf_dir) {
  const Result<Mapping> mapping = map_state(bpf_dir);
  if (!mapping) return Error{mapping.error()};
  const Result<std::vector<std::string>> names = pinned_interfaces(bpf_dir);
  if (!names) return Error{names.error()};
  const auto& state = *reinterpret_cast<const weir_state*>(mapping->bytes().data());
  PinnedState pinned;
  wire::set_text(pinned.status.isa, "bpf");
  pinned.status.start_time_unix = state.start_time_unix;
  pinned.status.bypass = state.bypass;
  tell_enforced(active_groups(state), pinned.status);
  for (const std::string& name : *names) {
    const Fd link(bpf_obj_get(link_pin(bpf_dir, name).c_str()));
    const InterfaceState interface = state_of_link(link, name);
    pinned.status.ports += interface.attached;
    pinned.interfaces.push_back(interface);
  }
  return pinned;
}

}  // namespace weir::xdp
