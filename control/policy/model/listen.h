#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/ip.h"
#include "common/result.h"

namespace weir::control {

// An address and a port of TCP, where somebody is to be answered.
struct ListenAddress {
  bool is_v6 = false;
  Ipv4 v4 = 0;
  Ipv6 v6 = 0;
  uint16_t port = 0;  // 0: one that is free

  bool operator==(const ListenAddress&) const = default;
};

bool is_loopback(const ListenAddress& address);
bool is_any(const ListenAddress& address);          // of every interface: 0.0.0.0 or ::
std::string text_of(const ListenAddress& address);  // as it is written: 127.0.0.1:9617, [::1]:9617
// Error: what is wrong with it.
Result<ListenAddress> parse_listen_address(std::string_view text);

// The policy's `metrics`.
struct MetricsSettings {
  static constexpr ListenAddress kDefault = {false, 0x7f000001, 0, 9617};
  static constexpr const char* kOff = "off";

  std::optional<ListenAddress> listen = kDefault;  // empty: off
  bool operator==(const MetricsSettings&) const = default;
};

// ADDRESS:PORT or off.
Result<MetricsSettings> parse_metrics_settings(std::string_view text);

}  // namespace weir::control
