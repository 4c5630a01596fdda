// Any bytes as the state of a fetched feed, as they are and with the digest that they should have: no crash, and what
// is accepted is written as it was read.
#include <cstdlib>
#include <string_view>

#include "control/sources/fetch/state.h"

namespace {

void require(bool holds) {
  if (!holds) abort();
}

void read(std::string_view text) {
  using namespace weir::control;
  const weir::Result<FetchState> state = read_fetch_state(text);
  if (!state) return require(!state.error().empty());
  const weir::Result<FetchState> again = read_fetch_state(write_fetch_state(*state));
  require(again && write_fetch_state(*again) == write_fetch_state(*state));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read(text);
  read(weir::control::with_digest(text));
  return 0;
}
