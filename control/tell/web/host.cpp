#include "control/tell/web/host.h"

#include <algorithm>

#include "common/ip.h"

namespace weir::control::web {

namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

bool is_own_host(std::string_view host, std::string_view machine) {
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    if (end == std::string_view::npos || !parse_ipv6(host.substr(1, end - 1))) return false;
    const std::string_view rest = host.substr(end + 1);
    return rest.empty() || (rest.starts_with(':') && is_port(rest.substr(1)));
  }
  const size_t colon = host.find(':');
  if (colon != std::string_view::npos) {
    if (!is_port(host.substr(colon + 1))) return false;
    host = host.substr(0, colon);
  }
  if (host.ends_with('.')) host.remove_suffix(1);
  if (host.empty()) return false;
  if (parse_ipv4(host) || is_same_name(host, "localhost")) return true;
  return !machine.empty() && (is_same_name(host, machine) || is_same_name(host, machine.substr(0, machine.find('.'))));
}

}  // namespace weir::control::web
