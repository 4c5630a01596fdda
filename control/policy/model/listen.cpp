#include "control/policy/model/listen.h"

#include <charconv>

namespace weir::control {

namespace {

constexpr const char* kForm = "write ADDRESS:PORT, as in 127.0.0.1:9617 or [::1]:9617";

std::optional<uint16_t> parse_port(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return port;
}

}  // namespace

bool is_loopback(const ListenAddress& address) {
  return address.is_v6 ? address.v6 == Ipv6{1} : address.v4 >> 24 == 127;
}

bool is_any(const ListenAddress& address) {
  return address.is_v6 ? address.v6 == Ipv6{0} : address.v4 == 0;
}

std::string text_of(const ListenAddress& address) {
  const std::string port = ":" + std::to_string(address.port);
  return address.is_v6 ? "[" + to_string(address.v6) + "]" + port : to_string(address.v4) + port;
}

Result<ListenAddress> parse_listen_address(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return Error{"there is no port in it: " + std::string(kForm)};
  std::string_view host = text.substr(0, colon);
  const std::optional<uint16_t> port = parse_port(text.substr(colon + 1));
  if (!port) return Error{"its port is none: 1 to 65535, or 0 for one that is free"};
  ListenAddress address;
  address.port = *port;
  address.is_v6 = host.starts_with('[');
  if (!address.is_v6) {
    const std::optional<Ipv4> v4 = parse_ipv4(host);
    if (!v4) return Error{"`" + std::string(host) + "` is no address: " + kForm};
    address.v4 = *v4;
    return address;
  }
  const std::optional<Ipv6> v6 =
      host.ends_with(']') ? parse_ipv6(host.substr(1, host.size() - 2)) : std::optional<Ipv6>();
  if (!v6) return Error{"`" + std::string(host) + "` is no address: " + kForm};
  address.v6 = *v6;
  return address;
}

Result<MetricsSettings> parse_metrics_settings(std::string_view text) {
  if (text == MetricsSettings::kOff) return MetricsSettings{std::nullopt};
  const Result<ListenAddress> address = parse_listen_address(text);
  if (!address) return Error{address.error() + "; off serves them nowhere"};
  return MetricsSettings{*address};
}

}  // namespace weir::control
