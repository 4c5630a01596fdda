#include "control/enforce/capture/capture_comment.h"

#include <fmt/format.h>

#include <cstring>

namespace weir::control {

namespace {

std::string reason_of(const wire::Sample& sample, const Origin* entry) {
  switch (sample.dropped_by) {
    case wire::DroppedBy::list:
      return fmt::format("list {}, {}", wire::get_text(sample.list),
                         entry == nullptr ? "entry not known"
                                          : fmt::format("entry {}, {}:{}", entry->entry, entry->file, entry->line));
    case wire::DroppedBy::default_action:
      return "policy.default";
    case wire::DroppedBy::unparsed:
      return "policy.unparsed";
    case wire::DroppedBy::no_snapshot:
      return "no_snapshot";
  }
  return "a reason of another version";
}

}  // namespace

std::string capture_comment(const wire::Sample& sample, const Origin* entry) {
  const std::string generation = sample.generation.epoch == 0
                                     ? "none"
                                     : fmt::format("{:016x}/{}", sample.generation.epoch, sample.generation.number);
  std::string text = fmt::format("generation {}, {}{}, port {}", generation, reason_of(sample, entry),
                                 sample.layer == 0 ? "" : fmt::format(", layer {}", sample.layer + 1), sample.port);
  if (entry != nullptr && !entry->comment.empty()) text += ", comment " + entry->comment;
  return text;
}

weir_packet packet_of(const wire::Sample& sample) {
  weir_packet packet;
  static_assert(sizeof packet == sizeof sample.packet);
  memcpy(&packet, sample.packet, sizeof packet);
  return packet;
}

}  // namespace weir::control
