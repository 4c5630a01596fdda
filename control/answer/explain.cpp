#include "control/answer/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/answer/packet_text.h"
#include "control/compile/plan/plan.h"
#include "control/compile/prove/lookup.h"
#include "control/compile/prove/verdict.h"
#include "control/model/flow_condition.h"
#include "control/model/range_text.h"
#include "control/read/feeds/entry_text.h"
#include "filter/format/siphash.h"
#include "filter/layouts/bitmap.h"
#include "filter/layouts/layout.h"
#include "filter/probe/exact.h"
#include "filter/read/overlay.h"

namespace weir::control {
namespace {

std::vector<std::string> names_of(const filter::SnapshotView& snapshot, const weir_set& set) {
  std::vector<std::string> names;
  for (uint32_t l = 0; l < snapshot.header().n_lists; l++) {
    if (has_list(set, l)) names.emplace_back(snapshot.lists()[l].name);
  }
  return names;
}

template <class Addr>
std::string key_text(filter::KeyShape shape, Addr address, uint16_t port) {
  const std::string prefix =
      to_string(address & prefix_mask<Addr>(shape.addr_bits)) + "/" + std::to_string(shape.addr_bits);
  return shape.with_port ? fmt::format("{} port {}", prefix, port) : prefix;
}

// Fills where the filter was asked, and what it said.
void ask_filter(const filter::ShapeView& shape, const filter::Key& key, ShapeProbe& probe) {
  const filter::Layout& layout = filter::layout_of(shape.layout);
  const bool bitmap = shape.layout == WEIR_LAYOUT_BITMAP;
  if (!bitmap) probe.hash = weir_siphash13(shape.secret, key.word.data(), filter::key_words(shape.shape));
  const uint64_t place = bitmap ? weir_bitmap_index(key.word[0]) : probe.hash;
  probe.layout = layout.name;
  probe.place = key_place(shape, place);
  probe.filter_hit = layout.check(shape.filter, place);
}

// first_entry(list): the first of its entries that matches.
template <class FirstEntry>
Verdict verdict_of(const filter::SnapshotView& snapshot, const weir_set& matched, FirstEntry first_entry) {
  const Judgement judgement = judge(snapshot.header(), matched);
  Verdict verdict;
  verdict.action = judgement.action == WEIR_DROP ? "drop" : "pass";
  verdict.reason = judgement.list == kNoList ? "default" : snapshot.lists()[static_cast<size_t>(judgement.list)].name;
  if (judgement.list != kNoList) verdict.because = first_entry(verdict.reason);
  verdict.matched = names_of(snapshot, matched);
  verdict.monitored = names_of(snapshot, lists_in(matched, snapshot.header().monitor_lists));
  return verdict;
}

// Adds the lists of a chain that every packet with the key has now, and collects what the others depend on.
weir_set follow_chain(const filter::SnapshotView& snapshot, uint32_t chain, const char* side, uint8_t family,
                      uint64_t now, std::vector<ShapeCondition>& conditions) {
  weir_set lists = {};
  snapshot.visit_chain(chain, [&](const weir_residual& residual) {
    const bool expired = (residual.asks & WEIR_ASKS_EXPIRES) != 0 && now >= residual.expires_unix_s;
    if (residual.asks == WEIR_ASKS_EXPIRES && !expired) {
      lists = lists | snapshot.set(residual.set);
    } else {
      conditions.push_back({side, flow_text(flow_of(residual, family)) + (expired ? " (expired)" : ""),
                            names_of(snapshot, snapshot.set(residual.set))});
    }
  });
  return lists;
}

// Keeps the first kMaxOrigins; returns how many there were.
size_t shorten(std::vector<Origin>& origins) {
  const size_t all = origins.size();
  if (all > kMaxOrigins) origins.erase(origins.begin() + kMaxOrigins, origins.end());
  return all;
}

// visit(snapshot, shape) for every shape of the family, of the overlay only where it says something else about the key:
// key(shape) tells which it is there.
template <class Key, class Visit>
void visit_shapes(const Enforcing& enforcing, uint8_t family, Key key, Visit visit) {
  for (const filter::ShapeView& shape : enforcing.base.shapes()) {
    if (shape.shape.family != family) continue;
    const filter::ShapeView* newer =
        enforcing.overlay == nullptr || shape.shape.flow ? nullptr : find_shape(*enforcing.overlay, shape.shape);
    const bool is_changed = newer != nullptr && filter::find_rule(*newer, key(shape.shape)) != 0;
    if (is_changed) {
      visit(*enforcing.overlay, *newer);
    } else {
      visit(enforcing.base, shape);
    }
  }
  if (enforcing.overlay == nullptr) return;
  for (const filter::ShapeView& shape : enforcing.overlay->shapes()) {
    if (shape.shape.family == family && find_shape(enforcing.base, shape.shape) == nullptr) {
      visit(*enforcing.overlay, shape);
    }
  }
}

template <class Addr>
Explanation explain_address(const Enforcing& enforcing, const Book& book, Addr address, uint16_t port, uint64_t now) {
  constexpr uint8_t kFamily = sizeof(Addr) == sizeof(Ipv4) ? 4 : 6;
  Explanation explanation;
  weir_set source = {}, destination = {};
  const auto key_of = [&](filter::KeyShape shape) { return filter::make_key(shape, address, port); };
  visit_shapes(enforcing, kFamily, key_of, [&](const filter::SnapshotView& snapshot, const filter::ShapeView& shape) {
    if (shape.shape.with_port && port == 0) return;
    if (shape.shape.flow) {
      explanation.flow_shapes.push_back(shape_name(shape.shape, false));
      return;
    }
    const filter::Key key = key_of(shape.shape);
    ShapeProbe probe;
    probe.shape = shape_name(shape.shape, shape.layout == WEIR_LAYOUT_BITMAP);
    if (&snapshot == enforcing.overlay) probe.shape += ", overlay";
    probe.key = key_text(shape.shape, address, port);
    ask_filter(shape, key, probe);
    probe.rule = filter::find_rule(shape, key);
    const weir_rule& rule = snapshot.rule(probe.rule);  // rule 0 has no lists
    const weir_set as_source = snapshot.set(rule.source_set) |
                               follow_chain(snapshot, rule.source_chain, "source", kFamily, now, probe.conditions);
    const weir_set as_destination =
        snapshot.set(rule.destination_set) |
        follow_chain(snapshot, rule.destination_chain, "destination", kFamily, now, probe.conditions);
    probe.source_lists = names_of(snapshot, as_source);
    probe.destination_lists = names_of(snapshot, as_destination);
    source = source | as_source;
    destination = destination | as_destination;
    explanation.probes.push_back(std::move(probe));
  });
  AddressClaims claims = claims_of(book, address, port, now);
  const auto first_as = [&](uint8_t direction) {
    return [&claims, direction](const std::string& list) -> std::optional<Origin> {
      const auto first = std::find_if(claims.origins.begin(), claims.origins.end(), [&](const Origin& origin) {
        return origin.alone && origin.list == list && (origin.directions & direction) != 0;
      });
      return first == claims.origins.end() ? std::nullopt : std::optional(*first);
    };
  };
  explanation.as_source = verdict_of(enforcing.base, source, first_as(WEIR_AS_SOURCE));
  explanation.as_destination = verdict_of(enforcing.base, destination, first_as(WEIR_AS_DESTINATION));
  explanation.n_origins = shorten(claims.origins);
  explanation.n_of_ports = shorten(claims.of_ports);
  explanation.origins = std::move(claims.origins);
  explanation.of_ports = std::move(claims.of_ports);
  return explanation;
}

}  // namespace

Result<Explanation> explain(const Enforcing& enforcing, const Book& book, const std::string& key, uint64_t now) {
  const EntryText parsed = parse_entry(key);
  if (const auto* error = std::get_if<EntryError>(&parsed)) {
    return Error{fmt::format("{}: {}\nhint: give an address, or address:port ([v6]:port)", key, error->reason)};
  }
  const auto answer = [&](const auto& entry) -> Result<Explanation> {
    if (entry.first != entry.last) {
      return Error{key + ": more than one address\nhint: give one address, or address:port ([v6]:port)"};
    }
    return explain_address(enforcing, book, entry.first, entry.port, now);
  };
  const auto* v4 = std::get_if<ParsedEntry<Ipv4>>(&parsed);
  Result<Explanation> explanation = v4 != nullptr ? answer(*v4) : answer(std::get<ParsedEntry<Ipv6>>(parsed));
  if (explanation) explanation->key = key;
  return explanation;
}

bool is_packet_text(const std::string& key) {
  return key.find_first_of(" \t") != std::string::npos;
}

Result<PacketExplanation> explain_packet(const Enforcing& enforcing, const Book& book, const std::string& key,
                                         uint64_t now) {
  const Result<weir_packet> packet = parse_packet(key);
  if (!packet) return Error{packet.error()};
  PacketExplanation explanation;
  explanation.packet = packet_text(*packet);
  explanation.verdict = verdict_of(enforcing.base, match(enforcing, *packet, now),
                                   [&](const std::string& list) { return first_claim(book, list, *packet, now); });
  explanation.origins = claims_of(book, *packet, now);
  explanation.n_origins = shorten(explanation.origins);
  return explanation;
}

}  // namespace weir::control
