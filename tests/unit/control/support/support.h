#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "control/book/disk.h"
#include "control/compile/compile.h"
#include "control/loop/loop.h"
#include "control/publish/store.h"
#include "control/read/policy.h"
#include "tests/catch.h"

// A folder that goes with the test.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "weir-daemon-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) abort();
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, const std::string& text) const {
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

// Waits for another thread or process; fails the test only when it never comes.
template <class Test>
bool eventually(Test test) {
  for (int i = 0; i < 20'000; i++) {
    if (test()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

// The same, while the loop turns.
template <class Test>
bool eventually(weir::control::Loop& loop, Test test) {
  const auto deadline = weir::control::Clock::now() + std::chrono::seconds(20);
  while (weir::control::Clock::now() < deadline) {
    if (test()) return true;
    loop.run_until(test, weir::control::Clock::now() + std::chrono::milliseconds(1));
  }
  return test();
}

inline std::string policy_text(const std::string& entry) {
  return "version: 1\nlists:\n  - {name: l1, action: drop, entries: [" + entry +
         "]}\n  - {name: l2, action: pass, entries: [192.0.2.1]}\n";
}

struct Sample {
  std::shared_ptr<const weir::control::Publication> publication;
  std::string book;
};

// A real snapshot of a small policy.
inline Sample sample(weir::wire::Generation generation) {
  weir::Diagnostics diagnostics;
  auto policy = weir::control::parse_policy("test.yaml", policy_text("203.0.113.7"), diagnostics);
  REQUIRE(policy);
  auto compiled = weir::control::compile(*policy, generation);
  REQUIRE(compiled);
  auto publication = std::make_shared<weir::control::Publication>();
  publication->generation = compiled->generation;
  publication->snapshot = std::move(compiled->snapshot);
  publication->size_bytes = compiled->size_bytes;
  publication->digest = compiled->digest;
  return {publication, weir::control::write_book(policy->lists)};
}
