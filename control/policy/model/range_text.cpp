#include "control/policy/model/range_text.h"

#include "control/policy/model/fields.h"

namespace weir::control {
namespace {

template <class Addr>
std::string text_of(Addr first, Addr last) {
  if (first == last) return to_string(first);
  for (unsigned bits = 0; bits < kAddrBits<Addr>; bits++) {
    const auto mask = prefix_mask<Addr>(bits);
    const bool is_prefix = (first & mask) == first && last == static_cast<Addr>(first | static_cast<Addr>(~mask));
    if (is_prefix) return to_string(first) + "/" + std::to_string(bits);
  }
  return to_string(first) + "-" + to_string(last);
}

}  // namespace

std::string range_text(Ipv4 first, Ipv4 last, uint16_t port) {
  return text_of(first, last) + (port == 0 ? "" : ":" + std::to_string(port));
}

std::string range_text(Ipv6 first, Ipv6 last, uint16_t port) {
  return port == 0 ? text_of(first, last) : "[" + text_of(first, last) + "]:" + std::to_string(port);
}

std::string expiry_text(uint32_t expires) {
  return expires == kNever ? "" : " expires " + time_text(expires);
}

std::string flow_text(const Flow& flow) {
  const auto address = [&](const AddressRange& range) {
    if (flow.family == 6) return text_of(range.first, range.last);
    return text_of(static_cast<Ipv4>(range.first), static_cast<Ipv4>(range.last));
  };
  std::string text;
  if (flow.src) text += " src " + address(*flow.src);
  if (flow.dst) text += " dst " + address(*flow.dst);
  for (const Field& field : fields()) {
    if (field.is_asked(flow)) text += " " + field_text(field, flow);
  }
  text += expiry_text(flow.expires);
  return text.empty() ? text : text.substr(1);
}

std::string flow_line(const Flow& flow) {
  const std::string text = flow_text(flow);
  const bool is_one_word = text.substr(0, text.find(" expires ")).find(' ') == std::string::npos;
  return is_one_word ? "proto " + text : text;
}

}  // namespace weir::control
