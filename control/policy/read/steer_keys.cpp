#include "control/policy/read/steer_keys.h"

namespace weir::control {

namespace {

using yaml::Key;
using yaml::Section;
namespace row = yaml::row;

constexpr std::string_view kPlaces = "kernel | worker";
constexpr std::string_view kPorts = "[0-9]+(-[0-9]+)?";

constexpr Key kRuleKeys[] = {
    row::choice("to", kPlaces, "Where the packets go that the rule takes.").required(),
    row::choice("family", "4 | 6", "The version of IP."),
    row::text("src", "The source: an address or a prefix.").called("address"),
    row::text("dst", "The destination: an address or a prefix.").called("address"),
    row::text("proto", "The protocol: a name, as in tcp, or a number from 0 to 255."),
    row::text("sport", "The source port, as in 443, or a range of them. Fragments have none.").matching(kPorts),
    row::text("dport", "The destination port, as in 443, or a range of them. Fragments have none.").matching(kPorts),
    row::text("comment", "For people; it is not looked at."),
};

}  // namespace

constexpr Section kSteerRuleSection = {"the rule", kRuleKeys};

namespace {

constexpr Key kRuleItem = row::map("", kSteerRuleSection, "Each rule has these keys.");
constexpr Key kKeys[] = {
    row::text("version", "Of this format.").matching("1").required(),
    row::choice("default", kPlaces, "Where IP packets go that no rule takes.").by_default("kernel"),
    row::choice("link", kPlaces,
                "Where the link's own frames go, before any rule: what is not IP (ARP, LLDP), and IPv6 neighbour and "
                "listener discovery, without which nobody reaches this host.")
        .by_default("kernel"),
    row::sequence("rules", kRuleItem,
                  "At most 64. The first rule that takes a packet decides; all that it asks must hold."),
};

}  // namespace

constexpr Section kSteerSection = {"the file", kKeys};

}  // namespace weir::control
