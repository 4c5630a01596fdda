#pragma once

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string>

// A folder of the test's own, gone with it.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "weir-common-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) abort();
    path_ = name;
  }
  Folder(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  std::string make(const std::string& name) const {
    if (mkdir((*this / name).c_str(), 0755) != 0) abort();
    return *this / name;
  }

 private:
  std::string path_;
};
