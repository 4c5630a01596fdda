#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "common/result.h"

namespace weir {

// Error: the system, or a control group, allows no more threads.
template <class Body>
Result<std::thread> start_thread(Body body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    return Error{"cannot start a thread: " + error.code().message()};
  }
}

}  // namespace weir
