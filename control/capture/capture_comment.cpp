#include "control/capture/capture_comment.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::control {

namespace {

std::string reason_of(const wire::Sample& sample, const OriginMatch* entry) {
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

std::string capture_comment(const wire::Sample& sample, const OriginMatch* entry) {
  const std::string generation = sample.generation.epoch == 0
                                     ? "none"
                                     : fmt::format("{:016x}/{}", sample.generation.epoch, sample.generation.number);
  return fmt::format("generation {}, {}{}, port {}", generation, reason_of(sample, entry),
                     sample.layer == 0 ? "" : fmt::format(", layer {}", sample.layer + 1), sample.port);
}

weir_packet packet_of(const wire::Sample& sample) {
  weir_packet packet = {};
  for (const int side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
    std::copy_n(sample.address[side], 2, packet.address[side]);
    packet.port[side] = sample.l4_port[side];
  }
  packet.family = sample.family;
  packet.protocol = sample.protocol;
  packet.has = sample.has;
  packet.icmp_type = sample.icmp_type;
  packet.icmp_code = sample.icmp_code;
  packet.tcp_flags = sample.tcp_flags;
  return packet;
}

}  // namespace weir::control
