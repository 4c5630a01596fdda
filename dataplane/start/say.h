#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <utility>

// What the program says to the person who started it: tables on stdout, one line per event on stderr.
namespace weir::dataplane {

template <class... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
  const std::string line = "dataplane: " + fmt::format(text, std::forward<Args>(args)...) + "\n";
  fputs(line.c_str(), stderr);
}

}  // namespace weir::dataplane
