// Any bytes as a frame: nothing outside is read (AddressSanitizer sees the exact buffer of libFuzzer), the walk ends,
// and what is said holds together.
#include <cstdint>
#include <cstdlib>

#include "dataplane/frame.h"

using namespace weir::dataplane;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Headers headers = {};
  const Outcome outcome = parse_frame(data, static_cast<uint32_t>(size), headers);
  if (outcome != Outcome::ip) return 0;
  if (headers.family != 4 && headers.family != 6) abort();
  if (has(headers, WEIR_HAS_PORTS) && (has(headers, WEIR_INCOMPLETE) || !carries_ports(headers.protocol))) abort();
  if (size < kEthernetBytes + kIpv4Bytes) abort();

  // A header never lies behind kMaxHeaderBytes: cutting there changes nothing.
  Headers cut = {};
  const uint32_t bounded = static_cast<uint32_t>(size < kMaxHeaderBytes ? size : kMaxHeaderBytes);
  if (parse_frame(data, bounded, cut) != outcome || cut.protocol != headers.protocol) abort();
  if (has(cut, WEIR_HAS_PORTS) != has(headers, WEIR_HAS_PORTS) ||
      has(cut, WEIR_INCOMPLETE) != has(headers, WEIR_INCOMPLETE))
    abort();
  return 0;
}
