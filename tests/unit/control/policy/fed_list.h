#pragma once

#include <optional>
#include <set>
#include <string>

#include "control/policy/read/policy.h"
#include "tests/catch.h"
#include "tests/unit/folder.h"

// A policy whose list `a` has the feed a.txt, and what reading it gives.
namespace weir::control {

inline std::string policy_with(const std::string& more, const std::string& head = "") {
  return "version: 1\n" + head + "lists:\n- {name: a, action: drop, file: a.txt" + more + "}\n";
}

struct Read {
  std::optional<Policy> policy;
  Diagnostics diagnostics;
  const List& list() const { return policy->lists.back(); }
  std::string text() const { return format(diagnostics); }
  // Of its first feed.
  std::optional<FeedRefusal> refusal() const {
    const std::vector<FeedFile> feeds = policy ? list().feeds() : std::vector<FeedFile>();
    return feeds.empty() ? std::nullopt : feeds.front().refusal;
  }
  std::string reason() const { return refusal() ? refusal()->reason : ""; }
};

inline Read read(const Folder& folder, const Book* before = nullptr, const std::set<std::string>& accept = {}) {
  Read read;
  FeedHistory history(before);
  history.is_ours = false;
  history.accept = accept;
  read.policy = read_policy(folder / "weir.yaml", read.diagnostics, kNever - 1, history);
  return read;
}

}  // namespace weir::control
