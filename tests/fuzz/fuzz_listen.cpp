// Any bytes as the address of `metrics: {listen: ...}`, and as the Host of a request: no crash, an address that is
// taken is written as it is read again, and only what names this machine is let in.
#include <cctype>
#include <cstdlib>
#include <string>
#include <string_view>

#include "control/policy/model/listen.h"
#include "control/tell/web/host.h"

namespace {

using namespace weir::control;

constexpr std::string_view kMachine = "rack7.example.net";

void require(bool holds) {
  if (!holds) abort();
}

void read(std::string_view text) {
  const weir::Result<ListenAddress> address = parse_listen_address(text);
  if (!address) return require(!address.error().empty());
  const weir::Result<ListenAddress> again = parse_listen_address(text_of(*address));
  require(again && *again == *address);
}

void ask(std::string_view host) {
  if (!web::is_own_host(host, kMachine)) return;
  require(!host.empty() && host.find_first_of("/@ \t\r\n") == std::string_view::npos);
  // The names that are let in, and addresses: nothing else begins so, or is as long.
  std::string lower(host);
  for (char& c : lower) c = static_cast<char>(tolower(static_cast<unsigned char>(c)));
  const bool is_address = lower.find_first_not_of("0123456789abcdef:.[]") == std::string::npos;
  require(is_address || lower.starts_with("localhost") || lower.starts_with("rack7"));
  require(is_address || host.size() <= kMachine.size() + sizeof ".:65535");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read(text);
  (void)parse_metrics_settings(text);
  ask(text);
  return 0;
}
