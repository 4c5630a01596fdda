#include <memory>
#include <vector>

#include "control/policy/feeds/statements.h"
#include "control/policy/feeds/verdict.h"

// /etc/hosts.deny of TCP wrappers (hosts_access(5)): `DAEMONS: CLIENTS [: OPTION]...`.
namespace weir::control::feeds {
namespace hosts_deny {

constexpr Joining kJoining = {.keeps_indent = true, .joins_comments = true};
constexpr std::string_view kDaemons[] = {
    "all",     "sshd",     "sshd1", "sshd2",   "vsftpd", "proftpd", "pure-ftpd",    "ftpd",    "telnetd", "portmap",
    "rpcbind", "mountd",   "nfsd",  "statd",   "lockd",  "rquotad", "dovecot",      "imapd",   "imap",    "pop3d",
    "ipop3d",  "sendmail", "smtpd", "exim",    "exim4",  "postfix", "slapd",        "httpd",   "mysqld",  "stunnel",
    "tftpd",   "fingerd",  "rshd",  "rlogind", "snmpd",  "nrpe",    "vmware-authd", "apcupsd", "gdm",     "xinetd"};

// Where the part before a colon ends: one outside of brackets.
size_t colon_of(std::string_view text) {
  bool is_open = false;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] == '[') is_open = true;
    if (text[i] == ']') is_open = false;
    if (text[i] == ':' && !is_open) return i;
  }
  return std::string_view::npos;
}

struct Rule {
  bool is_whole = false;
  std::string_view daemons, options;
  std::vector<std::string_view> clients;
};

Rule rule_of(std::string_view line) {
  Rule rule;
  const size_t colon = colon_of(line);
  if (colon == std::string_view::npos) return rule;
  rule.is_whole = true;
  rule.daemons = trim(line.substr(0, colon));
  std::string_view rest = line.substr(colon + 1);
  while (!rest.empty()) {
    const size_t begin = rest.find_first_not_of(" \t,");
    rest.remove_prefix(std::min(begin, rest.size()));
    const std::string_view word = rest.substr(0, rest.find_first_of(" \t,"));
    if (word.empty()) break;
    const bool is_v6 = parse_ipv6(word.substr(0, word.find('/'))).has_value();
    const size_t end = is_v6 ? std::string_view::npos : colon_of(word);
    if (end != 0) rule.clients.push_back(word.substr(0, end));
    rest.remove_prefix(std::min(end == std::string_view::npos ? word.size() : end + 1, rest.size()));
    if (end == std::string_view::npos) continue;
    rule.options = rest;
    break;
  }
  return rule;
}

// Of the options of a rule: one that allows counts.
Verdict verdict_of_options(std::string_view options) {
  Verdict verdict = Verdict::none;
  while (!options.empty()) {
    const size_t end = std::min(options.find(':'), options.size());
    std::string_view option = options.substr(0, end);
    const Verdict one = verdict_of_word(next_word(option));
    if (one != Verdict::none && verdict != Verdict::pass) verdict = one;
    options.remove_prefix(std::min(end + 1, options.size()));
  }
  return verdict;
}

// The text of an entry; as it is when it is none.
std::string entry_of(std::string_view client) {
  if (client.starts_with('[') && client.find(']') != std::string_view::npos) {
    const size_t close = client.find(']');
    return std::string(client.substr(1, close - 1)) + std::string(client.substr(close + 1));
  }
  if (client.ends_with('.') || client.ends_with(".*")) {
    if (std::string network = network_of_octets(client); !network.empty()) return network;
  }
  return std::string(client);
}

Outcome read_client(std::string_view client, uint32_t number, const Options& options, ListDraft& list) {
  if (client == "ALL") return Outcome::skip("`ALL`: `policy.default` says that");
  const bool is_pattern = client[0] == '.' || client[0] == '/' || client.find_first_of("*?") != std::string_view::npos;
  const bool is_word = client == "LOCAL" || client == "KNOWN" || client == "UNKNOWN" || client == "PARANOID";
  const std::string entry = entry_of(client);
  if (is_name(entry) || is_word || (is_pattern && entry == client)) {
    return Outcome::skip("a name or a wildcard, not an address");
  }
  return take(entry, {number}, options, list);
}

Outcome read_line(std::string_view line, uint32_t number, const Options& options, ListDraft& list) {
  const Rule rule = rule_of(line);
  if (!rule.is_whole || rule.daemons.empty() || rule.clients.empty()) return "no `DAEMONS: CLIENTS`";
  if (const char* why = why_not_of(verdict_of_options(rule.options), options.action)) return Outcome::skip(why);
  bool is_exception = false;  // each client is counted by itself
  for (const std::string_view client : rule.clients) {
    if (client == "EXCEPT") {
      is_exception = true;
    } else if (is_exception) {
      add_skipped_line(list.feed, number, client, "behind `EXCEPT`: an exception, which a pass list says");
    } else {
      add_outcome(read_client(client, number, options, list), list.feed, number, client);
    }
  }
  return {};
}

bool is_daemon(std::string_view word) {
  const std::string name = lower(word.substr(0, word.find('@')));
  return name.starts_with("in.") || name.starts_with("rpc.") ||
         std::find(std::begin(kDaemons), std::end(kDaemons), name) != std::end(kDaemons);
}

bool is_like(std::string_view line) {
  const Rule rule = rule_of(line);
  if (!rule.is_whole || rule.clients.empty()) return false;
  if (rule.clients[0].find('-') != std::string_view::npos) return false;  // a range: of a list of P2P
  std::string_view daemons = rule.daemons;
  const std::string_view first = daemons.substr(0, daemons.find_first_of(" \t,"));
  if (!is_daemon(first)) return false;
  ListDraft list;
  return read_client(rule.clients[0], 1, {}, list).kind != Outcome::bad;
}

std::string recognise(std::string_view beginning) {
  return recognise_statements(beginning, is_like, "is a rule of hosts.deny");
}

Read start(const Options& options, std::string_view /*beginning*/) {
  return [options, open = std::make_shared<Unfinished>()](std::string_view part, ListDraft& list) {
    read_statements(part, kJoining, *open, list,
                    [&](std::string_view line, uint32_t number) { return read_line(line, number, options, list); });
  };
}

}  // namespace hosts_deny

extern const Format kHostsDenyFormat;
const Format kHostsDenyFormat = {"hosts-deny", "/etc/hosts.deny: `DAEMON: ADDRESS, ADDRESS`", hosts_deny::recognise,
                                 hosts_deny::start};

}  // namespace weir::control::feeds
