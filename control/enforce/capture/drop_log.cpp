#include "control/enforce/capture/drop_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "common/clock.h"

namespace weir::control {

DropLog::DropLog() : id_(fmt::format("{:x}", static_cast<uint64_t>(wall_now().time_since_epoch().count()))) {}

void DropLog::add(Drop drop) {
  kept_.push_back(std::move(drop));
  added_++;
  if (kept_.size() > kMostKept) kept_.pop_front();
}

bool DropLog::Wanted::operator()(const Drop& drop) const {
  const wire::Sample& sample = drop.frame.sample;
  if (!list.empty() && (sample.dropped_by != wire::DroppedBy::list || wire::get_text(sample.list) != list))
    return false;
  return filter.passes(drop.frame.bytes, sample.frame_bytes);
}

DropLog::Page DropLog::page(uint64_t after, const Wanted& wanted, size_t most) const {
  const uint64_t gone = added_ - kept_.size();  // the number of the newest one that is no longer kept
  Page page;
  page.last = std::clamp(after, gone, added_);
  page.missed = after < gone ? gone - after : 0;
  while (page.last < added_ && page.drops.size() < most) {
    const Drop& drop = kept_[static_cast<size_t>(page.last - gone)];
    if (wanted(drop)) page.drops.push_back(&drop);
    page.last++;
  }
  return page;
}

}  // namespace weir::control
