#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/sources/flowspec/nlri.h"

// Messages of BGP-4 (RFC 4271), as far as a session that carries FlowSpec and nothing else needs them: bytes and
// structs. Multiprotocol: RFC 4760; AS numbers of four bytes: RFC 6793; errors in attributes: RFC 7606.
namespace weir::control::flowspec {

constexpr size_t kHeaderBytes = 19, kMostMessageBytes = 4096;
constexpr uint8_t kFlowSpecSafi = 133;
constexpr uint16_t kAsTrans = 23456;

enum class MessageType : uint8_t { open = 1, update = 2, notification = 3, keepalive = 4, route_refresh = 5 };

// Why a session ends: of NOTIFICATION (RFC 4271, section 4.5). Numbers as IANA has them.
struct Fault {
  uint8_t code = 0, subcode = 0;
  std::string what;  // for people; of a peer's, the names of its numbers and what it said
  Bytes data = {};
};
constexpr uint8_t kHeaderError = 1, kOpenError = 2, kUpdateError = 3, kHoldTimerExpired = 4, kStateError = 5,
                  kCease = 6;

struct Message {
  MessageType type = MessageType::keepalive;
  BytesView body;  // of the bytes that it was found in
};
// The message that these bytes begin with. Empty: they hold no whole one yet. Error as a fault.
struct Framed {
  std::optional<Message> message;
  size_t bytes = 0;  // of the message, header included
  std::optional<Fault> fault;
};
Framed frame(BytesView bytes);
Bytes encode_message(MessageType type, BytesView body);

struct Open {
  uint32_t as = 0;
  uint16_t hold_s = 0;
  uint32_t id = 0;
  bool has_flowspec_v4 = false, has_flowspec_v6 = false, has_as4 = false;
};
struct ParsedOpen {
  Open open;
  std::optional<Fault> fault;
};
ParsedOpen parse_open(BytesView body);
Bytes encode_open(const Open& open);

Bytes encode_notification(const Fault& fault);
Fault parse_notification(BytesView body);

// What routers are to do with the packets of rules.
struct Action {
  bool is_drop = false;
  std::string otherwise;  // what it is instead: "no action", "rate 1000 bytes/s", ...
};

struct Update {
  std::vector<RuleKey> announced, withdrawn;
  Action action;                  // of those that are announced
  std::vector<Family> ends;       // End-of-RIB (RFC 4724, section 2)
  std::string malformed;          // why what is announced is to be treated as withdrawn (RFC 7606); empty: it is well
  std::vector<uint32_t> as_path;  // all AS numbers of it
  std::optional<uint32_t> originator;
};
struct ParsedUpdate {
  Update update;
  std::optional<Fault> fault;  // what ends the session
};
// has_as4: both sides said so.
ParsedUpdate parse_update(BytesView body, bool has_as4);

// How rules are announced: as dropped, from this AS.
struct Origin {
  bool is_internal = true;  // both sides are of one AS
  uint32_t as = 0;
  bool has_as4 = true;
};
// As many messages as it takes.
std::vector<Bytes> encode_announcements(Family family, const std::vector<RuleKey>& rules, const Origin& origin);
std::vector<Bytes> encode_withdrawals(Family family, const std::vector<RuleKey>& rules);
Bytes encode_end_of_rib(Family family);

}  // namespace weir::control::flowspec
