#include "dataplane/start/vdev_check.h"

#include <fmt/format.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>

#include "common/nearest.h"
#include "common/paths.h"

namespace weir::dataplane {

namespace {

// Drivers of ports on DPDK's vdev bus: RTE_PMD_REGISTER_VDEV and RTE_PMD_REGISTER_ALIAS in drivers/net of DPDK 22.11 to
// 24.11. A device's name begins with its driver's, or with the alias.
constexpr std::string_view kPortDrivers[] = {
    "net_af_packet",   "net_af_xdp",      "net_bonding", "net_enetfec",   "net_failsafe", "net_memif",
    "net_null",        "net_pcap",        "net_pfe",     "net_ring",      "net_softnic",  "net_tap",
    "net_tun",         "net_vhost",       "net_mvneta",  "net_mvpp2",     "net_octeontx", "net_kni",
    "net_vdev_netvsc", "net_virtio_user", "virtio_user", "eth_af_packet", "eth_bond",     "eth_kni",
    "eth_null",        "eth_pcap",        "eth_ring",    "eth_tap",       "eth_vhost",
};

// Keys whose value must be there already.
enum class Needs { interface, file, socket, folder };
struct KeyNeeds {
  std::string_view driver, key;
  Needs needs;
};
constexpr KeyNeeds kKeyNeeds[] = {
    {"af_packet", "iface", Needs::interface},  {"af_xdp", "iface", Needs::interface},
    {"af_xdp", "xdp_prog", Needs::file},       {"pcap", "rx_pcap", Needs::file},
    {"pcap", "tx_pcap", Needs::folder},        {"pcap", "rx_iface", Needs::interface},
    {"pcap", "rx_iface_in", Needs::interface}, {"pcap", "tx_iface", Needs::interface},
    {"pcap", "iface", Needs::interface},       {"tap", "remote", Needs::interface},
    {"vhost", "iface", Needs::folder},         {"virtio_user", "path", Needs::socket},
};
constexpr std::string_view kDriversThatNeedKeys[][2] = {
    {"af_packet", "iface"}, {"af_xdp", "iface"}, {"vhost", "iface"}, {"virtio_user", "path"}};

struct Argument {
  std::string key;
  std::optional<std::string> value;
};

// As rte_kvargs_parse: commas inside [...] belong to the value.
std::vector<Argument> split_arguments(std::string_view text) {
  std::vector<std::string> parts(1);
  bool in_list = false;
  for (const char c : text) {
    in_list = c == '[' || (in_list && c != ']');
    if (c == ',' && !in_list) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  std::vector<Argument> arguments;
  for (const std::string& part : parts) {
    if (part.empty()) continue;  // EAL takes an empty pair for none
    Argument& argument = arguments.emplace_back();
    const size_t equals = part.find('=');
    argument.key = part.substr(0, equals);
    if (equals != std::string::npos) argument.value = part.substr(equals + 1);
  }
  return arguments;
}

// "net_pcap0" is of "pcap": without the class, which may be left out for virtio_user only.
bool is_of(std::string_view name, std::string_view driver) {
  for (const std::string_view front : {"net_", "eth_", ""}) {
    if (name.starts_with(front) && name.substr(front.size()).starts_with(driver)) return true;
  }
  return false;
}

std::string interfaces() {
  std::string names;
  struct if_nameindex* all = if_nameindex();
  for (const struct if_nameindex* one = all; one != nullptr && one->if_index != 0; one++) {
    names += (names.empty() ? "" : ", ") + std::string(one->if_name);
  }
  if (all != nullptr) if_freenameindex(all);
  return names.empty() ? "none" : names;
}

// Empty: it is there.
std::string missing(Needs needs, const std::string& value) {
  switch (needs) {
    case Needs::interface:
      if (if_nametoindex(value.c_str()) != 0) return {};
      return "there is no network interface `" + value + "` here; there are: " + interfaces();
    case Needs::file:
      if (access(value.c_str(), R_OK) == 0) return {};
      return "cannot read " + value + ": " + strerror(errno) + "; name a file that this user may read";
    case Needs::socket:
      if (access(value.c_str(), F_OK) == 0) return {};
      return value.starts_with("/dev/") ? "there is no " + value + "; load its kernel module (modprobe vhost_net)"
                                        : "there is no socket " + value +
                                              "; start its other end first, or make this end the server (server=1)";
    case Needs::folder:
      if (access(folder_of(value).c_str(), W_OK) == 0) return {};
      return "cannot write to the folder of " + value + ": " + strerror(errno) + "; make it, or name another";
  }
  return {};
}

bool is_given(const std::vector<Argument>& arguments, std::string_view key) {
  return std::any_of(arguments.begin(), arguments.end(), [&](const Argument& one) { return one.key == key; });
}

std::vector<std::string> check_arguments(std::string_view name, const std::vector<Argument>& arguments) {
  std::vector<std::string> errors;
  for (const Argument& argument : arguments) {
    if (argument.key.empty()) errors.push_back("`=" + argument.value.value_or("") + "` has no key; write KEY=VALUE");
    for (const KeyNeeds& row : kKeyNeeds) {
      if (!is_of(name, row.driver) || argument.key != row.key) continue;
      if (row.needs == Needs::socket && is_given(arguments, "server")) continue;
      const std::string what = !argument.value || argument.value->empty()
                                   ? "has no value; write " + argument.key + "=VALUE"
                                   : missing(row.needs, *argument.value);
      if (!what.empty()) errors.push_back(argument.key + ": " + what);
    }
  }
  for (const auto& [driver, key] : kDriversThatNeedKeys) {
    if (!is_of(name, driver) || is_given(arguments, key)) continue;
    errors.push_back(fmt::format("{} needs `{}=`; write --vdev {},{}=...", name, key, name, key));
  }
  return errors;
}

// Devices of other classes are no ports, but EAL has them: crypto_null0, event_sw0, ...
bool may_be_driver(std::string_view name) {
  const bool is_port = name.starts_with("net_") || name.starts_with("eth_") || name.starts_with("virtio");
  const bool other_class = !is_port && name.find('_') != std::string_view::npos;
  return other_class || std::any_of(std::begin(kPortDrivers), std::end(kPortDrivers),
                                    [&](std::string_view driver) { return name.starts_with(driver); });
}

std::string unknown_driver(std::string_view name) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  const std::string_view near = nearest_name(name.substr(0, digits), kPortDrivers);
  if (!near.empty()) return fmt::format("DPDK has no driver for it; did you mean `{}{}`?", near, name.substr(digits));
  return "DPDK has no driver for it; ports are net_af_packet, net_af_xdp, net_memif, net_null, net_pcap, net_ring, "
         "net_tap, net_vhost and virtio_user, with a number behind (net_tap0)";
}

}  // namespace

std::vector<std::string> check_vdev(std::string_view value, bool own_drivers) {
  std::string_view name = value.substr(0, value.find(','));
  if (name.starts_with("vdev:")) name.remove_prefix(5);
  std::vector<std::string> errors;
  if (name.empty()) {
    errors.push_back("the device has no name; write --vdev net_tap0,iface=tap0");
  } else if (!may_be_driver(name) && !own_drivers) {
    errors.push_back(unknown_driver(name));
  } else {
    const size_t comma = value.find(',');
    errors = check_arguments(name, split_arguments(comma == value.npos ? "" : value.substr(comma + 1)));
  }
  for (std::string& error : errors) error = fmt::format("--vdev {}: {}", value, error);
  return errors;
}

}  // namespace weir::dataplane
