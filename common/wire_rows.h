#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

// Parts of messages that are rows of a fixed size.
namespace weir::wire {

template <class T>
void append(std::vector<std::byte>& bytes, std::span<const T> items) {
  const std::span<const std::byte> more = std::as_bytes(items);
  bytes.insert(bytes.end(), more.begin(), more.end());
}

// The first n items, which the caller knows to be there; `bytes` is then what follows them.
template <class T>
std::vector<T> take(std::span<const std::byte>& bytes, size_t n) {
  std::vector<T> items(n);
  if (n > 0) memcpy(static_cast<void*>(items.data()), bytes.data(), n * sizeof(T));
  bytes = bytes.subspan(n * sizeof(T));
  return items;
}

}  // namespace weir::wire
