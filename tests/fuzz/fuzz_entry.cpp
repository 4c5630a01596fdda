// Any bytes as a line of `controlctl add`: no crash, and what is taken is one entry, whose text says the same.
#include <cstdlib>
#include <string>

#include "control/policy/read/entry_line.h"

namespace {

void require(bool holds) {
  if (!holds) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weir::control;
  ListDraft list, again;
  const weir::Result<std::string> line =
      read_entry_line({reinterpret_cast<const char*>(data), size}, size % 2 == 0, list);
  if (!line) {
    require(!line.error().empty());
    return 0;
  }
  require(list.entries() == 1);
  const weir::Result<std::string> same = read_entry_line(*line, true, again);
  require(same && *same == *line);
  require(again.v4 == list.v4 && again.v6 == list.v6 && again.flows == list.flows);
  return 0;
}
