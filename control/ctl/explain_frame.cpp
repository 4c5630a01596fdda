#include "control/ctl/explain_frame.h"

#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <vector>

#include "common/result.h"
#include "control/ctl/explain_text.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/policy/read/captured_frame.h"
#include "control/tell/answer/walk.h"

namespace weir::control::ctl {
namespace {

constexpr std::streamsize kMostTextBytes = 1 << 20;  // of a frame on stdin

// Of --packet.
Result<std::vector<uint8_t>> frame_of_text(const std::string& packet) {
  if (packet != "-") return parse_frame_text(packet);
  std::string text(static_cast<size_t>(kMostTextBytes), '\0');
  std::cin.read(text.data(), kMostTextBytes);
  text.resize(static_cast<size_t>(std::cin.gcount()));
  if (std::cin) return Error{fmt::format("stdin has {} characters or more: that is no frame", kMostTextBytes)};
  Result<std::vector<uint8_t>> frame = parse_frame_text(text);
  if (!frame) return Error{"stdin: " + frame.error()};
  return frame;
}

// Of --pcap.
Result<std::vector<uint8_t>> frame_of_capture(const Context& context, const FrameArguments& arguments) {
  Result<CapturedFrame> captured = read_captured_frame(arguments.pcap, arguments.number);
  if (!captured) return Error{captured.error()};
  const size_t bytes = captured->bytes.size();
  const auto place = [&] { return fmt::format("frame {} of {}", arguments.number, arguments.pcap); };
  if (bytes == 0) return Error{fmt::format("{}: none of its {} bytes was captured", place(), captured->frame_bytes)};
  if (bytes > kMostFrameBytes) {
    return Error{fmt::format("{} has {} bytes: {} at most can be explained", place(), bytes, kMostFrameBytes)};
  }
  if (bytes < captured->frame_bytes && !context.quiet) {
    print(stderr, "controlctl: {} of {} bytes of {} were captured: the answer is that for a frame that ends there\n",
          bytes, captured->frame_bytes, place());
  }
  return std::move(captured->bytes);
}

std::string why_text(const FrameWalk& walk) {
  if (walk.outcome == "malformed") return walk.verdict.action + ": it is malformed, and `policy.unparsed` counts";
  if (walk.outcome == "not_ip") return walk.verdict.action + ": it holds no IP packet";
  return verdict_text(walk.verdict);
}

std::string found_text(const KeyWalk& key) {
  if (key.rule != 0) return fmt::format("rule {}", key.rule);
  return key.filter_hit ? "not listed (false positive)" : "not listed";
}

std::string layer_name(const FrameWalk& walk, size_t i) {
  const LayerWalk& layer = walk.layers[i];
  const std::string in = layer.tunnel.empty() ? "" : fmt::format(", in {}", layer.tunnel);
  return fmt::format("layer {} of {}{}", i + 1, walk.layers.size(), in);
}

void show_layer(const LayerWalk& layer) {
  print("  packet   {}\n", layer.packet);
  if (layer.is_incomplete)
    print("  flag     incomplete: its chain of IPv6 extension headers is cut off, or too long\n");
  print("  verdict  {}\n", verdict_text(layer.verdict));
  for (const GateWalk& gate : layer.gates) {
    const char* said = !gate.is_asked ? "open: an overlay is enforced, whose keys are in the gates of enforcers alone"
                       : gate.lets_through ? "lets it through"
                                           : "keeps it out: nothing is looked up at this side";
    print("  gate     {}: {}\n", gate.side, said);
  }
  Table keys({{"side"}, {"key type"}, {"key"}, {"found"}, {"lists"}});
  for (const KeyWalk& key : layer.keys) {
    keys.row({key.side, key.shape, key.key, found_text(key), joined(key.matched)});
  }
  if (keys.empty()) print("  no key is looked up\n");
  show_table("keys", keys);
  Table conditions({{"of rule"}, {"asks"}, {"holds"}, {"lists"}});
  for (const KeyWalk& key : layer.keys) {
    for (const ConditionWalk& condition : key.conditions) {
      conditions.row(
          {std::to_string(key.rule), condition.text, condition.holds ? "yes" : "no", joined(condition.lists)});
    }
  }
  show_table("conditions", conditions);
  show_table("entries that match it", table_of(layer.origins, true, origin_table()));
  show_more(layer.origins.size(), layer.n_origins);
  show_own(layer.own);
  show_provenance(layer.origins);
}

}  // namespace

void add_frame_options(Options& options, FrameArguments& arguments) {
  options.text("--packet", "HEX", arguments.packet,
               "a frame from its Ethernet header on, two hexadecimal digits a byte; - reads them from stdin");
  options.text("--pcap", "FILE", arguments.pcap, "a frame of this capture (pcap, pcapng); - reads it from stdin")
      .files();
  options.number("--frame", "N", arguments.number, "which one of --pcap, from 1").range(1, 4294967295.0);
  options.needs("--frame", "--pcap");
}

bool read_frame(const Context& context, const FrameArguments& arguments, Request& request) {
  const Result<std::vector<uint8_t>> frame =
      arguments.pcap.empty() ? frame_of_text(arguments.packet) : frame_of_capture(context, arguments);
  if (!frame) {
    print(stderr, "controlctl: {}\n", frame.error());
    return false;
  }
  request.frame = frame_text(*frame);
  return true;
}

void show_frame(const FrameWalk& walk) {
  const bool is_one_of_several = walk.layers.size() > 1 && walk.layer != 0;
  const std::string decides = is_one_of_several ? fmt::format(", its layer {} decides", walk.layer) : "";
  print("frame of {} bytes{}: {}\n", walk.bytes, decides, why_text(walk));
  for (size_t i = 0; i < walk.layers.size(); i++) {
    print("\n{}\n", layer_name(walk, i));
    show_layer(walk.layers[i]);
  }
}

void show_filters(const FrameWalk& walk) {
  for (size_t i = 0; i < walk.layers.size(); i++) {
    for (const KeyWalk& key : walk.layers[i].keys) {
      print("\nlayer {}, {}, key type {}: key {}\n  filter  {}, {}: {}\n", i + 1, key.side, key.shape, key.key,
            key.layout, bits_text(key), filter_said(key));
      if (key.rule != 0) print("  exact   rule {}: lists without a condition: {}\n", key.rule, joined(key.always));
    }
  }
}

}  // namespace weir::control::ctl
