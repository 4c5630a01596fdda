#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.h"

// What etcd's JSON holds as text: bytes in base64, whole numbers of 64 bits in digits.
namespace weir::control::etcd {

std::string to_base64(std::string_view bytes);
// Error: it is not base64 with its padding.
Result<std::string> from_base64(std::string_view text);

// Empty text is 0: etcd leaves out what is 0. Error: it is no number.
Result<int64_t> whole_of(std::string_view text);

}  // namespace weir::control::etcd
