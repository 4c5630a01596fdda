#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "control/base/loop/loop.h"
#include "control/compile/compile.h"
#include "control/enforce/publish/store.h"
#include "control/lists/book/disk.h"
#include "control/policy/read/policy.h"
#include "tests/catch.h"
#include "tests/unit/eventually.h"
#include "tests/unit/folder.h"

// As eventually(test), while the loop turns.
template <class Test>
bool eventually(weir::control::Loop& loop, Test test) {
  for (int idle = 0; idle < kPatience;) {
    if (test()) return true;
    if (!loop.turn(std::chrono::milliseconds(1))) idle++;
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
