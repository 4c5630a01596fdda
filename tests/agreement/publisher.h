#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/result.h"
#include "control/enforce/publish/open_snapshot.h"
#include "control/policy/model/policy.h"

// What becomes of a policy that changes, as controld decides it (control/daemon/publication.cpp): an overlay on the
// base where one can say it, else a new base.
namespace weir::agreement {

struct Published {
  std::shared_ptr<const control::Publication> publication;
  uint64_t overlay_keys = 0;
  std::string why_base;  // why it is no overlay; empty: it is one
};

class Publisher {
 public:
  explicit Publisher(std::function<wire::Generation()> next_generation) : next_(std::move(next_generation)) {}

  // Error: it cannot be compiled, or is not proven.
  Result<Published> next(std::shared_ptr<const control::Policy> policy);
  // The same, whatever an overlay could say.
  Result<Published> next_base(std::shared_ptr<const control::Policy> policy, std::string why);

  // A new base of what is enforced now, which is built while other changes are published: finish_compaction() says that
  // it is there, and the next change stands on it, unless a newer base is there by then.
  Result<void> begin_compaction(std::shared_ptr<const control::Policy> policy);
  bool is_compacting() const { return compacted_ != nullptr; }
  void finish_compaction();

  // Of the base that the next overlay would stand on.
  uint64_t base_number() const { return base_ != nullptr ? base_->publication->generation.number : 0; }

 private:
  struct Base {
    std::shared_ptr<const control::Publication> publication;
    std::unique_ptr<control::OpenSnapshot> snapshot;
    std::shared_ptr<const control::Policy> policy;
  };
  Result<std::shared_ptr<const Base>> build(std::shared_ptr<const control::Policy> policy, wire::Generation generation);
  Result<Published> whole(std::shared_ptr<const control::Policy> policy, wire::Generation generation, std::string why);

  std::function<wire::Generation()> next_;
  std::shared_ptr<const Base> base_, compacted_;
};

}  // namespace weir::agreement
