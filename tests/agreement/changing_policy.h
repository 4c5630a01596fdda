#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/result.h"
#include "control/policy/model/edit.h"
#include "control/policy/model/policy.h"
#include "tests/agreement/choices.h"

// A random policy whose lists change as controld changes them, and beside it the same lists as plain rows, which the
// reference asks.
namespace weir::agreement {

// Entries of one kind.
struct Touched {
  std::vector<control::Entry<Ipv4>> v4;
  std::vector<control::Entry<Ipv6>> v6;
  std::vector<control::Flow> flows;

  size_t size() const { return v4.size() + v6.size() + flows.size(); }
  void add(const control::ListDraft& draft);
};

// How many entries changed, by how.
struct Changes {
  uint64_t added = 0, deleted = 0, expired = 0, fed = 0;
  uint64_t all() const { return added + deleted + expired + fed; }
  Changes& operator+=(const Changes& more);
};

// What one publication changes, or the time.
struct Step {
  std::string what;  // "add l1, feed l0": for people
  Touched touched;
  Changes changes;
  bool is_time = false;  // entries ended, nothing is published
};

class ChangingPolicy {
 public:
  // Error: the policy is refused, and why.
  static Result<ChangingPolicy> make(Choices& choices);

  // What controld would compile.
  std::shared_ptr<const control::Policy> current() const { return current_; }
  // The same, made anew from the plain rows, for the reference.
  std::shared_ptr<const control::Policy> expected() const { return expected_; }
  uint64_t now() const { return now_; }

  // Draws the next change, and makes it.
  Step step(Choices& choices);
  // The last step cannot be compiled: as it was before.
  void undo();

 private:
  ChangingPolicy() = default;
  void add(Choices& choices, Step& step);
  void remove(Choices& choices, Step& step);
  void feed(Choices& choices, Step& step);
  void sweep(Step& step);
  void move_time(Choices& choices, Step& step);
  size_t any_list(Choices& choices) const { return choices.below(static_cast<uint32_t>(rows_.size())); }
  uint64_t entries() const;
  // By `add`, `del` or what was swept.
  void change(size_t list, control::ListDraft added, control::ListDraft removed, Step& step);

  // As it was, as it is, and what the step that is drawn makes of it.
  struct State {
    std::shared_ptr<const control::Policy> current, expected;
    std::vector<control::ListDraft> rows;  // by list: what is in it
  };
  State before_;
  std::shared_ptr<control::Policy> current_, expected_;
  std::vector<control::ListDraft> rows_;
  std::vector<control::ListDraft> pool_;  // by list: what may be added
  std::vector<control::EntriesEdit> edits_;
  uint64_t now_ = 0;
};

}  // namespace weir::agreement
