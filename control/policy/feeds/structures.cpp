#include "control/policy/feeds/structures.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "control/policy/feeds/format.h"
#include "control/policy/feeds/take.h"
#include "control/policy/feeds/verdict.h"
#include "control/policy/feeds/words.h"

namespace weir::control::feeds {
namespace known {

using words::begins_with_one_of;
using words::holds_one_of;
using words::is_one_of;

bool holds(std::string_view line, std::string_view text) {
  return line.find(text) != std::string_view::npos;
}

// The word N of a line, from 0 on.
std::string_view word_of(std::string_view line, unsigned n) {
  while (n-- > 0) next_word(line);
  return next_word(line);
}

// `203.0.113.0/24;`, `!203.0.113.9;`, `203.0.113.9 except;`, `"203.0.113.0/24",` and the ends of blocks.
bool is_member(std::string_view line) {
  while (!line.empty() && std::string_view("!\"'").find(line[0]) != std::string_view::npos) line.remove_prefix(1);
  const std::string_view entry = line.substr(0, line.find_first_of(" \t;,\"'"));
  return is_entry(entry) && (line.ends_with(';') || line.ends_with(',') || line.ends_with('"') || line.ends_with('\''));
}
bool is_end_of_block(std::string_view line) {
  return !line.empty() && line.find_first_not_of("})];,") == std::string_view::npos;
}
bool is_name_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}
// How many letters of a name the line begins with; 0: it begins with none, or with a digit.
size_t name_length(std::string_view line) {
  const bool is_name = !line.empty() && is_name_letter(line[0]) && (line[0] < '0' || line[0] > '9') && line[0] != '-';
  if (!is_name) return 0;
  return static_cast<size_t>(std::find_if_not(line.begin(), line.end(), is_name_letter) - line.begin());
}

// A command behind `sudo` and without its folder: `sudo /sbin/iptables -A` -> `iptables -A`.
std::string_view command_of(std::string_view line) {
  std::string_view rest = line;
  if (next_word(rest) == "sudo") line = trim(rest);
  const std::string_view command = line.substr(0, line.find_first_of(" \t"));
  const size_t slash = command.starts_with('/') ? command.rfind('/') : std::string_view::npos;
  return slash == std::string_view::npos ? line : line.substr(slash + 1);
}

// --- Linux ---

bool is_iptables(std::string_view line) {
  constexpr std::string_view kTables[] = {"*filter", "*nat", "*mangle", "*raw", "*security", "COMMIT"};
  constexpr std::string_view kCommands[] = {"iptables ", "ip6tables ", "iptables-", "ip6tables-"};
  constexpr std::string_view kParts[] = {" -j ", " -s ", " -d ", " -m ", " -p ", " --src", " --source", " --dst"};
  if (is_one_of(line, kTables) || begins_with_one_of(command_of(line), kCommands)) return true;
  const bool is_policy = line.starts_with(':') && line.ends_with(']') && holds(line, " [");
  const bool is_rule = line.starts_with("-A ") || line.starts_with("-I ") || line.starts_with("-D ");
  return is_policy || (is_rule && holds_one_of(line, kParts));
}

bool is_firewall_cmd(std::string_view line) {
  return command_of(line).starts_with("firewall-cmd ") || command_of(line).starts_with("firewall-offline-cmd ");
}

bool is_ufw(std::string_view line) {
  constexpr std::string_view kVerdicts[] = {" DENY IN ", " DENY  ", " REJECT IN ", " ALLOW IN ", " DENY OUT "};
  const bool is_status = holds_one_of(line, kVerdicts);
  return command_of(line).starts_with("ufw ") || (is_status && has_address_inside(line));
}

bool is_csf(std::string_view line) {
  constexpr std::string_view kRules[] = {"tcp|", "udp|", "icmp|"};
  return begins_with_one_of(line, kRules) && (holds(line, "|s=") || holds(line, "|d="));
}

bool is_shorewall(std::string_view line) {
  constexpr std::string_view kActions[] = {"DROP", "REJECT", "ACCEPT", "BLACKLIST", "WHITELIST", "BLOCK"};
  return is_one_of(word_of(line, 0), kActions) && word_of(line, 1).starts_with("net:");
}

bool is_fail2ban(std::string_view line) {
  constexpr std::string_view kVerbs[] = {" Ban ", " Unban ", " Found ", " Restore Ban "};
  return holds(line, "fail2ban") && holds_one_of(line, kVerbs);
}

// `203.0.113.7:blocked`, `203.0.113.:blocked`, `203.0.113.7:`
bool is_cdb(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon + 1 != line.size()) {
    if (colon == std::string_view::npos || is_blank(line[colon + 1])) return false;
  }
  const std::string_view key = line.substr(0, colon), value = line.substr(colon + 1);
  const bool is_key = parse_ipv4(key.ends_with('.') ? std::string_view() : key).has_value() ||
                      (key.ends_with('.') && key.find_first_not_of("0123456789.") == std::string_view::npos);
  return is_key && value.find_first_of("0123456789:-/,") != 0;
}

// `0.0.0.0 ads.example`
bool is_hosts(std::string_view line) {
  constexpr std::string_view kAddresses[] = {"0.0.0.0", "127.0.0.1", "::1", "::", "127.0.1.1", "fe80::1%lo0"};
  return is_one_of(word_of(line, 0), kAddresses) && name_length(word_of(line, 1)) > 0;
}

// --- BSD and other systems ---

bool is_pf(std::string_view line) {
  constexpr std::string_view kSecond[] = {"in", "out",  "drop", "return", "quick", "log",
                                          "on", "from", "inet", "inet6",  "proto", "all"};
  if (line.starts_with("table <")) return true;
  const std::string_view verb = word_of(line, 0);
  return (verb == "block" || verb == "pass" || verb == "match") && is_one_of(word_of(line, 1), kSecond);
}

bool is_ipfw(std::string_view line) {
  constexpr std::string_view kActions[] = {"allow", "deny", "drop", "reject", "unreach", "pass", "reset", "count"};
  line = command_of(line);
  if (line.starts_with("ipfw ")) return true;
  std::string_view rest = line;
  if (next_word(rest) != "add") return false;
  std::string_view action = next_word(rest);
  if (is_number(action)) action = next_word(rest);
  return is_one_of(action, kActions) && holds(rest, " from ");
}

bool is_windows(std::string_view line) {
  return lower(line.substr(0, 6)) == "netsh ";
}
bool is_powershell(std::string_view line) {
  constexpr std::string_view kCommands[] = {"new-netfirewallrule", "set-netfirewallrule", "-remoteaddress",
                                            "remove-netfirewallrule"};
  return holds_one_of(lower(line), kCommands);
}

// --- routers ---

bool is_action_of_cisco(std::string_view word) {
  return word == "deny" || word == "permit";
}
bool opens_cisco(std::string_view line) {
  return line.starts_with("access-list ") || line.starts_with("ip access-list ") ||
         line.starts_with("ipv6 access-list ") || line.starts_with("mac access-list ");
}
bool is_cisco(std::string_view line) {
  constexpr std::string_view kSecond[] = {"ip", "ipv4", "ipv6", "tcp", "udp", "icmp", "host", "any", "esp", "gre"};
  if (opens_cisco(line)) return true;
  if (is_number(word_of(line, 0))) next_word(line);
  line = trim(line);
  if (line.starts_with("remark ")) return true;
  const std::string_view second = word_of(line, 1);
  return is_action_of_cisco(word_of(line, 0)) && !line.ends_with(';') &&
         (is_one_of(second, kSecond) || is_entry(second));
}

bool is_prefix_list(std::string_view line) {
  return (line.starts_with("ip prefix-list ") || line.starts_with("ipv6 prefix-list ")) &&
         (holds(line, " permit ") || holds(line, " deny ") || holds(line, " description "));
}

bool opens_asa(std::string_view line) {
  return line.starts_with("object-group network ") || line.starts_with("object network ") ||
         line.starts_with("network-object ");
}
bool is_asa(std::string_view line) {
  constexpr std::string_view kVerbs[] = {"network-object", "group-object", "description",  "host",
                                         "subnet",         "range",        "object-group", "object"};
  return is_one_of(word_of(line, 0), kVerbs);
}

bool is_huawei(std::string_view line) {
  if (word_of(line, 0) != "rule") return false;
  next_word(line);
  if (is_number(word_of(line, 0))) next_word(line);
  return is_action_of_cisco(word_of(line, 0));
}

bool is_vyos(std::string_view line) {
  constexpr std::string_view kSet[] = {"set firewall group ", "set firewall name ", "set firewall ipv4 ",
                                       "set firewall ipv6 ", "delete firewall group "};
  return begins_with_one_of(line, kSet);
}
bool is_junos(std::string_view line) {
  constexpr std::string_view kSet[] = {"set policy-options ",    "set security ",    "set firewall ", "set groups ",
                                       "delete policy-options ", "delete security ", "deactivate "};
  return begins_with_one_of(line, kSet);
}
bool opens_junos_block(std::string_view line) {
  constexpr std::string_view kNames[] = {"policy-options", "prefix-list",   "address-book", "firewall",
                                         "filter",         "term",          "address-set",  "source-address",
                                         "group",          "address-group", "network-group"};
  return line.ends_with('{') && is_one_of(word_of(line, 0), kNames);
}
bool is_junos_block(std::string_view line) {
  return opens_junos_block(line) || is_member(line) || is_end_of_block(line) || line.ends_with(" {") ||
         (line.starts_with("address ") && has_address_inside(line));
}

bool is_palo_alto(std::string_view line) {
  constexpr std::string_view kSet[] = {"set address ", "set address-group ", "set shared address", "set device-group ",
                                       "set external-list "};
  return begins_with_one_of(line, kSet);
}

bool opens_fortinet(std::string_view line) {
  return line.starts_with("config firewall ") || line.starts_with("set subnet ") || line.starts_with("set start-ip ");
}
bool is_fortinet(std::string_view line) {
  constexpr std::string_view kVerbs[] = {"config", "edit", "set", "next", "end", "unset"};
  return is_one_of(word_of(line, 0), kVerbs);
}

bool is_check_point(std::string_view line) {
  constexpr std::string_view kCommands[] = {
      "mgmt_cli add ", "add host name ", "add network name ", "add address-range ", "dbedit ", "fw sam ", "fw samp "};
  return begins_with_one_of(command_of(line), kCommands);
}
bool is_sonicwall(std::string_view line) {
  return line.starts_with("address-object ipv") || line.starts_with("address-group ipv");
}

bool is_exabgp(std::string_view line) {
  constexpr std::string_view kCommands[] = {"announce route ", "announce flow ", "withdraw route ", "withdraw flow "};
  return begins_with_one_of(line, kCommands);
}

// --- servers ---

bool opens_bind(std::string_view line) {
  constexpr std::string_view kNames[] = {"acl",           "blackhole",       "allow-query",
                                         "match-clients", "allow-recursion", "allow-transfer"};
  return is_one_of(word_of(line, 0), kNames) && holds(line, "{");
}
bool is_bind(std::string_view line) {
  return opens_bind(line) || is_member(line) || is_end_of_block(line);
}

bool is_rpz(std::string_view line) {
  constexpr std::string_view kNames[] = {".rpz-ip", ".rpz-client-ip", ".rpz-nsip", " rpz-drop.", " rpz-passthru."};
  return holds_one_of(line, kNames);
}

bool is_dns_zone(std::string_view line) {
  constexpr std::string_view kTypes[] = {" IN A ",      "\tIN\tA\t", " IN AAAA ",   "\tIN\tAAAA\t", " IN SOA ",
                                         "\tIN\tSOA\t", " IN PTR ",  "\tIN\tPTR\t", " IN NS ",      "\tIN\tNS\t"};
  return holds_one_of(line, kTypes);
}

bool is_unbound(std::string_view line) {
  constexpr std::string_view kKeys[] = {"access-control:",      "local-zone:",      "local-data:",
                                        "access-control-view:", "private-address:", "do-not-query-address:"};
  return line == "server:" || begins_with_one_of(line, kKeys);
}

bool is_dnsmasq(std::string_view line) {
  constexpr std::string_view kKeys[] = {"address=/", "server=/", "local=/", "bogus-nxdomain=", "ignore-address="};
  return begins_with_one_of(line, kKeys);
}

bool is_adblock(std::string_view line) {
  return (line.starts_with("||") && line.find('^') != std::string_view::npos) || line.starts_with("@@||") ||
         line.starts_with("[Adblock") || (line.ends_with('^') && line.size() > 1);
}

bool is_apache(std::string_view line) {
  const std::string text = lower(line.substr(0, 200));
  constexpr std::string_view kDirectives[] = {"deny from ",  "allow from ",         "order allow,", "order deny,",
                                              "require ip ", "require not ",        "require all ", "require host ",
                                              "satisfy ",    "setenvif remote_addr"};
  return begins_with_one_of(text, kDirectives) || holds(text, "%{remote_addr}");
}

bool is_modsecurity(std::string_view line) {
  return line.starts_with("SecRule ") || line.starts_with("SecAction ");
}

bool opens_nginx(std::string_view line) {
  const std::string_view word = word_of(line, 0);
  return (word == "geo" || word == "map") && line.ends_with('{');
}
bool is_nginx(std::string_view line) {
  constexpr std::string_view kVerbs[] = {"default", "include", "delete", "proxy", "ranges;", "proxy_recursive;"};
  return opens_nginx(line) || is_end_of_block(line) || is_one_of(word_of(line, 0), kVerbs) ||
         (line.ends_with(';') && is_entry(word_of(line, 0)));
}

bool opens_haproxy(std::string_view line) {
  constexpr std::string_view kBeginnings[] = {"http-request ", "tcp-request ", "frontend ",
                                              "backend ",      "use_backend ", "stick-table "};
  return begins_with_one_of(line, kBeginnings);
}
bool is_haproxy(std::string_view line) {
  constexpr std::string_view kVerbs[] = {"acl", "bind", "mode", "server", "default_backend", "balance", "listen"};
  return opens_haproxy(line) || is_one_of(word_of(line, 0), kVerbs);
}

bool is_squid(std::string_view line) {
  constexpr std::string_view kTypes[] = {"src", "dst", "dstdomain", "srcdomain", "port", "localip"};
  if (line.starts_with("http_access ")) return true;
  return word_of(line, 0) == "acl" && is_one_of(word_of(line, 2), kTypes);
}

// --- files of other tools ---

bool opens_terraform(std::string_view line) {
  constexpr std::string_view kBlocks[] = {"resource \"", "variable \"", "data \"", "locals {",
                                          "module \"",   "ingress {",   "egress {"};
  const size_t name = name_length(line);
  const std::string_view rest = trim(line.substr(name));
  const bool is_list = name > 0 && rest.starts_with('=') && trim(rest.substr(1)).starts_with('[');
  return begins_with_one_of(line, kBlocks) || is_list;
}
bool is_terraform(std::string_view line) {
  const size_t name = name_length(line);
  return opens_terraform(line) || is_end_of_block(line) || is_member(line) || line.ends_with('{') ||
         (name > 0 && trim(line.substr(name)).starts_with('='));
}

bool opens_network_policy(std::string_view line) {
  return line == "kind: NetworkPolicy" || line == "ipBlock:" || line == "- ipBlock:" ||
         line == "kind: CiliumNetworkPolicy" || line == "kind: GlobalNetworkSet";
}
// `key:`, `key: value`, `- item`
bool is_yaml(std::string_view line) {
  if (line == "---") return true;
  while (line.starts_with("- ")) {
    line = trim(line.substr(2));
    if (!line.empty() && (line[0] == '"' || line[0] == '\'')) line.remove_prefix(1);
    if (is_entry(line.substr(0, line.find_first_of(" \t\"'#")))) return true;
  }
  const size_t name = name_length(line);
  return name > 0 && name < line.size() && line[name] == ':' && (name + 1 == line.size() || line[name + 1] == ' ');
}
bool opens_yaml(std::string_view line) {
  return line == "---" || (name_length(line) > 0 && name_length(line) + 1 == line.size() && line.ends_with(':'));
}
bool is_yaml_item(std::string_view line) {
  return line.starts_with("- ") && is_yaml(line);
}

// Attributes of RIPE, APNIC, AFRINIC and LACNIC, and those of ARIN.
bool opens_whois(std::string_view line) {
  constexpr std::string_view kKeys[] = {"inetnum:", "inet6num:", "route:", "route6:", "NetRange:", "CIDR:"};
  return begins_with_one_of(line, kKeys) && has_address_inside(line);
}
bool is_whois(std::string_view line) {
  constexpr std::string_view kKeys[] = {
      "inetnum:", "inet6num:", "route:",  "route6:",  "netname:", "descr:",         "country:", "origin:",
      "mnt-by:",  "source:",   "status:", "admin-c:", "tech-c:",  "last-modified:", "created:", "org:",
      "remarks:", "NetRange:", "CIDR:",   "NetName:", "OrgName:", "NetHandle:",     "Parent:",  "NetType:",
      "changed:", "abuse-c:",  "mnt-",    "person:",  "role:",    "address:",       "phone:",   "nic-hdl:"};
  return begins_with_one_of(line, kKeys);
}

bool is_sql(std::string_view line) {
  const std::string text = lower(line.substr(0, 32));
  constexpr std::string_view kVerbs[] = {"insert into ", "create table ", "drop table ", "lock tables ",
                                         "replace into "};
  return begins_with_one_of(text, kVerbs);
}

// `NAME=203.0.113.7,203.0.113.8`, `NAME="203.0.113.7 203.0.113.8"`
bool is_assignment(std::string_view line) {
  if (line.starts_with("export ")) line = trim(line.substr(7));
  const size_t name = name_length(line);
  std::string_view value = trim(line.substr(name));
  if (name == 0 || !value.starts_with('=')) return false;
  value = trim(value.substr(1));
  while (!value.empty() && std::string_view("\"'([{").find(value[0]) != std::string_view::npos) {
    value = trim(value.substr(1));
  }
  return is_entry(value.substr(0, value.find_first_of(" \t,;\"')]}")));
}

constexpr const char* kAsLines = "write its addresses as a list, an entry a line";

struct Row {
  Structure structure;
  bool (*opens)(std::string_view line) = nullptr;  // one such line is needed; null: none
  bool is_like_a_format = false;                   // `ipset` or `p2p` would take it
};

constexpr Row kRows[] = {
    {{"rules of iptables", is_iptables,
      "keep the addresses in a set, and give weir what `ipset save NAME` prints; or write them an entry a line"}},
    {{"commands of firewalld", is_firewall_cmd,
      "give weir the entries of its set: `firewall-cmd --ipset=NAME --get-entries`"}},
    {{"rules of ufw", is_ufw, kAsLines}},
    {{"rules of csf", is_csf, "write the addresses alone, an entry a line, as the first column of csf.deny"}},
    {{"rules of Shorewall", is_shorewall, kAsLines}},
    {{"a log of fail2ban", is_fail2ban,
      "give weir the banned addresses: `fail2ban-client get JAIL banip`, one a line"}},
    {{"a CDB list of Wazuh", is_cdb, "write the keys alone: `cut -d: -f1`, after the lines of trusted hosts are out"}},
    {{"a hosts file", is_hosts, "it blocks names, and weir blocks addresses: name a list of addresses"}},
    {{"rules of pf", is_pf, "give weir a table: `pfctl -t NAME -T show`"}},
    {{"rules of ipfw", is_ipfw, "give weir the first column of a table: `ipfw table NAME list`"}, nullptr, true},
    {{"commands of netsh", is_windows, kAsLines}},
    {{"commands of PowerShell", is_powershell,
      "write the remote addresses an entry a line: `(Get-NetFirewallAddressFilter).RemoteAddress`"}},
    {{"an access list of Cisco", is_cisco, "write its networks as prefixes, an entry a line: 203.0.113.0/24"},
     opens_cisco},
    {{"a prefix list of a router", is_prefix_list, "write the prefixes that it permits, an entry a line"}},
    {{"an object group of Cisco ASA", is_asa, "write its networks as prefixes, an entry a line: 203.0.113.0/24"},
     opens_asa},
    {{"an access list of Huawei or H3C", is_huawei, "write its networks as prefixes, an entry a line: 203.0.113.0/24"}},
    {{"commands of VyOS", is_vyos, "write the members of the group, an entry a line"}},
    {{"commands of Junos", is_junos, "write the prefixes of one prefix list, an entry a line"}},
    {{"a configuration in braces, as Junos has it", is_junos_block,
      "write the prefixes of one list, an entry a line, and its exceptions in a pass list"},
     opens_junos_block},
    {{"commands of Palo Alto", is_palo_alto, "give weir the text of its external dynamic list, an entry a line"}},
    {{"a configuration of Fortinet", is_fortinet, "give weir the text of its external block list, an entry a line"},
     opens_fortinet},
    {{"commands of Check Point", is_check_point, kAsLines}, nullptr, true},
    {{"objects of SonicWall", is_sonicwall, kAsLines}},
    {{"commands of ExaBGP", is_exabgp,
      "write the prefixes alone, an entry a line; weir also receives FlowSpec by BGP"}},
    {{"an acl of BIND", is_bind, "write its addresses an entry a line, and those with `!` in a pass list"}, opens_bind},
    {{"a response policy zone", is_rpz,
      "write its addresses an entry a line: 24.0.113.0.203.rpz-ip is 203.0.113.0/24"}},
    {{"a DNS zone", is_dns_zone, "write the addresses that are meant, an entry a line"}},
    {{"a configuration of unbound", is_unbound, kAsLines}},
    {{"a configuration of dnsmasq", is_dnsmasq,
      "it blocks names, and weir blocks addresses: name a list of addresses"}},
    {{"rules of an ad blocker", is_adblock, "they block names, and weir blocks addresses: name a list of addresses"}},
    {{"access rules of Apache", is_apache, "write the addresses that it denies, an entry a line"}},
    {{"rules of ModSecurity", is_modsecurity, "give weir the file of `@ipMatchFromFile`, or write an entry a line"}},
    {{"a geo or map block of nginx", is_nginx, "write `deny PREFIX;` a line (`format: nginx`), or an entry a line"},
     opens_nginx},
    {{"a configuration of HAProxy", is_haproxy, "give weir the file that its `acl` reads by `-f`"}, opens_haproxy},
    {{"access rules of squid", is_squid, "give weir the file that its `acl` names in quotes"}},
    {{"a configuration of Terraform", is_terraform, "write the networks of one argument, an entry a line, or as JSON"},
     opens_terraform},
    {{"a network policy of Kubernetes", is_yaml,
      "write each `cidr` an entry a line, and what `except` has in a pass list"},
     opens_network_policy},
    {{"objects of whois", is_whois, "write the ranges and routes an entry a line: 203.0.113.0-203.0.113.255"},
     opens_whois,
     true},
    {{"YAML", is_yaml, "write one of its lists as text, an entry a line, or as JSON"}, opens_yaml},
    {{"a list of YAML", is_yaml_item, "write it as text without the hyphens, an entry a line, or as JSON"}},
    {{"SQL", is_sql, "export the column of addresses: an entry a line, or as CSV"}},
    {{"an assignment of a configuration or a script", is_assignment, "write its addresses as a list, an entry a line"}},
};

// Lines like a structure, and plain ones among the others.
struct Count {
  unsigned alike = 0, plain = 0, first = 0;  // first: its number
  bool is_open = false;
  std::string_view line;  // the first one
};

struct Line {
  uint32_t number;
  std::string_view text;
  bool is_plain;
};

// Those that are no comments.
std::vector<Line> lines_of(std::string_view beginning) {
  constexpr size_t kAsked = 1000;
  std::vector<Line> lines;
  uint32_t number = 0;
  while (!beginning.empty() && lines.size() < kAsked) {
    const bool is_whole = beginning.find('\n') != std::string_view::npos;
    const std::string_view line = trim(next_line(beginning));
    number++;
    const bool is_comment = line.empty() || line[0] == '#' || line[0] == ';' || line.starts_with("//");
    if (is_comment || (!is_whole && !lines.empty())) continue;
    lines.push_back({number, line, is_plain_entry(line)});
  }
  return lines;
}

FeedFault fault_of(const char* name, uint32_t number, std::string_view line, const char* hint) {
  constexpr size_t kShown = 80;
  return {fmt::format("is {}: line {}: {}", name, number, shortened(line, kShown)), hint};
}

Count count(const Row& row, const std::vector<Line>& lines) {
  Count all;
  for (const Line& line : lines) {
    const bool opens = row.opens == nullptr || row.opens(line.text);
    all.is_open |= opens;
    if (row.structure.is_like(line.text) || (row.opens != nullptr && opens)) {
      if (all.alike++ == 0) {
        all.first = line.number;
        all.line = line.text;
      }
    } else {
      all.plain += line.is_plain;
    }
  }
  return all;
}

// `[whitelist]`, then its addresses. Two sections do not mean the same, nor does one of those that are allowed.
std::optional<FeedFault> section_fault(const std::vector<Line>& lines) {
  unsigned n = 0;
  const Line* first = nullptr;
  bool allows = false;
  for (const Line& line : lines) {
    const std::string_view name = line.text.size() > 2 ? line.text.substr(1, line.text.size() - 2) : "";
    const bool is_section = line.text[0] == '[' && line.text.ends_with(']') && name_length(name) > 0 &&
                            name.find_first_of("[],\"{}") == std::string_view::npos;
    if (!is_section) continue;
    n += first == nullptr || line.text != first->text;
    allows |= verdict_of_name(name) == Verdict::pass;
    if (first == nullptr) first = &line;
  }
  if (n < 2 && !allows) return std::nullopt;
  return fault_of("a file of sections", first->number, first->text,
                  "give weir the addresses of one section, an entry a line");
}

}  // namespace known

std::span<const Structure> structures() {
  static const std::vector<Structure> kAll = [] {
    std::vector<Structure> all;
    for (const known::Row& row : known::kRows) all.push_back(row.structure);
    return all;
  }();
  return kAll;
}

std::optional<FeedFault> structure_fault(std::string_view beginning, Share share) {
  const std::vector<known::Line> lines = known::lines_of(beginning);
  for (const known::Row& row : known::kRows) {
    if (share == Share::most && !row.is_like_a_format) continue;
    const known::Count found = known::count(row, lines);
    if (found.alike == 0 || !found.is_open) continue;
    // Where no line opens it, a list of as many entries is a list.
    const bool is_it = share == Share::most   ? found.alike * 2 > lines.size()
                       : row.opens != nullptr ? found.alike >= found.plain
                                              : found.alike > found.plain;
    if (is_it) return known::fault_of(row.structure.name, found.first, found.line, row.structure.hint);
  }
  return share == Share::most ? std::nullopt : known::section_fault(lines);
}

}  // namespace weir::control::feeds
