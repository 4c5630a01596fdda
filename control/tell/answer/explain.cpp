#include "control/tell/answer/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "control/compile/plan/plan.h"
#include "control/compile/prove/lookup.h"
#include "control/policy/feeds/entry_text.h"
#include "control/policy/model/packet.h"
#include "control/tell/answer/packet_text.h"
#include "filter/probe/exact.h"
#include "filter/read/overlay.h"

namespace weir::control {
namespace {

template <class Addr>
std::string key_text(filter::KeyShape shape, Addr address, uint16_t port) {
  const std::string prefix =
      to_string(address & prefix_mask<Addr>(shape.addr_bits)) + "/" + std::to_string(shape.addr_bits);
  return shape.with_port ? fmt::format("{} port {}", prefix, port) : prefix;
}

// Adds the lists of a chain that every packet with the key has now, and collects what the others depend on.
weir_set follow(const filter::SnapshotView& snapshot, uint32_t chain, const char* side, uint8_t family, uint64_t now,
                std::vector<ShapeCondition>& conditions) {
  return follow_chain(snapshot, chain, family, now, [&](const weir_residual& residual, std::string text) {
    conditions.push_back({side, std::move(text), names_of(snapshot, snapshot.set(residual.set))});
  });
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

bool is_for(const Origin& origin, weir_direction direction) {
  return origin.alone && (origin.directions & direction) != 0;
}

// What the lists say: verdict(direction, first_entry) makes each of the two verdicts.
template <class MakeVerdict>
void take_claims(AddressClaims claims, Explanation& explanation, MakeVerdict verdict) {
  const auto first_as = [&](weir_direction direction) {
    return [&claims, direction](const std::string& list) -> std::optional<Origin> {
      const auto first = std::find_if(claims.origins.begin(), claims.origins.end(), [&](const Origin& origin) {
        return origin.list == list && is_for(origin, direction);
      });
      return first == claims.origins.end() ? std::nullopt : std::optional(*first);
    };
  };
  explanation.as_source = verdict(WEIR_AS_SOURCE, first_as(WEIR_AS_SOURCE));
  explanation.as_destination = verdict(WEIR_AS_DESTINATION, first_as(WEIR_AS_DESTINATION));
  explanation.n_origins = shorten(claims.origins);
  explanation.n_of_ports = shorten(claims.of_ports);
  explanation.origins = std::move(claims.origins);
  explanation.of_ports = std::move(claims.of_ports);
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
    probe.key = key_text(shape.shape, address, port);
    ask_filter(shape, key, &snapshot == enforcing.overlay, probe);
    probe.rule = filter::find_rule(shape, key);
    const weir_rule& rule = snapshot.rule(probe.rule);  // rule 0 has no lists
    const weir_set as_source =
        snapshot.set(rule.source_set) | follow(snapshot, rule.source_chain, "source", kFamily, now, probe.conditions);
    const weir_set as_destination =
        snapshot.set(rule.destination_set) |
        follow(snapshot, rule.destination_chain, "destination", kFamily, now, probe.conditions);
    probe.source_lists = names_of(snapshot, as_source);
    probe.destination_lists = names_of(snapshot, as_destination);
    source = source | as_source;
    destination = destination | as_destination;
    explanation.probes.push_back(std::move(probe));
  });
  take_claims(claims_of(book, address, port, now), explanation, [&](weir_direction direction, auto first_entry) {
    return verdict_of(enforcing.base, direction == WEIR_AS_SOURCE ? source : destination, first_entry);
  });
  return explanation;
}

template <class Addr>
Explanation explain_address(const ListsAlone& lists, Addr address, uint16_t port, uint64_t now) {
  Explanation explanation;
  AddressClaims claims = claims_of(lists.book, address, port, now);
  const auto lists_for = [&](weir_direction direction) {
    return lists.lists_of(claims.origins, [&](const Origin& origin) { return is_for(origin, direction); });
  };
  const weir_set source = lists_for(WEIR_AS_SOURCE), destination = lists_for(WEIR_AS_DESTINATION);
  take_claims(std::move(claims), explanation, [&](weir_direction direction, auto first_entry) {
    return verdict_of(lists.header, lists.names, direction == WEIR_AS_SOURCE ? source : destination, first_entry);
  });
  return explanation;
}

// explain_it(address, port): of what the key names.
template <class ExplainIt>
Result<Explanation> explain_key(const std::string& key, ExplainIt explain_it) {
  const EntryText parsed = parse_entry(key);
  if (const auto* error = std::get_if<EntryError>(&parsed)) {
    return Error{fmt::format("{}: {}\nhint: give an address, or address:port ([v6]:port)", key, error->reason)};
  }
  const auto answer = [&](const auto& entry) -> Result<Explanation> {
    if (entry.first != entry.last) {
      return Error{key + ": more than one address\nhint: give one address, or address:port ([v6]:port)"};
    }
    return explain_it(entry.first, entry.port);
  };
  const auto* v4 = std::get_if<ParsedEntry<Ipv4>>(&parsed);
  Result<Explanation> explanation = v4 != nullptr ? answer(*v4) : answer(std::get<ParsedEntry<Ipv6>>(parsed));
  if (explanation) explanation->key = key;
  return explanation;
}

}  // namespace

Result<Explanation> explain(const Enforcing& enforcing, const Book& book, const std::string& key, uint64_t now) {
  return explain_key(key,
                     [&](auto address, uint16_t port) { return explain_address(enforcing, book, address, port, now); });
}

Result<Explanation> explain(const ListsAlone& lists, const std::string& key, uint64_t now) {
  return explain_key(key, [&](auto address, uint16_t port) { return explain_address(lists, address, port, now); });
}

Result<Addresses> addresses_of(const std::string& key) {
  if (is_packet_text(key)) {
    const Result<weir_packet> packet = parse_packet(key);
    if (!packet) return Error{packet.error()};
    return addresses_of(std::span(&*packet, 1));
  }
  Addresses addresses;
  const Result<Explanation> named = explain_key(key, [&](auto address, uint16_t) {
    if constexpr (sizeof address == sizeof(Ipv4)) {
      addresses.v4.push_back(address);
    } else {
      addresses.v6.push_back(address);
    }
    return Explanation();
  });
  if (!named) return Error{named.error()};
  return addresses;
}

Addresses addresses_of(std::span<const weir_packet> packets) {
  Addresses addresses;
  for (const weir_packet& packet : packets) {
    for (const weir_side side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      if (packet.family == 4) addresses.v4.push_back(address_of<Ipv4>(packet, side));
      if (packet.family == 6) addresses.v6.push_back(address_of<Ipv6>(packet, side));
    }
  }
  return addresses;
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

Result<PacketExplanation> explain_packet(const ListsAlone& lists, const std::string& key, uint64_t now) {
  const Result<weir_packet> packet = parse_packet(key);
  if (!packet) return Error{packet.error()};
  PacketExplanation explanation;
  explanation.packet = packet_text(*packet);
  explanation.origins = claims_of(lists.book, *packet, now);
  const weir_set matched = lists.lists_of(explanation.origins, [](const Origin&) { return true; });
  explanation.verdict = verdict_of(lists.header, lists.names, matched, [&](const std::string& list) {
    return first_claim(lists.book, list, *packet, now);
  });
  explanation.n_origins = shorten(explanation.origins);
  return explanation;
}

}  // namespace weir::control
