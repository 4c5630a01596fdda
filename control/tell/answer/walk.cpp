#include "control/tell/answer/walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "control/compile/prove/verdict.h"
#include "control/compile/prove/visit_packet.h"
#include "control/policy/model/field_names.h"
#include "control/policy/model/packet.h"
#include "control/tell/answer/packet_text.h"
#include "filter/frame/tunnel.h"

namespace weir::control {
namespace {

const char* name_of(weir_side side) {
  return side == WEIR_SIDE_SOURCE ? "source" : "destination";
}

// "203.0.113.0/24"
std::string prefix_text(const weir_packet& packet, weir_side side, unsigned bits) {
  const auto text = [&](auto address) {
    return fmt::format("{}/{}", to_string(address & prefix_mask<decltype(address)>(bits)), bits);
  };
  return packet.family == 4 ? text(address_of<Ipv4>(packet, side)) : text(address_of<Ipv6>(packet, side));
}

// "203.0.113.7/32 port 443"; of a flow shape "src 10.0.0.0/8 proto tcp dport 443".
std::string key_text(filter::KeyShape shape, const weir_packet& packet, weir_side side) {
  if (!shape.flow) {
    const std::string prefix = prefix_text(packet, side, shape.addr_bits);
    return shape.with_port ? fmt::format("{} port {}", prefix, port_of(packet, side)) : prefix;
  }
  std::string text;
  const auto add = [&](const char* name, const std::string& value) {
    text += fmt::format("{}{} {}", text.empty() ? "" : " ", name, value);
  };
  if (shape.addr_bits != 0) add("src", prefix_text(packet, WEIR_SIDE_SOURCE, shape.addr_bits));
  if (shape.destination_bits != 0) add("dst", prefix_text(packet, WEIR_SIDE_DESTINATION, shape.destination_bits));
  if ((shape.flow_fields & WEIR_FLOW_PROTOCOL) != 0) {
    const std::string_view name = protocol_name(packet.protocol);
    add("proto", name.empty() ? std::to_string(packet.protocol) : std::string(name));
  }
  if ((shape.flow_fields & WEIR_FLOW_SPORT) != 0) add("sport", std::to_string(port_of(packet, WEIR_SIDE_SOURCE)));
  if ((shape.flow_fields & WEIR_FLOW_DPORT) != 0) add("dport", std::to_string(port_of(packet, WEIR_SIDE_DESTINATION)));
  return text.empty() ? "any packet" : text;
}

// Fills layer.keys. Returns the lists that match.
weir_set walk_keys(const Enforcing& enforcing, const weir_packet& packet, uint8_t through, uint64_t now,
                   LayerWalk& layer) {
  weir_set matched = {};
  const auto visit = [&](const filter::SnapshotView& snapshot, const filter::ShapeView& shape, weir_side side,
                         const filter::Key& key, uint32_t id) {
    KeyWalk& asked = layer.keys.emplace_back();
    asked.side = shape.shape.flow ? "both" : name_of(side);
    asked.key = key_text(shape.shape, packet, side);
    ask_filter(shape, key, &snapshot == enforcing.overlay, asked);
    asked.rule = id;
    const weir_rule& rule = snapshot.rule(id);  // rule 0 has no lists
    const bool is_source = side == WEIR_SIDE_SOURCE;
    weir_set lists = snapshot.set(is_source ? rule.source_set : rule.destination_set);
    weir_set by_conditions = {};
    lists = lists | follow_chain(snapshot, is_source ? rule.source_chain : rule.destination_chain, packet.family, now,
                                 [&](const weir_residual& residual, std::string text) {
                                   const bool holds = residual_holds(residual, packet, now);
                                   const weir_set more = snapshot.set(residual.set);
                                   if (holds) by_conditions = by_conditions | more;
                                   asked.conditions.push_back({std::move(text), holds, names_of(snapshot, more)});
                                 });
    asked.always = names_of(snapshot, lists);
    asked.matched = names_of(snapshot, lists | by_conditions);
    matched = matched | lists | by_conditions;
  };
  visit_keys(enforcing, packet, WEIR_AS_SOURCE | WEIR_AS_DESTINATION, through, visit);
  return matched;
}

struct JudgedLayer {
  LayerWalk walk;
  weir_set matched;
};

JudgedLayer walk_layer(const Enforcing& enforcing, const Book& book, const weir_packet& packet, uint64_t now) {
  JudgedLayer layer = {};
  const uint8_t through = sides_through(enforcing, packet, Gates::asked);
  for (const weir_side side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
    layer.walk.gates.push_back({name_of(side), enforcing.overlay == nullptr, (through & direction_of(side)) != 0});
  }
  layer.matched = walk_keys(enforcing, packet, through, now, layer.walk);
  layer.walk.verdict = verdict_of(enforcing.base, layer.matched,
                                  [&](const std::string& list) { return first_claim(book, list, packet, now); });
  layer.walk.origins = claims_of(book, packet, now);
  layer.walk.n_origins = shorten(layer.walk.origins);
  return layer;
}

// The outermost layer that drops; else the outermost that a list lets pass; 0: none, the default counts. From 1.
size_t deciding_layer(const std::vector<LayerWalk>& layers) {
  const auto number_of = [&](auto decides) {
    const auto found = std::find_if(layers.begin(), layers.end(), decides);
    return found == layers.end() ? size_t{0} : static_cast<size_t>(found - layers.begin()) + 1;
  };
  const size_t dropped = number_of([](const LayerWalk& layer) { return layer.verdict.action == "drop"; });
  if (dropped != 0) return dropped;
  return number_of([](const LayerWalk& layer) { return layer.verdict.reason != "default"; });
}

JudgedLayer judge_layer(const ListsAlone& lists, const weir_packet& packet, uint64_t now) {
  JudgedLayer layer = {};
  layer.walk.origins = claims_of(lists.book, packet, now);
  layer.matched = lists.lists_of(layer.walk.origins, [](const Origin&) { return true; });
  layer.walk.verdict = verdict_of(lists.header, lists.names, layer.matched,
                                  [&](const std::string& list) { return first_claim(lists.book, list, packet, now); });
  layer.walk.n_origins = shorten(layer.walk.origins);
  return layer;
}

// header: the actions, tunnels and masks that count. lists: their names. judge_it(packet) judges one layer.
template <class JudgeIt>
FrameWalk walk_frame(const weir_snapshot_header& header, const std::vector<std::string>& lists,
                     std::span<const uint8_t> frame, JudgeIt judge_it) {
  FrameWalk walked;
  walked.bytes = frame.size();
  weir_packet packets[WEIR_MAX_LAYERS] = {};
  filter::InnerLayers inner = {};
  const filter::Outcome outcome =
      filter::parse_layers(frame.data(), static_cast<uint32_t>(frame.size()), header.tunnels, packets[0], inner);
  if (outcome == filter::Outcome::malformed) {
    walked.outcome = "malformed";
    walked.verdict.action = header.unparsed_action == WEIR_DROP ? "drop" : "pass";
    walked.verdict.reason = "unparsed";
    return walked;
  }
  if (outcome == filter::Outcome::not_ip) {
    walked.outcome = "not_ip";
    walked.verdict.action = "pass";
    walked.verdict.reason = "not_ip";
    return walked;
  }
  walked.outcome = "ip";
  std::copy_n(inner.layer, inner.n, packets + 1);
  weir_set matched = {};
  for (uint32_t i = 0; i <= inner.n; i++) {
    JudgedLayer layer = judge_it(packets[i]);
    layer.walk.packet = packet_text(packets[i]);
    layer.walk.is_incomplete = (packets[i].has & WEIR_INCOMPLETE) != 0;
    if (i != 0) layer.walk.tunnel = bit_names(filter::tunnel_in(packets[i - 1], header.tunnels), tunnel_names());
    walked.is_incomplete |= layer.walk.is_incomplete;
    matched = matched | layer.matched;
    walked.layers.push_back(std::move(layer.walk));
  }
  walked.layer = deciding_layer(walked.layers);
  walked.verdict = walked.layers[walked.layer == 0 ? 0 : walked.layer - 1].verdict;
  walked.verdict.matched = names_of(lists, matched);
  walked.verdict.monitored = names_of(lists, lists_in(matched, header.monitor_lists));
  return walked;
}

}  // namespace

FrameWalk walk(const Enforcing& enforcing, const Book& book, std::span<const uint8_t> frame, uint64_t now) {
  return walk_frame(enforcing.header(), lists_of(enforcing.base), frame,
                    [&](const weir_packet& packet) { return walk_layer(enforcing, book, packet, now); });
}

FrameWalk walk(const ListsAlone& lists, std::span<const uint8_t> frame, uint64_t now) {
  return walk_frame(lists.header, lists.names, frame,
                    [&](const weir_packet& packet) { return judge_layer(lists, packet, now); });
}

std::vector<weir_packet> packets_of(std::span<const uint8_t> frame, uint8_t tunnels) {
  weir_packet outer = {};
  filter::InnerLayers inner = {};
  const auto length = static_cast<uint32_t>(frame.size());
  if (filter::parse_layers(frame.data(), length, tunnels, outer, inner) != filter::Outcome::ip) return {};
  std::vector<weir_packet> packets = {outer};
  packets.insert(packets.end(), inner.layer, inner.layer + inner.n);
  return packets;
}

}  // namespace weir::control
