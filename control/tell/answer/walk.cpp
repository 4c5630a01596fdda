#include "control/tell/answer/walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "control/compile/plan/plan.h"
#include "control/compile/prove/verdict.h"
#include "control/compile/prove/visit_packet.h"
#include "control/policy/model/field_names.h"
#include "control/policy/model/flow_condition.h"
#include "control/policy/model/packet.h"
#include "control/policy/model/range_text.h"
#include "control/tell/answer/text.h"
#include "filter/format/rules.h"
#include "filter/format/siphash.h"
#include "filter/frame/tunnel.h"
#include "filter/layouts/bitmap.h"
#include "filter/layouts/layout.h"
#include "filter/layouts/line8.h"
#include "filter/layouts/page2.h"
#include "filter/layouts/page7.h"
#include "filter/layouts/ribbon.h"

namespace weir::control {

// ---------------------------------------------------------------------------------------------------- frame as text

namespace {

constexpr const char* kFrameHint =
    "hint: give a frame from its Ethernet header on, two hexadecimal digits a byte, as in 02:00:00:00:00:01 "
    "02:00:00:00:00:02 0800 45 00; without offsets and without the text beside them";

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_between(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ':';
}

std::string shown(char c) {
  return c > ' ' && c < 0x7f ? fmt::format("`{}`", c) : fmt::format("the byte {:#04x}", static_cast<unsigned char>(c));
}

Error wrong_frame(const std::string& what) {
  return Error{fmt::format("frame: {}\n{}", what, kFrameHint)};
}

}  // namespace

Result<std::vector<uint8_t>> parse_frame_text(std::string_view text) {
  std::vector<uint8_t> frame;
  for (size_t i = 0; i < text.size(); i++) {
    if (is_between(text[i])) continue;
    const int high = digit_of(text[i]);
    if (high < 0) return wrong_frame(fmt::format("character {}, {}, is no hexadecimal digit", i + 1, shown(text[i])));
    if (i + 1 == text.size()) {
      return wrong_frame(fmt::format("it ends with `{}`, half a byte (byte {})", text[i], frame.size() + 1));
    }
    const int low = digit_of(text[i + 1]);
    if (low < 0) {
      return wrong_frame(fmt::format("character {} is {}: the second digit of byte {}, `{}`, is missing", i + 2,
                                     shown(text[i + 1]), frame.size() + 1, text[i]));
    }
    if (frame.size() == kMostFrameBytes) {
      return wrong_frame(
          fmt::format("there are more than {} bytes: character {} begins one more", kMostFrameBytes, i + 1));
    }
    frame.push_back(static_cast<uint8_t>(high << 4 | low));
    i++;
  }
  if (frame.empty()) return wrong_frame("there is no byte");
  return frame;
}

std::string frame_text(std::span<const uint8_t> frame) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(frame.size() * 2);
  for (const uint8_t byte : frame) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// --------------------------------------------------------------------------------------------------- place of a key

namespace {

constexpr uint32_t kLineBits = WEIR_LINE_BYTES * 8;

// Bits of a page by line, each once.
class Collector {
 public:
  void add(uint32_t line, uint32_t bit) { lines_[line % WEIR_LINES_PER_PAGE].push_back(bit); }
  std::vector<LineBits> take() {
    std::vector<LineBits> all;
    for (auto& [line, bits] : lines_) {
      std::sort(bits.begin(), bits.end());
      bits.erase(std::unique(bits.begin(), bits.end()), bits.end());
      all.push_back({line, std::move(bits)});
    }
    return all;
  }

 private:
  std::map<uint32_t, std::vector<uint32_t>> lines_;
};

uint32_t bit_of(uint32_t word, uint32_t bit_in_word) {
  return word * 64 + bit_in_word;
}

}  // namespace

KeyPlace key_place(const filter::ShapeView& shape, uint64_t hash) {
  const uint32_t pages = shape.filter.lines / WEIR_LINES_PER_PAGE;
  KeyPlace place;
  Collector bits;
  switch (shape.layout) {
    case WEIR_LAYOUT_LINE8: {
      const uint32_t line = weir_hash_range(hash, shape.filter.lines);
      place.page = line / WEIR_LINES_PER_PAGE;
      for (uint32_t w = 0; w < 8; w++) bits.add(line, bit_of(w, weir_line8_bit(hash, w)));
      break;
    }
    case WEIR_LAYOUT_BITMAP: {
      const auto index = static_cast<uint32_t>(hash);
      place.page = index / kLineBits / WEIR_LINES_PER_PAGE;
      bits.add(index / kLineBits, index % kLineBits);
      break;
    }
    case WEIR_LAYOUT_PAGE2: {
      const weir_page2_place lines = weir_page2_locate(hash, shape.filter.lines, shape.filter.k);
      place.page = lines.line[0] / WEIR_LINES_PER_PAGE;
      for (uint32_t which = 0; which < 2; which++) {
        for (uint32_t w = 0; w < 8; w++) {
          if ((lines.words[which] >> w & 1) != 0)
            bits.add(lines.line[which], bit_of(w, weir_page2_bit(hash, which, w)));
        }
      }
      break;
    }
    case WEIR_LAYOUT_PAGE7:
      place.page = weir_hash_range(hash, pages);
      for (uint32_t i = 0; i < WEIR_PAGE7_K; i++) {
        const uint32_t bit = weir_page7_bit(hash, i);
        bits.add(bit / kLineBits, bit % kLineBits);
      }
      break;
    case WEIR_LAYOUT_RIBBON: {
      place.page = weir_hash_range(hash, pages);
      const uint32_t start = weir_ribbon_start(hash, pages);
      const uint64_t coefficients = weir_ribbon_coefficients(hash);
      for (uint32_t i = 0; i < WEIR_RIBBON_WIDTH; i++) {
        if ((coefficients >> i & 1) != 0) bits.add((start + i) / 64, (start + i) % 64);
      }
      break;
    }
  }
  place.lines = bits.take();
  return place;
}

// ----------------------------------------------------------------------------------------------------- asking a key

void ask_filter(const filter::ShapeView& shape, const filter::Key& key, bool is_of_overlay, AskedKey& asked) {
  const filter::Layout& layout = filter::layout_of(shape.layout);
  const bool bitmap = shape.layout == WEIR_LAYOUT_BITMAP;
  if (!bitmap) asked.hash = weir_siphash13(shape.secret, key.word.data(), filter::key_words(shape.shape));
  const uint64_t place = bitmap ? weir_bitmap_index(key.word[0]) : asked.hash;
  asked.shape = shape_name(shape.shape, bitmap) + (is_of_overlay ? ", overlay" : "");
  asked.layout = layout.name;
  asked.place = key_place(shape, place);
  asked.filter_hit = layout.check(shape.filter, place);
}

std::vector<std::string> names_of(const std::vector<std::string>& lists, const weir_set& set) {
  std::vector<std::string> names;
  for (uint32_t l = 0; l < lists.size(); l++) {
    if (has_list(set, l)) names.push_back(lists[l]);
  }
  return names;
}

Judge::Judge(const Enforcing& enforcing, const Book& book_of_it)
    : book(book_of_it), snapshots(enforcing), header(enforcing.header()) {
  for (const weir_list& list : enforcing.base.lists()) lists.emplace_back(list.name);
}

Judge::Judge(const Book& lists_alone, weir_action default_action, weir_action unparsed_action, uint8_t tunnels)
    : book(lists_alone) {
  header.default_action = static_cast<uint8_t>(default_action);
  header.unparsed_action = static_cast<uint8_t>(unparsed_action);
  header.tunnels = tunnels;
  for (unsigned l = 0; l < book.size(); l++) {
    lists.push_back(book[l].name);
    filter::list_mask(header, book[l].action, book[l].mode)[l / 64] |= uint64_t{1} << l % 64;
  }
}

Verdict Judge::verdict(const weir_set& matched,
                       const std::function<std::optional<Origin>(const std::string&)>& first_entry) const {
  const Judgement judgement = judge(header, matched);
  Verdict verdict;
  verdict.action = judgement.action == WEIR_DROP ? "drop" : "pass";
  verdict.reason = judgement.list == kNoList ? "default" : lists[static_cast<size_t>(judgement.list)];
  if (judgement.list != kNoList) verdict.because = first_entry(verdict.reason);
  verdict.matched = names_of(lists, matched);
  verdict.monitored = names_of(lists, lists_in(matched, header.monitor_lists));
  return verdict;
}

size_t shorten(std::vector<Origin>& origins) {
  const size_t all = origins.size();
  if (all > kMaxOrigins) origins.erase(origins.begin() + kMaxOrigins, origins.end());
  return all;
}

OwnClaims shortened(OwnClaims own) {
  (void)shorten(own.own);
  (void)shorten(own.cut);
  return own;
}

std::string condition_text(const weir_residual& residual, uint8_t family, uint64_t now) {
  const bool expired = (residual.asks & WEIR_ASKS_EXPIRES) != 0 && now >= residual.expires_unix_s;
  return flow_text(flow_of(residual, family)) + (expired ? " (expired)" : "");
}

// ------------------------------------------------------------------------------------------------------------ frame

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

// Fills the gates and keys of the layer. Returns the lists that match.
weir_set walk_keys(const Judge& judge, const weir_packet& packet, uint64_t now, LayerWalk& layer) {
  const Enforcing& enforcing = *judge.snapshots;
  const uint8_t through = sides_through(enforcing, packet, Gates::of_data_plane);
  for (const weir_side side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
    layer.gates.push_back({name_of(side), enforcing.overlay == nullptr, (through & direction_of(side)) != 0});
  }
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
                                   asked.conditions.push_back({std::move(text), holds, names_of(judge.lists, more)});
                                 });
    asked.always = names_of(judge.lists, lists);
    asked.matched = names_of(judge.lists, lists | by_conditions);
    matched = matched | lists | by_conditions;
  };
  visit_keys(enforcing, packet, WEIR_AS_SOURCE | WEIR_AS_DESTINATION, through, visit);
  return matched;
}

struct JudgedLayer {
  LayerWalk walk;
  weir_set matched;
};

JudgedLayer judge_layer(const Judge& judge, const weir_packet& packet, uint64_t now) {
  JudgedLayer layer = {};
  layer.walk.origins = claims_of(judge.book, packet, now);
  layer.matched = judge.snapshots ? walk_keys(judge, packet, now, layer.walk)
                                  : judge.lists_of(layer.walk.origins, [](const Origin&) { return true; });
  layer.walk.verdict =
      judge.verdict(layer.matched, [&](const std::string& list) { return first_claim(judge.book, list, packet, now); });
  layer.walk.n_origins = shorten(layer.walk.origins);
  layer.walk.own = shortened(own_claims_of(judge.book, packet));
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

}  // namespace

FrameWalk walk(const Judge& judge, std::span<const uint8_t> frame, uint64_t now) {
  const weir_snapshot_header& header = judge.header;
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
    JudgedLayer layer = judge_layer(judge, packets[i], now);
    layer.walk.packet = packet_text(packets[i]);
    layer.walk.is_incomplete = (packets[i].has & WEIR_INCOMPLETE) != 0;
    if (i != 0) layer.walk.tunnel = bit_names(filter::tunnel_in(packets[i - 1], header.tunnels), tunnel_names());
    walked.is_incomplete |= layer.walk.is_incomplete;
    matched = matched | layer.matched;
    walked.layers.push_back(std::move(layer.walk));
  }
  walked.layer = deciding_layer(walked.layers);
  walked.verdict = walked.layers[walked.layer == 0 ? 0 : walked.layer - 1].verdict;
  walked.verdict.matched = names_of(judge.lists, matched);
  walked.verdict.monitored = names_of(judge.lists, lists_in(matched, header.monitor_lists));
  return walked;
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
