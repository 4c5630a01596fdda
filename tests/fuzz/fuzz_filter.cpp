// Any bytes as the filter of `controlctl drops`, which is a program: no crash and no read outside of the frame,
// whatever the program; and what is taken is taken again when it is written.
#include <cstdlib>
#include <string_view>
#include <vector>

#include "control/policy/read/frame_filter.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using weir::control::FrameFilter;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const weir::Result<FrameFilter> filter = FrameFilter::of_program(text);
  if (!filter) return filter.error().empty() ? abort(), 0 : 0;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{14}, size_t{60}, size_t{512}}) {
    const std::vector<std::byte> frame(bytes, std::byte{0x45});  // on the heap, as long as it says
    const bool passes = filter->passes(frame, static_cast<uint32_t>(bytes + 4));
    const weir::Result<FrameFilter> again = FrameFilter::of_program(filter->program_text());
    if (again && again->passes(frame, static_cast<uint32_t>(bytes + 4)) != passes)
      abort();  // longer by what clears memory
  }
  return 0;
}
