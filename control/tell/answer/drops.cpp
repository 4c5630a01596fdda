#include "control/tell/answer/drops.h"

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <cstdlib>

#include "control/enforce/capture/capture_comment.h"
#include "control/policy/model/fields.h"
#include "control/policy/model/packet.h"
#include "control/policy/model/time_text.h"
#include "control/tell/answer/parts.h"
#include "control/tell/answer/text.h"

namespace weir::control {

namespace {

constexpr uint64_t kNsPerSecond = 1'000'000'000, kNsPerUs = 1000;

std::string time_of(uint64_t unix_ns) {
  std::string text = time_text(static_cast<uint32_t>(std::min<uint64_t>(unix_ns / kNsPerSecond, UINT32_MAX)));
  text.pop_back();  // Z
  return fmt::format("{}.{:06}Z", text, unix_ns % kNsPerSecond / kNsPerUs);
}

const char* reason_of(wire::DroppedBy by) {
  switch (by) {
    case wire::DroppedBy::list:
      return "list";
    case wire::DroppedBy::default_action:
      return "default";
    case wire::DroppedBy::unparsed:
      return "unparsed";
    case wire::DroppedBy::no_snapshot:
      return "no_snapshot";
  }
  return "unknown";
}

std::optional<DropLine::Packet> packet_in(const wire::Sample& sample) {
  const weir_packet packet = packet_of(sample);
  if (packet.family != 4 && packet.family != 6) return std::nullopt;
  DropLine::Packet told;
  told.layer = sample.layer + 1u;
  const auto text_of = [&](weir_side side) {
    return packet.family == 4 ? to_string(address_of<Ipv4>(packet, side)) : to_string(address_of<Ipv6>(packet, side));
  };
  told.src = text_of(WEIR_SIDE_SOURCE);
  told.dst = text_of(WEIR_SIDE_DESTINATION);
  told.values = field_values(packet);
  told.text = packet_text(packet);
  return told;
}

// Of the members that fields() become: of JSON, a number or a text.
struct ValueMember {
  std::string name;
  bool is_number;
};

// As entries of a policy call them; of a map in a map, both keys.
const std::vector<ValueMember>& value_members() {
  static const std::vector<ValueMember> all = [] {
    std::vector<ValueMember> members;
    for (const Field& field : fields()) {
      std::string name(field.key);
      if (!field.inner.empty()) name += fmt::format("_{}", field.inner);
      members.push_back({std::move(name), is_number(field)});
    }
    return members;
  }();
  return all;
}

void value_member(Fields& f, size_t i, std::string& value) {
  const ValueMember& member = value_members()[i];
  if (!member.is_number) return f.unless_empty({member.name.c_str(), "", "of the packet"}, value);
  std::optional<uint64_t> number;
  if (!value.empty()) number = strtoull(value.c_str(), nullptr, 10);
  f.maybe({member.name.c_str(), "", "of the packet"}, number);
  if (f.reading()) value = number ? std::to_string(*number) : "";
}

}  // namespace

void members(Fields& f, DropLine::Entry& entry) {
  f({"entry", "", "the first of the list that matches"}, entry.entry);
  f({"file", "", "where it is written"}, entry.file);
  f({"line", "", "of the file; 0: it was added"}, entry.line);
  f.unless_empty({"comment", "", "of the entry, in the policy file"}, entry.comment);
}

void members(Fields& f, DropLine::Packet& packet) {
  f({"src", "", "of the packet that drops"}, packet.src);
  f({"dst", "", "of the packet"}, packet.dst);
  packet.values.resize(fields().size());
  for (size_t i = 0; i < packet.values.size(); i++) value_member(f, i, packet.values[i]);
  f({"layer", "", "which packet of a frame in tunnels it is; 1: the outermost"}, packet.layer);
  f({"packet", "", "the same, as `controlctl explain` takes it"}, packet.text);
}

void members(Fields& f, DropLine& line) {
  f({"time", "", "of the verdict, UTC"}, line.time);
  f.object({"generation", "", "that judged it"}, line.generation, "generation");
  f({"target", "", "where it was dropped"}, line.target);
  f({"port", "", "where it came in: a data plane's port, or XDP's interface by its index"}, line.port);
  f.unless_empty({"interface", "", "of XDP: its name"}, line.interface);
  f({"queue", "", "of the port"}, line.queue);
  f({"reason", "", "`list`, `default`, `unparsed` or `no_snapshot`"}, line.reason);
  f.unless_empty({"list", "", "that drops it"}, line.list);
  f.group("entry", line.entry);
  f({"frame_bytes", "bytes", "of the frame, without FCS"}, line.frame_bytes);
  f({"one_in", "", "dropped frames that it stands for"}, line.one_in);
  f.group("src", line.packet);
}

void members(Fields& f, DropCounts& counts) {
  f({"sampled", "samples", "chosen by the targets since controld started"}, counts.sampled);
  f({"limited", "samples", "of those, past a limit of their list"}, counts.limited);
  f({"lost", "samples", "of those, in a target or on the way"}, counts.lost);
  f({"waiting", "samples", "of those, still to come"}, counts.waiting);
}

void members(Fields& f, DropsAnswer& answer) {
  f({"sampling", "", "dropped frames are sampled now"}, answer.sampling);
  f({"next", "", "`after` of the request for the page behind this one"}, answer.next);
  f({"more", "", "there is more already"}, answer.more);
  f({"missed", "samples", "behind `after`, but no longer in memory"}, answer.missed);
  members(f, answer.counts);
  f.array({"drops", "", "oldest first"}, answer.drops, "drop");
}

void members(Fields& f, DropGap& gap) {
  f({"gap", "", "in words: what is not told"}, gap.gap);
  f({"limited", "samples", "past a limit of their list"}, gap.limited);
  f({"lost", "samples", "in a target or on the way"}, gap.lost);
  f({"missed", "samples", "no longer in controld's memory when they were asked for"}, gap.missed);
  f({"past_rate", "samples", "past `--rate`"}, gap.past_rate);
}

DropLine line_of(const Drop& drop) {
  const wire::Sample& sample = drop.frame.sample;
  DropLine line;
  line.time = time_of(sample.time_unix_ns);
  line.generation = sample.generation;
  line.target = drop.target;
  line.port = sample.port;
  char name[IF_NAMESIZE] = {};
  if (drop.has_interfaces && if_indextoname(sample.port, name) != nullptr) line.interface = name;
  line.queue = sample.queue;
  line.reason = reason_of(sample.dropped_by);
  if (sample.dropped_by == wire::DroppedBy::list) line.list = wire::get_text(sample.list);
  if (drop.entry) {
    line.entry = DropLine::Entry{drop.entry->entry, drop.entry->file, drop.entry->line, drop.entry->comment};
  }
  line.frame_bytes = sample.frame_bytes;
  line.one_in = sample.one_in;
  line.packet = packet_in(sample);
  return line;
}

}  // namespace weir::control
