#include "control/sources/flowspec/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace weir::control::flowspec {
namespace {

// Attributes: flags and types (IANA, bgp-parameters).
constexpr uint8_t kOptional = 0x80, kTransitive = 0x40, kExtendedLength = 0x10;
constexpr uint8_t kOrigin = 1, kAsPath = 2, kLocalPref = 5, kOriginatorId = 9, kMpReach = 14, kMpUnreach = 15,
                  kExtendedCommunities = 16;

// Capabilities (RFC 5492).
constexpr uint8_t kCapabilities = 2;  // the optional parameter
constexpr uint8_t kMultiprotocol = 1, kGracefulRestart = 64, kAs4 = 65;

// Traffic filtering actions (RFC 8955, section 7).
constexpr uint16_t kTrafficRateBytes = 0x8006, kTrafficRatePackets = 0x800c, kTrafficAction = 0x8007,
                   kRedirectAs2 = 0x8008, kRedirectIpv4 = 0x8108, kRedirectAs4 = 0x8208, kTrafficMarking = 0x8009;

Fault open_fault(uint8_t subcode, std::string what) {
  return {kOpenError, subcode, "OPEN: " + std::move(what)};
}
Fault update_fault(uint8_t subcode, std::string what) {
  return {kUpdateError, subcode, "UPDATE: " + std::move(what)};
}

struct NamedCode {
  uint8_t code;
  const char* name;
};
constexpr NamedCode kCodes[] = {{kHeaderError, "message header error"}, {kOpenError, "OPEN message error"},
                                {kUpdateError, "UPDATE message error"}, {kHoldTimerExpired, "hold timer expired"},
                                {kStateError, "state machine error"},   {kCease, "cease"}};

bool read_capability(uint8_t code, BytesView value, Open& open) {
  Reader reader(value);
  if (code == kMultiprotocol) {
    const auto afi = reader.number(2), reserved = reader.number(1), safi = reader.number(1);
    if (!afi || !reserved || !safi) return false;
    if (*safi != kFlowSpecSafi) return true;
    open.has_flowspec_v4 |= *afi == static_cast<uint64_t>(Family::v4);
    open.has_flowspec_v6 |= *afi == static_cast<uint64_t>(Family::v6);
  } else if (code == kAs4) {
    const auto as = reader.number(4);
    if (!as) return false;
    open.as = static_cast<uint32_t>(*as);
    open.has_as4 = true;
  }
  return true;
}

// What the extended communities ask for. Dropping is what matters: whoever drops has nothing left to do.
Action action_of(const std::vector<uint64_t>& communities) {
  Action action;
  const auto instead = [&](std::string what) {
    action.otherwise += (action.otherwise.empty() ? "" : ", ") + std::move(what);
  };
  for (const uint64_t community : communities) {
    switch (community >> 48) {
      case kTrafficRateBytes:
      case kTrafficRatePackets: {
        const float rate = std::bit_cast<float>(static_cast<uint32_t>(community));
        const char* unit = community >> 48 == kTrafficRateBytes ? "bytes" : "packets";
        if (rate <= 0) {  // negative ones count as 0 (RFC 8955, section 7.1)
          action.is_drop = true;
        } else {
          instead(fmt::format("traffic-rate {} {}/s", rate, unit));
        }
        break;
      }
      case kTrafficAction:
        instead("traffic-action");
        break;
      case kRedirectAs2:
      case kRedirectIpv4:
      case kRedirectAs4:
        instead("redirect");
        break;
      case kTrafficMarking:
        instead("traffic-marking");
        break;
      default:
        break;  // no action of FlowSpec
    }
  }
  if (action.otherwise.empty()) action.otherwise = "no action";
  return action;
}

class UpdateReader {
 public:
  explicit UpdateReader(bool has_as4) : has_as4_(has_as4) {}

  ParsedUpdate read(BytesView body) {
    Reader reader(body);
    const auto withdrawn_bytes = reader.number(2);
    const auto withdrawn = withdrawn_bytes ? reader.take(*withdrawn_bytes) : std::nullopt;
    const auto attribute_bytes = withdrawn ? reader.number(2) : std::nullopt;
    const auto attributes = attribute_bytes ? reader.take(*attribute_bytes) : std::nullopt;
    if (!attributes) return fail(update_fault(1, "its lengths are wrong"));
    // IPv4 unicast, which was not agreed on, is passed over; a body without anything is its End-of-RIB.
    Reader left(*attributes);
    while (!left.is_at_end()) {
      if (!read_attribute(left)) {
        // Which rules it is about is not known.
        if (!reach_ && !unreach_) return fail(update_fault(1, "an attribute is longer than what is left"));
        break;
      }
      if (fault_) return fail(*fault_);
    }
    if (Result<void> ok = read_rules(); !ok) return fail(update_fault(9, ok.error()));
    parsed_.update.action = action_of(communities_);
    const bool announces = !parsed_.update.announced.empty();
    if (announces && !has_origin_) set_malformed("it has no ORIGIN");
    if (announces && !has_as_path_) set_malformed("it has no AS_PATH");
    return std::move(parsed_);
  }

 private:
  ParsedUpdate fail(Fault fault) { return {{}, std::move(fault)}; }
  void set_malformed(std::string why) {
    if (parsed_.update.malformed.empty()) parsed_.update.malformed = std::move(why);
  }

  // False: those behind it cannot be found (RFC 7606, section 4).
  bool read_attribute(Reader& left) {
    const auto flags = left.number(1), type = left.number(1);
    const auto length = flags && type ? left.number((*flags & kExtendedLength) != 0 ? 2 : 1) : std::nullopt;
    const auto value = length ? left.take(*length) : std::nullopt;
    if (!value) {
      set_malformed("an attribute is longer than what is left");
      return false;
    }
    const bool is_multiprotocol = *type == kMpReach || *type == kMpUnreach;
    if (seen_[*type]) {  // the first one counts (RFC 7606, section 3); of these two there may be no second one
      if (is_multiprotocol) fault_ = update_fault(1, "an MP_REACH_NLRI or MP_UNREACH_NLRI is there twice");
      return true;
    }
    seen_[*type] = true;
    const bool is_well_known = *type == kOrigin || *type == kAsPath || *type == kLocalPref;
    if (is_well_known && (*flags & (kOptional | kTransitive)) != kTransitive) set_malformed("flags of an attribute");
    switch (*type) {
      case kOrigin:
        has_origin_ = true;
        if (value->size() != 1 || (*value)[0] > 2) set_malformed("ORIGIN");
        break;
      case kAsPath:
        has_as_path_ = true;
        if (!read_as_path(*value)) set_malformed("AS_PATH");
        break;
      case kLocalPref:
        if (value->size() != 4) set_malformed("LOCAL_PREF");
        break;
      case kOriginatorId:
        if (value->size() != 4) {
          set_malformed("ORIGINATOR_ID");
        } else {
          parsed_.update.originator = static_cast<uint32_t>(*Reader(*value).number(4));
        }
        break;
      case kMpReach:
        reach_ = *value;
        break;
      case kMpUnreach:
        unreach_ = *value;
        break;
      case kExtendedCommunities:
        read_communities(*value);
        break;
      default:
        break;
    }
    return true;
  }

  bool read_as_path(BytesView value) {
    Reader reader(value);
    while (!reader.is_at_end()) {
      const auto kind = reader.number(1), n = reader.number(1);
      if (!kind || !n || *kind == 0 || *kind > 4 || *n == 0) return false;
      for (uint64_t i = 0; i < *n; i++) {
        const auto as = reader.number(has_as4_ ? 4 : 2);
        if (!as) return false;
        parsed_.update.as_path.push_back(static_cast<uint32_t>(*as));
      }
    }
    return true;
  }

  void read_communities(BytesView value) {
    if (value.size() % 8 != 0 || value.empty()) return set_malformed("EXTENDED_COMMUNITIES");
    Reader reader(value);
    while (!reader.is_at_end()) communities_.push_back(*reader.number(8));
  }

  Result<void> read_rules() {
    if (reach_) {
      Reader reader(*reach_);
      const auto afi = reader.number(2), safi = reader.number(1), hop_bytes = reader.number(1);
      const auto hop = hop_bytes ? reader.take(*hop_bytes) : std::nullopt;
      const auto reserved = hop ? reader.number(1) : std::nullopt;
      if (!reserved) return Error{"MP_REACH_NLRI is cut off"};
      if (Result<void> ok = take_rules(*afi, *safi, reader.rest(), parsed_.update.announced); !ok) return ok;
    }
    if (!unreach_) return {};
    Reader reader(*unreach_);
    const auto afi = reader.number(2), safi = reader.number(1);
    if (!safi) return Error{"MP_UNREACH_NLRI is cut off"};
    if (reader.is_at_end() && !reach_ && *safi == kFlowSpecSafi && is_family(*afi)) {
      parsed_.update.ends.push_back(static_cast<Family>(*afi));
      return {};
    }
    return take_rules(*afi, *safi, reader.rest(), parsed_.update.withdrawn);
  }

  static bool is_family(uint64_t afi) {
    return afi == static_cast<uint64_t>(Family::v4) || afi == static_cast<uint64_t>(Family::v6);
  }

  static Result<void> take_rules(uint64_t afi, uint64_t safi, BytesView field, std::vector<RuleKey>& keys) {
    if (safi != kFlowSpecSafi || !is_family(afi)) return {};  // was not agreed on
    Result<std::vector<RuleKey>> split = split_rules(static_cast<Family>(afi), field);
    if (!split) return Error{split.error()};
    keys = std::move(*split);
    return {};
  }

  const bool has_as4_;
  ParsedUpdate parsed_;
  std::optional<Fault> fault_;
  bool seen_[256] = {};
  bool has_origin_ = false, has_as_path_ = false;
  std::optional<BytesView> reach_, unreach_;
  std::vector<uint64_t> communities_;
};

void put_attribute(Bytes& attributes, uint8_t flags, uint8_t type, BytesView value) {
  const bool is_long = value.size() > UINT8_MAX;
  attributes.push_back(static_cast<uint8_t>(flags | (is_long ? kExtendedLength : 0)));
  attributes.push_back(type);
  put_number(attributes, is_long ? 2 : 1, value.size());
  put_bytes(attributes, value);
}

Bytes encode_update(BytesView attributes) {
  Bytes body;
  put_number(body, 2, 0);  // no IPv4 unicast is withdrawn
  put_number(body, 2, attributes.size());
  put_bytes(body, attributes);
  return encode_message(MessageType::update, body);
}

// Of the attribute that carries the rules: what stands before them.
Bytes reach_head(Family family) {
  Bytes head;
  put_number(head, 2, static_cast<uint64_t>(family));
  put_number(head, 1, kFlowSpecSafi);
  put_number(head, 2, 0);  // no next hop (RFC 8955, section 4), and a byte that is reserved
  return head;
}
Bytes unreach_head(Family family) {
  Bytes head;
  put_number(head, 2, static_cast<uint64_t>(family));
  put_number(head, 1, kFlowSpecSafi);
  return head;
}

// Messages of as many rules as fit into each.
std::vector<Bytes> encode_updates(const Bytes& head, uint8_t type, BytesView other_attributes,
                                  const std::vector<RuleKey>& rules) {
  const size_t room = kMostMessageBytes - kHeaderBytes - 4 - other_attributes.size() - 4;
  std::vector<Bytes> messages;
  Bytes field = head;
  const auto flush = [&] {
    Bytes attributes;
    put_attribute(attributes, kOptional, type, field);  // in front of the others (RFC 7606, section 5.1)
    put_bytes(attributes, other_attributes);
    messages.push_back(encode_update(attributes));
    field = head;
  };
  for (const RuleKey& key : rules) {
    if (field.size() > head.size() && field.size() + key.bytes.size() + 2 > room) flush();
    put_rule(field, key);
  }
  if (field.size() > head.size()) flush();
  return messages;
}

}  // namespace

Framed frame(BytesView bytes) {
  Framed framed;
  const size_t n_marker = std::min<size_t>(bytes.size(), 16);
  if (std::any_of(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n_marker),
                  [](uint8_t b) { return b != 0xff; })) {
    framed.fault = Fault{kHeaderError, 1, "the marker of a message is wrong: this is no BGP"};
    return framed;
  }
  if (bytes.size() < kHeaderBytes) return framed;
  const size_t length = static_cast<size_t>(bytes[16] << 8 | bytes[17]);
  const uint8_t type = bytes[18];
  size_t least = kHeaderBytes;
  if (type == static_cast<uint8_t>(MessageType::open)) least = 29;
  if (type == static_cast<uint8_t>(MessageType::update)) least = 23;
  if (type == static_cast<uint8_t>(MessageType::notification)) least = 21;
  if (type == static_cast<uint8_t>(MessageType::route_refresh)) least = 23;
  const bool is_keepalive = type == static_cast<uint8_t>(MessageType::keepalive);
  if (type == 0 || type > static_cast<uint8_t>(MessageType::route_refresh)) {
    framed.fault = Fault{kHeaderError, 3, fmt::format("a message has type {}", type), {type}};
    return framed;
  }
  if (length < least || length > kMostMessageBytes || (is_keepalive && length != kHeaderBytes)) {
    framed.fault =
        Fault{kHeaderError, 2, fmt::format("a message has a length of {} bytes", length), {bytes[16], bytes[17]}};
    return framed;
  }
  if (bytes.size() < length) return framed;
  framed.bytes = length;
  framed.message = Message{static_cast<MessageType>(type), bytes.subspan(kHeaderBytes, length - kHeaderBytes)};
  return framed;
}

Bytes encode_message(MessageType type, BytesView body) {
  Bytes bytes(16, 0xff);
  put_number(bytes, 2, kHeaderBytes + body.size());
  bytes.push_back(static_cast<uint8_t>(type));
  put_bytes(bytes, body);
  return bytes;
}

ParsedOpen parse_open(BytesView body) {
  Reader reader(body);
  Open open;
  const auto version = reader.number(1), as = reader.number(2), hold = reader.number(2), id = reader.number(4),
             parameter_bytes = reader.number(1);
  if (!parameter_bytes) return {open, open_fault(0, "it is cut off")};
  if (*version != 4) return {open, Fault{kOpenError, 1, fmt::format("OPEN: BGP version {}", *version), {0, 4}}};
  open.as = static_cast<uint32_t>(*as);
  open.hold_s = static_cast<uint16_t>(*hold);
  open.id = static_cast<uint32_t>(*id);
  if (open.hold_s == 1 || open.hold_s == 2)
    return {open, open_fault(6, fmt::format("a hold time of {} s", open.hold_s))};
  if (open.id == 0) return {open, open_fault(3, "its BGP identifier is 0.0.0.0")};
  size_t length_bytes = 1;
  uint64_t length = *parameter_bytes;
  if (length == 255 && reader.left() > 0 && body[10] == 255) {  // extended (RFC 9072)
    (void)reader.number(1);
    const auto extended = reader.number(2);
    if (!extended) return {open, open_fault(0, "its parameters are cut off")};
    length = *extended;
    length_bytes = 2;
  }
  if (length != reader.left()) return {open, open_fault(0, "the length of its parameters is wrong")};
  while (!reader.is_at_end()) {
    const auto kind = reader.number(1), n = reader.number(length_bytes);
    const auto value = n ? reader.take(*n) : std::nullopt;
    if (!value) return {open, open_fault(0, "a parameter is cut off")};
    if (*kind != kCapabilities) return {open, open_fault(4, fmt::format("parameter {}", *kind))};
    Reader capabilities(*value);
    while (!capabilities.is_at_end()) {
      const auto code = capabilities.number(1), bytes = capabilities.number(1);
      const auto capability = bytes ? capabilities.take(*bytes) : std::nullopt;
      if (!capability || !read_capability(static_cast<uint8_t>(*code), *capability, open)) {
        return {open, open_fault(0, "a capability is cut off")};
      }
    }
  }
  if (open.as == 0) return {open, open_fault(2, "its AS number is 0")};
  return {open, std::nullopt};
}

Bytes encode_open(const Open& open) {
  Bytes capabilities;
  const auto add = [&](uint8_t code, std::initializer_list<std::pair<size_t, uint64_t>> numbers) {
    Bytes value;
    for (const auto& [bytes, number] : numbers) put_number(value, bytes, number);
    capabilities.push_back(code);
    put_number(capabilities, 1, value.size());
    put_bytes(capabilities, value);
  };
  for (const auto& [has, family] : {std::pair(open.has_flowspec_v4, Family::v4), {open.has_flowspec_v6, Family::v6}}) {
    if (has) add(kMultiprotocol, {{2, static_cast<uint64_t>(family)}, {1, 0}, {1, kFlowSpecSafi}});
  }
  if (open.has_as4) add(kAs4, {{4, open.as}});
  add(kGracefulRestart, {{2, 0}});  // keeps nothing over a restart, and knows End-of-RIB (RFC 4724, section 3)
  Bytes body;
  put_number(body, 1, 4);
  put_number(body, 2, open.as > UINT16_MAX ? kAsTrans : open.as);
  put_number(body, 2, open.hold_s);
  put_number(body, 4, open.id);
  put_number(body, 1, capabilities.size() + 2);
  body.push_back(kCapabilities);
  put_number(body, 1, capabilities.size());
  put_bytes(body, capabilities);
  return encode_message(MessageType::open, body);
}

Bytes encode_notification(const Fault& fault) {
  Bytes body = {fault.code, fault.subcode};
  put_bytes(body, fault.data);
  return encode_message(MessageType::notification, body);
}

Fault parse_notification(BytesView body) {
  Fault fault;
  Reader reader(body);
  fault.code = static_cast<uint8_t>(reader.number(1).value_or(0));
  fault.subcode = static_cast<uint8_t>(reader.number(1).value_or(0));
  const BytesView data = reader.rest();
  fault.data.assign(data.begin(), data.end());
  const auto* named = std::find_if(std::begin(kCodes), std::end(kCodes),
                                   [&](const NamedCode& each) { return each.code == fault.code; });
  fault.what = fmt::format("{} ({}/{})", named == std::end(kCodes) ? "error" : named->name, fault.code, fault.subcode);
  // Shutdown and reset may have a text (RFC 9003).
  if (fault.code == kCease && (fault.subcode == 2 || fault.subcode == 4) && !data.empty() && data[0] < data.size()) {
    if (data[0] != 0) fault.what += ": " + std::string(data.begin() + 1, data.begin() + 1 + data[0]);
  }
  return fault;
}

ParsedUpdate parse_update(BytesView body, bool has_as4) {
  return UpdateReader(has_as4).read(body);
}

std::vector<Bytes> encode_announcements(Family family, const std::vector<RuleKey>& rules, const Origin& origin) {
  Bytes others;
  put_attribute(others, kTransitive, kOrigin, Bytes{0});  // IGP
  Bytes path;
  if (!origin.is_internal) {
    path = {2, 1};  // a sequence of one
    put_number(path, origin.has_as4 ? 4 : 2, origin.has_as4 || origin.as <= UINT16_MAX ? origin.as : kAsTrans);
  }
  put_attribute(others, kTransitive, kAsPath, path);
  if (origin.is_internal) put_attribute(others, kTransitive, kLocalPref, Bytes{0, 0, 0, 100});
  Bytes drop;
  put_number(drop, 2, kTrafficRateBytes);
  put_number(drop, 2, origin.as > UINT16_MAX ? 0 : origin.as);  // for people (RFC 8955, section 7.1)
  put_number(drop, 4, 0);                                       // 0.0 bytes/s
  put_attribute(others, kOptional | kTransitive, kExtendedCommunities, drop);
  return encode_updates(reach_head(family), kMpReach, others, rules);
}

std::vector<Bytes> encode_withdrawals(Family family, const std::vector<RuleKey>& rules) {
  return encode_updates(unreach_head(family), kMpUnreach, {}, rules);
}

Bytes encode_end_of_rib(Family family) {
  Bytes attributes;
  put_attribute(attributes, kOptional, kMpUnreach, unreach_head(family));
  return encode_update(attributes);
}

}  // namespace weir::control::flowspec
