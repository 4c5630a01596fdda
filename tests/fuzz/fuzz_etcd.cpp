// Any bytes as answers of etcd: no crash, and data or an error.
#include <cstdlib>
#include <string>

#include "control/sources/etcd/messages.h"

namespace {

using namespace weir::control::etcd;

void require(bool holds) {
  if (!holds) abort();
}

template <class Read>
void read(std::string_view text, Read read) {
  const auto answer = read(text);
  require(answer || !answer.error().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read(text, read_range);
  read(text, read_transaction);
  read(text, read_lease);
  read(text, read_keepalive);
  read(text, read_token);
  read(text, read_watch);
  read(text, read_status);
  (void)read_failure(text);
  read(text, whole_of);
  // What is base64 is written as it was read.
  if (const auto bytes = from_base64(text); bytes) require(from_base64(to_base64(*bytes)).value() == *bytes);
  require(from_base64(to_base64(text)).value() == text);
  require(end_of_prefix(text) > text || end_of_prefix(text) == std::string(1, '\0'));
  return 0;
}
