#include "tests/agreement/publisher.h"

#include <utility>

#include "control/compile/compile.h"
#include "control/compile/overlay.h"
#include "control/compile/reuse.h"

namespace weir::agreement {

using control::Policy;

namespace {

std::shared_ptr<control::Publication> publication_of(control::Compiled& compiled) {
  auto publication = std::make_shared<control::Publication>();
  publication->generation = compiled.generation;
  publication->snapshot = std::move(compiled.snapshot);
  publication->size_bytes = compiled.size_bytes;
  publication->digest = compiled.digest;
  return publication;
}

}  // namespace

Result<std::shared_ptr<const Publisher::Base>> Publisher::build(std::shared_ptr<const Policy> policy,
                                                                wire::Generation generation) {
  Result<control::Compiled> compiled = control::compile(*policy, generation);
  if (!compiled) return Error{compiled.error()};
  auto base = std::make_shared<Base>();
  base->publication = publication_of(*compiled);
  base->snapshot = std::make_unique<control::OpenSnapshot>(base->publication);
  base->policy = std::move(policy);
  return std::shared_ptr<const Base>(std::move(base));
}

Result<Published> Publisher::whole(std::shared_ptr<const Policy> policy, wire::Generation generation, std::string why) {
  Result<std::shared_ptr<const Base>> base = build(std::move(policy), generation);
  if (!base) return Error{base.error()};
  base_ = std::move(*base);
  return Published{base_->publication, 0, std::move(why)};
}

Result<Published> Publisher::next_base(std::shared_ptr<const Policy> policy, std::string why) {
  return whole(std::move(policy), next_(), std::move(why));
}

Result<Published> Publisher::next(std::shared_ptr<const Policy> policy) {
  const wire::Generation generation = next_();
  if (base_ == nullptr) return whole(std::move(policy), generation, "the first one");
  if (control::settings_digest(*policy) != control::settings_digest(*base_->policy)) {
    return whole(std::move(policy), generation, "other settings");
  }
  const Result<const filter::SnapshotView*> below = base_->snapshot->view();
  if (!below) return Error{below.error()};
  Result<control::Overlaid> made =
      control::compile_overlay(*policy, {**below, base_->publication->digest, base_->policy->lists}, generation);
  if (!made) return Error{made.error()};
  if (!made->needs_rebuild.empty()) return whole(std::move(policy), generation, made->needs_rebuild);
  if (made->compiled.size_bytes + base_->publication->size_bytes > policy->memory_bytes) {
    return whole(std::move(policy), generation, "base and overlay together exceed filter.memory");
  }
  const std::shared_ptr<control::Publication> publication = publication_of(made->compiled);
  publication->base = base_->publication;
  return Published{publication, made->overlay.keys, ""};
}

Result<void> Publisher::begin_compaction(std::shared_ptr<const Policy> policy) {
  Result<std::shared_ptr<const Base>> base = build(std::move(policy), next_());
  if (!base) return Error{base.error()};
  compacted_ = std::move(*base);
  return {};
}

void Publisher::finish_compaction() {
  const std::shared_ptr<const Base> compacted = std::exchange(compacted_, nullptr);
  if (compacted->publication->generation.number > base_number()) base_ = compacted;
}

}  // namespace weir::agreement
