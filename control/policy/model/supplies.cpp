#include "control/policy/model/supplies.h"

#include <algorithm>
#include <span>

#include "common/digest.h"

namespace weir::control {
namespace {

template <class Addr>
void order(std::vector<Supply<Addr>>& supplies) {
  std::stable_sort(supplies.begin(), supplies.end(),
                   [](const auto& a, const auto& b) { return a.address < b.address; });
  size_t n = 0;
  for (size_t i = 0; i < supplies.size(); i++) {
    if (n != 0 && supplies[n - 1].address == supplies[i].address) {
      supplies[n - 1].is_cut |= supplies[i].is_cut;
    } else if (n++ != i) {
      supplies[n - 1] = std::move(supplies[i]);
    }
  }
  supplies.resize(n);
}

std::string host_of(const std::string& url) {
  const size_t scheme = url.find("://");
  const size_t begin = scheme == std::string::npos ? 0 : scheme + 3;
  std::string host = url.substr(begin, url.find_first_of("/?#", begin) - begin);
  if (const size_t at = host.rfind('@'); at != std::string::npos) host.erase(0, at + 1);
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

}  // namespace

void order(Supplies& supplies) {
  order(supplies.v4);
  order(supplies.v6);
}

std::array<uint64_t, 2> digest_of(const Supplies& supplies) {
  if (supplies.empty()) return {};
  std::string bytes;
  const auto add = [&](const auto& some) {
    for (const auto& supply : some) bytes += to_string(supply.address) + (supply.is_cut ? "-" : "+");
  };
  add(supplies.v4);
  add(supplies.v6);
  return weir::digest_of(std::as_bytes(std::span(bytes)));
}

void add_server(const std::string& url, const std::string& what, Supplies& supplies) {
  const std::string host = host_of(url);
  if (const auto v4 = parse_ipv4(host)) supplies.v4.push_back({*v4, what});
  if (const auto v6 = parse_ipv6(host)) supplies.v6.push_back({*v6, what});
}

}  // namespace weir::control
