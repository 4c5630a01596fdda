#pragma once

#include <string>
#include <vector>

#include "filter/probe/dispatch.h"
#include "tests/unit/filter/support.h"

// Kernels beside their definition, on made-up memory.
namespace weir::filter::test {

inline std::vector<const Kernels*> usable_kernels() {
  std::vector<const Kernels*> usable;
  for (const Kernels* kernels : all_kernels()) {
    if (kernels->usable()) {
      usable.push_back(kernels);
    } else {
      say_skipped("processors: this one cannot run the kernels " + std::string(kernels->name));
    }
  }
  return usable;
}

// n random values in memory that ends with the last one.
template <class T>
Buffer random_values(size_t n, Random& random, T mask = static_cast<T>(~T{0})) {
  Buffer buffer(n * sizeof(T));
  auto* values = reinterpret_cast<T*>(buffer.bytes().data());
  for (size_t i = 0; i < n; i++) values[i] = static_cast<T>(random.next()) & mask;
  return buffer;
}

template <class T>
const T* values(const Buffer& buffer) {
  return reinterpret_cast<const T*>(buffer.bytes().data());
}

inline const Kernels& scalar() {
  return *all_kernels().back();
}

}  // namespace weir::filter::test
