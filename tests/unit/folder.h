#pragma once

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace weir::test {
// Whether the test case that runs has failed, or an exception leaves it (tests/unit/catch_main.cpp). Programs with
// another main(): never.
__attribute__((weak)) bool is_failing();
// Keeps a folder of a failed test in $WEIR_EVIDENCE, or where it is, and prints where.
__attribute__((weak)) void keep_evidence(const std::string& folder);
}  // namespace weir::test

// A folder of the test's own, gone with it unless the test fails.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "weir-unit-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) abort();
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    const bool is_failing = weir::test::is_failing != nullptr && weir::test::is_failing();
    is_failing ? weir::test::keep_evidence(path_) : void(std::filesystem::remove_all(path_));
  }

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  // Each returns the path of what it made.
  std::string make(const std::string& name) const {
    if (mkdir((*this / name).c_str(), 0755) != 0) abort();
    return *this / name;
  }
  // With the folders above it.
  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(*this / name).parent_path());
    std::ofstream(*this / name, std::ios::binary) << text;
    return *this / name;
  }

  std::string read(const std::string& name) const {
    std::ifstream file(*this / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

 private:
  std::string path_;
};
