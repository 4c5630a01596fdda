#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"
#include "control/compile/prove/lookup.h"
#include "control/lists/book/claims.h"
#include "control/lists/book/stored.h"
#include "control/policy/model/list.h"
#include "control/tell/answer/parts.h"
#include "control/tell/answer/walk.h"

// An answer explains the verdict on an address, a packet or a frame.
namespace weir::control {

// ----------------------------------------------------------------------------------------------------- explanations

struct ShapeCondition {
  std::string side;  // of the key: source | destination
  std::string text;  // as flow_text: "tcp dport 8000-8010"
  std::vector<std::string> lists;
};

struct ShapeProbe : AskedKey {
  std::vector<std::string> source_lists, destination_lists;  // of every packet with the key, at this time
  std::vector<ShapeCondition> conditions;                    // what a packet must have besides, for more lists
};

struct Explanation {
  std::string key;
  std::vector<ShapeProbe> probes;
  std::vector<std::string> flow_shapes;  // that need more of a packet than the key
  std::vector<Origin> origins;           // the first kMaxOrigins
  size_t n_origins = 0;                  // all
  std::vector<Origin> of_ports;          // asked about without a port: the first kMaxOrigins entries of one port
  size_t n_of_ports = 0;                 // all
  Verdict as_source, as_destination;     // with nothing else in the packet matching
  OwnClaims own;                         // of each kind the first kMaxOrigins
};

// key: an address, or address:port / [v6]:port. now: Unix seconds. By the lists alone, no filter is asked: there are no
// probes.
Result<Explanation> explain(const Judge& judge, const std::string& key, uint64_t now);

struct PacketExplanation {
  std::string packet;  // in canonical text
  Verdict verdict;
  std::vector<Origin> origins;  // every entry that matches: the first kMaxOrigins
  size_t n_origins = 0;         // all
  OwnClaims own;                // of each kind the first kMaxOrigins
};

// Is the key a whole packet, as in `src 10.0.0.1 dst 203.0.113.9 proto tcp dport 443`
// (control/tell/answer/text.h)?
bool is_packet_text(const std::string& key);
Result<PacketExplanation> explain_packet(const Judge& judge, const std::string& key, uint64_t now);

// What has to be known of lists for either. Error: it is no key and no packet, and why.
Result<Addresses> addresses_of(const std::string& key);
Addresses addresses_of(std::span<const weir_packet> packets);

// ----------------------------------------------------------------------------------------------------------- answer

void members(Fields& f, LineBits& line);
void members(Fields& f, ShapeCondition& condition);
void members(Fields& f, ShapeProbe& probe);
void members(Fields& f, Moment& moment);
void members(Fields& f, FeedContent& feed);
void members(Fields& f, FeedColumn& column);
void members(Fields& f, Provenance& from);
void members(Fields& f, Origin& origin);
void members(Fields& f, Verdict& verdict);

void members(Fields& f, GateWalk& gate);
void members(Fields& f, ConditionWalk& condition);
void members(Fields& f, KeyWalk& key);
void members(Fields& f, LayerWalk& layer);

void members(Fields& f, Explanation& explanation);
void members(Fields& f, PacketExplanation& explanation);
void members(Fields& f, FrameWalk& walk);

struct ExplainAnswer {
  std::optional<Explanation> of_key;  // one of these
  std::optional<PacketExplanation> of_packet;
  std::optional<FrameWalk> of_frame;
  wire::Generation generation;
  std::string now = {};             // why packets do not meet the verdict now; empty: they do, or it is about the past
  std::optional<Moment> then = {};  // that generation, when it was asked for
  std::string notice = {};
};
void members(Fields& f, ExplainAnswer& answer);

}  // namespace weir::control
