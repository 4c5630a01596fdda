#pragma once

namespace weir::control {

// The false-positive rate that a sound filter has. Of a layout whose bits tell it is theirs exactly, low = rate = high:
// over keys that nobody chose with knowledge of the secret. Else what the formula expects, and how far a secret may be
// from it.
struct RateBand {
  double low = 0, rate = 0, high = 0;
  bool of_bits = false;
};

}  // namespace weir::control
