#include "control/tell/answer/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "control/compile/plan/plan.h"
#include "control/compile/prove/lookup.h"
#include "control/policy/feeds/entry_text.h"
#include "control/policy/model/packet.h"
#include "control/tell/answer/text.h"
#include "filter/probe/exact.h"
#include "filter/read/overlay.h"

namespace weir::control {

// ----------------------------------------------------------------------------------------------------- explanations

namespace {

template <class Addr>
std::string key_text(filter::KeyShape shape, Addr address, uint16_t port) {
  const std::string prefix =
      to_string(address & prefix_mask<Addr>(shape.addr_bits)) + "/" + std::to_string(shape.addr_bits);
  return shape.with_port ? fmt::format("{} port {}", prefix, port) : prefix;
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

// Asks every shape about the key, and adds the probes. Returns the lists that match it.
template <class Addr>
Matched ask_shapes(const Judge& judge, Addr address, uint16_t port, uint64_t now, Explanation& explanation) {
  constexpr uint8_t kFamily = sizeof(Addr) == sizeof(Ipv4) ? 4 : 6;
  const Enforcing& enforcing = *judge.snapshots;
  Matched matched;
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
    // The lists of a chain that every packet with the key has now; the others are conditions of the probe.
    const auto follow = [&](uint32_t chain, const char* side) {
      return follow_chain(snapshot, chain, kFamily, now, [&](const weir_residual& residual, std::string text) {
        probe.conditions.push_back({side, std::move(text), names_of(judge.lists, snapshot.set(residual.set))});
      });
    };
    const weir_rule& rule = snapshot.rule(probe.rule);  // rule 0 has no lists
    const weir_set source = snapshot.set(rule.source_set) | follow(rule.source_chain, "source");
    const weir_set destination = snapshot.set(rule.destination_set) | follow(rule.destination_chain, "destination");
    probe.source_lists = names_of(judge.lists, source);
    probe.destination_lists = names_of(judge.lists, destination);
    matched.source = matched.source | source;
    matched.destination = matched.destination | destination;
    explanation.probes.push_back(std::move(probe));
  });
  return matched;
}

template <class Addr>
Explanation explain_address(const Judge& judge, Addr address, uint16_t port, uint64_t now) {
  Explanation explanation;
  AddressClaims claims = claims_of(judge.book, address, port, now);
  const auto claimed = [&](weir_direction direction) {
    return judge.lists_of(claims.origins, [&](const Origin& origin) { return is_for(origin, direction); });
  };
  const Matched matched = judge.snapshots ? ask_shapes(judge, address, port, now, explanation)
                                          : Matched{claimed(WEIR_AS_SOURCE), claimed(WEIR_AS_DESTINATION)};
  const auto verdict = [&](weir_direction direction, const weir_set& lists) {
    return judge.verdict(lists, [&](const std::string& list) -> std::optional<Origin> {
      const auto first = std::find_if(claims.origins.begin(), claims.origins.end(), [&](const Origin& origin) {
        return origin.list == list && is_for(origin, direction);
      });
      return first == claims.origins.end() ? std::nullopt : std::optional(*first);
    });
  };
  explanation.as_source = verdict(WEIR_AS_SOURCE, matched.source);
  explanation.as_destination = verdict(WEIR_AS_DESTINATION, matched.destination);
  explanation.n_origins = shorten(claims.origins);
  explanation.n_of_ports = shorten(claims.of_ports);
  explanation.origins = std::move(claims.origins);
  explanation.of_ports = std::move(claims.of_ports);
  explanation.own = shortened(own_claims_of(judge.book, address, kBothDirections));
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

Result<Explanation> explain(const Judge& judge, const std::string& key, uint64_t now) {
  return explain_key(key, [&](auto address, uint16_t port) { return explain_address(judge, address, port, now); });
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

Result<PacketExplanation> explain_packet(const Judge& judge, const std::string& key, uint64_t now) {
  const Result<weir_packet> packet = parse_packet(key);
  if (!packet) return Error{packet.error()};
  PacketExplanation explanation;
  explanation.packet = packet_text(*packet);
  explanation.origins = claims_of(judge.book, *packet, now);
  const weir_set matched = judge.snapshots ? match(*judge.snapshots, *packet, now)
                                           : judge.lists_of(explanation.origins, [](const Origin&) { return true; });
  explanation.verdict =
      judge.verdict(matched, [&](const std::string& list) { return first_claim(judge.book, list, *packet, now); });
  explanation.n_origins = shorten(explanation.origins);
  explanation.own = shortened(own_claims_of(judge.book, *packet));
  return explanation;
}

// ----------------------------------------------------------------------------------------------------------- answer

void members(Fields& f, LineBits& line) {
  f({"line", "", "of the page, 0 to 63"}, line.line);
  std::vector<uint64_t> bits(line.bits.begin(), line.bits.end());
  f.numbers({"bits", "", "word * 64 + bit in the word, 0 to 511; ribbon: the bit in each of the line's words, 0 to 63"},
            bits);
  if (!f.reading()) return;
  line.bits.clear();
  for (const uint64_t bit : bits) line.bits.push_back(static_cast<uint32_t>(bit));
}

void members(Fields& f, ShapeCondition& condition) {
  f({"side", "", "of the key: source or destination"}, condition.side);
  f({"condition", "", "what a packet must have besides, as tcp dport 8000-8010"}, condition.text);
  f.texts({"lists", "", "that then match"}, condition.lists);
}

namespace {

void members_of_key(Fields& f, AskedKey& asked) {
  f({"shape", "", "its name"}, asked.shape);
  f({"key", "", "as 203.0.113.7/32"}, asked.key);
  f.hex({"hash", "", "of the key; 0 for a bitmap"}, asked.hash);
  f({"layout", "", "of the filter"}, asked.layout);
  f({"page", "", "of the filter, in which the key's bits are"}, asked.place.page);
  f.array({"lines", "", "of the page, in which the key's bits are"}, asked.place.lines, "line");
  f({"filter_hit", "", "the filter says that the key may be listed"}, asked.filter_hit);
  f({"rule", "", "number of the key's rule; 0: the key is not listed"}, asked.rule);
}

}  // namespace

void members(Fields& f, ShapeProbe& probe) {
  members_of_key(f, probe);
  f.texts({"source_lists", "", "that match every packet with the key as source"}, probe.source_lists);
  f.texts({"destination_lists", "", "that match every packet with the key as destination"}, probe.destination_lists);
  f.array({"conditions", "", "under which more lists match"}, probe.conditions, "condition");
}

void members(Fields& f, Moment& moment) {
  f({"generation", "", "its number; 0: not known"}, moment.generation);
  f({"at", "Unix seconds", "when it was published; 0: not known"}, moment.at);
  f({"cause", "", "what it was published for; expired: the entry ended by itself"}, moment.cause);
  f.maybe({"by", "", "who asked for it: the number of the user"}, moment.by);
}

void members(Fields& f, FeedContent& feed) {
  f({"from", "", "its url without user and password, or its file"}, feed.from);
  f({"changed_at", "Unix seconds", "when its bytes came"}, feed.changed_at);
  f({"taken_at", "Unix seconds", "when they were read for the first time"}, feed.taken_at);
  f({"digest", "", "XXH3-128 of them"}, feed.digest);
}

void members(Fields& f, FeedColumn& column) {
  f({"name", "", "as its file has it, or its number"}, column.name);
  f({"value", "", "shortened"}, column.value);
}

void members(Fields& f, Provenance& from) {
  f.unless_empty({"text", "", "the line as it is written; missing: it is not kept"}, from.text);
  f.array({"columns", "", "of a line of a table, or of an object of JSON"}, from.columns, "column");
  f.maybe_object({"feed", "", "that the line is of"}, from.feed, "feed content");
  f.maybe({"added_by", "", "the number of the user who added it"}, from.added_by);
  f.maybe({"added_at", "Unix seconds", "when it was added"}, from.added_at);
  f.object({"since", "", "the first generation in a row that has it"}, from.since, "moment");
  f({"or_before", "", "what is kept goes no further back: it may be older"}, from.or_before);
  f.maybe_object({"until", "", "the first one without it; missing: it is still enforced"}, from.until, "moment");
}

void members(Fields& f, Origin& origin) {
  f({"list", "", "its name"}, origin.list);
  f({"file", "", "the policy or a feed"}, origin.file);
  f({"line", "", "of the file"}, origin.line);
  f({"entry", "", "as 203.0.113.0/24, 203.0.113.7:443"}, origin.entry);
  directions(f, {"directions", "", "src, dst: what the entry is compared with"}, origin.directions);
  f({"alone", "", "false: it asks for more of a packet than the key, or has ended"}, origin.alone);
  f.unless_empty({"comment", "", "what is written about it: in the policy, behind it in a feed, by --comment"},
                 origin.comment);
  f.maybe_object({"provenance", "", "where it comes from, and from when to when it is enforced"}, origin.provenance,
                 "provenance");
}

void members(Fields& f, Verdict& verdict) {
  f({"action", "", "pass or drop"}, verdict.action);
  f({"reason", "", "the list that decides, or default"}, verdict.reason);
  f.maybe_object({"because", "", "the first entry of that list that matches"}, verdict.because, "origin");
  f.texts({"matched", "", "lists that match"}, verdict.matched);
  f.texts({"monitored", "", "of these, lists that only monitor"}, verdict.monitored);
}

namespace {

void members_of_own(Fields& f, OwnClaims& own) {
  f.array({"own", "", "entries of policy.own that hold an address of it: the first 100"}, own.own, "origin");
  f.array({"cut", "", "entries of drop lists that policy.own was cut out of there: the first 100"}, own.cut, "origin");
}

}  // namespace

void members(Fields& f, Explanation& explanation) {
  f({"key", "", "as it was asked"}, explanation.key);
  f.array({"probes", "", "what each shape says of the key"}, explanation.probes, "probe");
  f.texts({"flow_shapes", "", "names of shapes that ask for more of a packet than the key"}, explanation.flow_shapes);
  f.array({"origins", "", "entries that name the key: the first 100"}, explanation.origins, "origin");
  f({"n_origins", "", "all of them"}, explanation.n_origins);
  f.array({"of_ports", "", "of a key without a port: entries of one port of it, the first 100"}, explanation.of_ports,
          "origin");
  f({"n_of_ports", "", "all of them"}, explanation.n_of_ports);
  f.object({"as_source", "", "of a packet in which nothing else matches"}, explanation.as_source, "verdict");
  f.object({"as_destination", "", "of a packet in which nothing else matches"}, explanation.as_destination, "verdict");
  members_of_own(f, explanation.own);
}

void members(Fields& f, PacketExplanation& explanation) {
  f({"packet", "", "that was asked about, in one spelling"}, explanation.packet);
  f.object({"verdict", "", "on the packet"}, explanation.verdict, "verdict");
  f.array({"origins", "", "entries that match the packet: the first 100"}, explanation.origins, "origin");
  f({"n_origins", "", "all of them"}, explanation.n_origins);
  members_of_own(f, explanation.own);
}

void members(Fields& f, GateWalk& gate) {
  f({"side", "", "source or destination"}, gate.side);
  f({"asked", "", "false: an overlay is enforced, whose keys the gate does not know here"}, gate.is_asked);
  f({"lets_through", "", "false: no key of this side is looked up"}, gate.lets_through);
}

void members(Fields& f, ConditionWalk& condition) {
  f({"condition", "", "what a packet must have besides, as tcp dport 8000-8010"}, condition.text);
  f({"holds", "", "for this packet"}, condition.holds);
  f.texts({"lists", "", "that match where it holds"}, condition.lists);
}

void members(Fields& f, KeyWalk& key) {
  f({"side", "", "of the packet that the key is of: source, destination; or both"}, key.side);
  members_of_key(f, key);
  f.texts({"always", "", "lists that match every packet with the key"}, key.always);
  f.array({"conditions", "", "under which more lists match"}, key.conditions, "walked condition");
  f.texts({"matched", "", "lists that match this packet by the key"}, key.matched);
}

void members(Fields& f, LayerWalk& layer) {
  f.unless_empty({"tunnel", "", "in which it lies; missing: it is the outermost"}, layer.tunnel);
  f({"packet", "", "in one spelling"}, layer.packet);
  f({"incomplete", "", "its chain of IPv6 extension headers is cut off, or too long"}, layer.is_incomplete);
  f.array({"gates", "", "of its source and of its destination"}, layer.gates, "walked gate");
  f.array({"keys", "", "that are looked up"}, layer.keys, "walked key");
  f.object({"verdict", "", "on this layer alone"}, layer.verdict, "verdict");
  f.array({"origins", "", "entries that match it: the first 100"}, layer.origins, "origin");
  f({"n_origins", "", "all of them"}, layer.n_origins);
  members_of_own(f, layer.own);
}

void members(Fields& f, FrameWalk& walk) {
  f({"outcome", "", "of a frame: ip, not_ip or malformed"}, walk.outcome);
  f({"bytes", "bytes", "of the frame that were given"}, walk.bytes);
  f({"incomplete", "", "some layer is"}, walk.is_incomplete);
  f.array({"layers", "", "the packet, and those in its tunnels, outer first"}, walk.layers, "walked layer");
  f.object({"verdict", "", "on the frame; reason: also not_ip, and unparsed of a malformed one"}, walk.verdict,
           "verdict");
  f({"layer", "", "whose verdict that is, from 1; 0: of none"}, walk.layer);
}

void members(Fields& f, ExplainAnswer& answer) {
  f.group("key", answer.of_key);
  f.group("packet", answer.of_packet);
  f.group("outcome", answer.of_frame);
  f.object({"generation", "", "that the answer is of: the one that runs, or ran then"}, answer.generation,
           "generation");
  f.unless_empty({"now", "", "why packets do not meet the verdict now; missing: they meet it"}, answer.now);
  f.maybe_object({"then", "", "of one that is asked for by --at or --generation"}, answer.then, "moment");
  f.unless_empty({"notice", "", "what the answer is without"}, answer.notice);
}

}  // namespace weir::control
