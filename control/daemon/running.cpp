#include "control/daemon/running.h"

#include "control/policy/read/policy.h"

namespace weir::control {

std::shared_ptr<Publication> publication_of(Compiled& compiled) {
  auto publication = std::make_shared<Publication>();
  publication->generation = compiled.generation;
  publication->snapshot = std::move(compiled.snapshot);
  publication->size_bytes = compiled.size_bytes;
  publication->digest = compiled.digest;
  return publication;
}

std::shared_ptr<const Base> whole_of(Compiled& compiled, std::shared_ptr<const Policy> policy) {
  auto base = std::make_shared<Base>();
  base->publication = publication_of(compiled);
  base->snapshot = std::make_shared<OpenSnapshot>(base->publication);
  base->policy = std::move(policy);
  base->report = std::move(compiled.report);
  return base;
}

std::shared_ptr<Running> running_of(std::shared_ptr<const Policy> policy) {
  auto next = std::make_shared<Running>();
  next->policy_text = policy->text;
  next->fetched = fetched_feeds(*policy);
  next->inputs = inputs_digest(*policy);
  next->book = std::shared_ptr<const Book>(policy, &policy->lists);
  next->lists = details_of(*next->book);
  next->policy = std::move(policy);
  return next;
}

Result<Enforcing> enforcing_of(const Running& running) {
  const Result<const filter::SnapshotView*> base = running.stands_on->snapshot->view();
  if (!base) return Error{base.error()};
  const bool has_overlay = running.publication->base != nullptr;
  const Result<const filter::SnapshotView*> overlay = has_overlay ? running.snapshot->view() : nullptr;
  if (!overlay) return Error{overlay.error()};
  return Enforcing(**base, *overlay);
}

Result<Radius> radius_between(const Enforcing& before, const Running& next, const SeenTraffic& traffic,
                              const std::set<std::string>& accepted) {
  const Result<Enforcing> after = enforcing_of(next);
  if (!after) return Error{after.error()};
  return radius_of(before, *after, traffic.frames, unix_now(), accepted);
}

}  // namespace weir::control
