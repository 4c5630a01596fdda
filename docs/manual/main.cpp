// weir-manual: runs while weir is built, and prints what is made of the tables of options and keys.
//   weir-manual page FILE.in              a manual page: FILE.in with what it asks for put in
//   weir-manual schema weir.yaml          a JSON Schema
//   weir-manual completion SHELL PROGRAM
//   weir-manual keys weir.yaml            every key, a line each

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "common/manual/completion.h"
#include "common/manual/roff.h"
#include "docs/manual/keys_page.h"
#include "docs/manual/schema.h"
#include "docs/manual/tables.h"

namespace weir::manual {
namespace {

// What stands for a line of a page: `@OPTIONS dataplane@`, `@KEYS weir.yaml@`, `@TITLE name 8 Name of the section@`.
// Empty: it cannot be.
std::optional<std::string> made_of(const std::string& line) {
  const std::string inner = line.substr(1, line.size() - 2);
  const size_t blank = inner.find(' ');
  const std::string word = inner.substr(0, blank);
  const std::string rest = blank == std::string::npos ? "" : inner.substr(blank + 1);
  if (word == "OPTIONS") {
    const Options* options = options_of(rest);
    return options == nullptr ? std::nullopt : std::optional(rows(*options));
  }
  if (word == "KEYS") {
    const yaml::Section* section = section_of(rest);
    return section == nullptr ? std::nullopt : std::optional(keys_page(*section));
  }
  if (word == "TITLE" && rest.size() > 4) {
    const size_t end = rest.find(' ');
    return title(rest.substr(0, end), rest[end + 1] - '0', rest.substr(end + 3));
  }
  return std::nullopt;
}

int page(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (line.size() > 2 && line.front() == '@' && line.back() == '@') {
      const std::optional<std::string> made = made_of(line);
      if (!made) return fmt::print(stderr, "{}: nothing is known for {}\n", path, line), 1;
      line = made->substr(0, made->size() - 1);
    }
    std::cout << line << "\n";
  }
  if (file.bad() || !file.eof()) return fmt::print(stderr, "{} cannot be read\n", path), 1;
  return 0;
}

int run(const std::vector<std::string>& words) {
  const std::string what = words.empty() ? "" : words[0];
  if (what == "page" && words.size() == 2) return page(words[1]);
  if (what == "completion" && words.size() == 3) {
    if (const Options* options = options_of(words[2])) {
      std::cout << completion_for(words[1], {words[2], options, {}, words[2] == "dataplane"});
      return 0;
    }
  }
  if (words.size() == 2) {
    if (const yaml::Section* section = section_of(words[1])) {
      if (what == "schema") std::cout << schema(words[1], *section);
      if (what == "keys") {
        for (const std::string& path : key_paths(*section)) std::cout << path << "\n";
      }
      return 0;
    }
  }
  std::cerr << "usage: weir-manual page FILE.in | schema YAML | completion SHELL PROGRAM | keys YAML\n";
  return 2;
}

}  // namespace
}  // namespace weir::manual

int main(int argc, char** argv) {
  return weir::manual::run({argv + 1, argv + argc});
}
