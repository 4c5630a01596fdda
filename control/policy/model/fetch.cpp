#include "control/policy/model/fetch.h"

#include <cstdio>
#include <span>

#include "common/digest.h"

namespace weir::control {

namespace {

std::string without_user(const std::string& url) {
  const size_t scheme = url.find("://");
  const size_t host = scheme == std::string::npos ? 0 : scheme + 3;
  const std::string authority = url.substr(host, url.find_first_of("/?#", host) - host);
  const size_t at = authority.rfind('@');
  return at == std::string::npos ? url : url.substr(0, host) + url.substr(host + at + 1);
}

}  // namespace

std::string shown_url(const std::string& url) {
  std::string shown = without_user(url);
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  return shown;
}

std::string fetched_path(const std::string& state_dir, const std::string& list, const std::string& url) {
  const auto digest = static_cast<uint32_t>(weir::digest_of(std::as_bytes(std::span(url)))[0]);
  char number[9];
  snprintf(number, sizeof number, "%08x", digest);
  return state_dir + "/feeds/" + list + "-" + number + ".feed";
}

}  // namespace weir::control
