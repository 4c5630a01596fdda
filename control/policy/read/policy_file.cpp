#include "control/policy/read/policy_file.h"

#include <algorithm>
#include <deque>
#include <map>

#include "common/wire.h"
#include "control/policy/model/fields.h"
#include "control/policy/model/policy.h"

namespace weir::control {

using yaml::Kind;
using yaml::Node;

void PolicyFile::error(const Node& at, std::string message, std::string hint) const {
  diagnostics.add(
      {Severity::error, document.where(at), std::move(message), document.source_line(at.line), std::move(hint)});
}

void PolicyFile::warning(const Node& at, std::string message, std::string hint) const {
  diagnostics.add(
      {Severity::warning, document.where(at), std::move(message), document.source_line(at.line), std::move(hint)});
}

std::string quoted(const std::string& text) {
  return "`" + text + "`";
}

std::optional<uint8_t> read_names(const PolicyFile& file, const Node& sequence, std::span<const NamedBit> names,
                                  const char* what) {
  constexpr uint8_t kEvery = 0xff;
  const size_t errors = file.diagnostics.errors();
  uint8_t mask = 0;
  for (const Node& item : sequence.items) {
    const auto named = std::find_if(names.begin(), names.end(), [&](const NamedBit& n) { return item.text == n.name; });
    if (item.kind != Kind::scalar || named == names.end()) {
      const std::string value = item.kind == Kind::scalar ? quoted(item.text) : "this";
      file.error(item, value + " is not " + what, "choose from: " + bit_names(kEvery, names, ", "));
    } else if ((mask & named->bit) != 0) {
      file.error(item, quoted(item.text) + " is named twice", "name each once");
    } else {
      mask |= named->bit;
    }
  }
  if (file.diagnostics.errors() != errors) return std::nullopt;
  return mask;
}

namespace {

using yaml::Key;
using yaml::Section;
namespace row = yaml::row;

constexpr uint64_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB, TiB = 1024 * GiB;
constexpr uint64_t kDay_s = 86400;

constexpr uint64_t kMostEntries = 0xffff'ffff;  // a feed has no more lines
constexpr uint64_t kMostAdded = 10'000'000;
constexpr double kMostGrowth = 10'000;
constexpr uint64_t kLeastMemory = 4 * KiB;  // one page
constexpr uint64_t kLeastSnapBytes = 64;    // Ethernet, IPv6 and the ports
constexpr uint64_t kLeastEvery_s = 30, kMostEvery_s = 30 * kDay_s;
constexpr std::string_view kDuration = "([0-9]+[smhdw])+|[0-9]+";  // as parse_duration() reads it
constexpr std::string_view kHttp = "https?://.+";
constexpr std::string_view kActions = "pass | drop";

// Words that are listed elsewhere, as rows have them. They live as long as the program.
std::string_view kept(std::string text) {
  static std::deque<std::string> all;
  return all.emplace_back(std::move(text));
}

constexpr Key kAddress = row::text("", "An address, a prefix or a range, as in 198.51.100.0/24.").called("address");
constexpr Key kSingleAddress = row::text("", "A single address.").called("address");
constexpr Key kInterface =
    row::text("", "The name of an interface, as `ip link` has it.").matching("[^/:\\s]{1,15}").called("name");

constexpr Key kXdpKeys[] = {
    row::sequence("interfaces", kInterface,
                  "Where frames are filtered as they come in: at most 256 names, each once. They may be missing when "
                  "controld starts. []: the maps are kept for programs that net_af_xdp attaches.")
        .required(),
    row::choice(
        "attach", "auto | native | generic",
        "native: in the driver, or not at all. generic: behind it, slower, on every interface. auto: in the driver "
        "where that works, else behind it.")
        .by_default("auto"),
    row::later("egress"),
};
constexpr Section kXdp = {"`xdp`", kXdpKeys};

constexpr Key kTargetKeys[] = {
    row::map("xdp", kXdp,
             "This machine's kernel filters, on what comes in by these interfaces. One such target names all of "
             "them."),
    row::text("dataplane", "A data plane, by its Unix socket: a path of at most 107 bytes.").called("path"),
};
constexpr Section kTarget = {"the target", kTargetKeys, true};
constexpr Key kTargetItem = row::map("", kTarget, "Each target has exactly one of these keys.");

constexpr Key kFilterKeys[] = {
    row::number(
        "false_positive_rate", kLeastRate, kMostRate, "",
        "How often the filter of a key shape may ask the exact stage in vain. The verdict is exact whatever it is.")
        .by_default("0.005"),
    row::size("memory", kLeastMemory, TiB, "The ceiling for one snapshot. A policy that needs more is refused.")
        .by_default("512MiB"),
    row::choice(
        "layout", "auto | line8 | page2 | page7 | ribbon",
        "How the bits of a key lie in its filter; auto is right for nearly every policy. `controlctl size` compares "
        "them.")
        .by_default("auto"),
    row::sequence("canaries", kSingleAddress,
                  "Addresses that must not drop, as source or destination. It is proven before every publication.")
        .by_default("[]"),
};
constexpr Section kFilter = {"`filter`", kFilterKeys};

constexpr Key kFetchKeys[] = {
    row::text("proxy",
              "Through which feeds are fetched: http://HOST:PORT; https, socks5 and socks5h are known, too. Left "
              "out: none.")
        .called("URL"),
    row::time("timeout", 1, 3600, "The longest wait for a connection, and the longest silence.").by_default("30s"),
    row::size("max_size", KiB, 4 * GiB, "The largest feed that is taken, unpacked.").by_default("64MiB"),
    row::text("ca_file",
              "Certificates that are trusted instead of those of the system. A relative path begins at the folder "
              "of this file.")
        .called("file"),
    row::text("user_agent",
              "What servers are told who asks: 1 to 256 characters of ASCII. Left out: weir and its version."),
    row::integer("concurrent", 1, 64, "How many feeds are fetched at a time.").by_default("4"),
    row::boolean("private",
                 "Redirects may lead from a public server to this machine, its link or a private network. False: only "
                 "where the url of the list leads there itself.")
        .by_default("false"),
};
constexpr Section kFetch = {"`fetch`", kFetchKeys};

constexpr Key kCaptureKeys[] = {
    row::text("folder",
              "Where the files are. It is made for the daemon alone (0700). Left out: `capture` in state_dir.")
        .called("folder"),
    row::integer("one_in", 1, 1'000'000'000, "Of so many dropped frames one is a sample.").by_default("1000"),
    row::integer("per_list_per_second", 1, 100'000, "Samples of a list in a second, at most.").by_default("10"),
    row::integer("snap_bytes", kLeastSnapBytes, wire::kMaxSnapBytes, "How much of a frame is kept: its first bytes.")
        .by_default("256"),
    row::text("filter",
              "An expression as pcap-filter(7) describes it. Samples that it does not let through are not "
              "written. Left out: all are.")
        .called("expression"),
    row::size("file_size", 64 * KiB, TiB, "The largest file.").by_default("64MiB"),
    row::time("file_age", 1, 366 * kDay_s, "How long a file is written to.").by_default("1h"),
    row::integer("files", 1, 10'000, "How many files are kept; the oldest is removed.").by_default("16"),
};
constexpr Section kCapture = {"`capture`", kCaptureKeys};

constexpr Key kHistoryKeys[] = {
    row::size("size", MiB, TiB, "How many bytes the kept policies may take, all their entries included.")
        .by_default("1GiB"),
    row::text("keep", "How long former generations are kept for `controlctl rollback`: a time in s, m, h, d or w.")
        .called("time")
        .matching(kDuration)
        .by_default("7d"),
};
constexpr Section kHistory = {"`history`", kHistoryKeys};

constexpr Key kPlanKeys[] = {
    row::number(
        "max_newly_dropped", 0, 100, "%",
        "A reload that would drop more of the recent traffic than is dropped now, as a share of its packets, is "
        "refused, and so are feeds that would. Left out: there is no limit."),
    row::number("max_newly_passed", 0, 100, "%",
                "The same of what is dropped now and would pass. Left out: there is no limit."),
    row::integer("samples", 0, 1'000'000, "How many frames of the recent traffic are kept to tell; 0: none.")
        .by_default("65536"),
    row::time("recent", 15, kDay_s, "How long a frame is recent.").by_default("15m"),
};
constexpr Section kPlan = {"`plan`", kPlanKeys};

constexpr Key kMetricsKeys[] = {
    row::text("listen",
              "Where they are served: ADDRESS:PORT, IPv6 in brackets (\"[::1]:9617\"), port 0 for one that is free; or "
              "off: nowhere.")
        .by_default("127.0.0.1:9617"),
};
constexpr Section kMetrics = {"`metrics`", kMetricsKeys};

constexpr Key kEndpoint =
    row::text("", "Where etcd is: http://HOST:PORT or https://HOST:PORT.").called("URL").matching(kHttp);
constexpr std::string_view kName = "[A-Za-z0-9._-]{1,63}";

constexpr Key kTlsKeys[] = {
    row::text("ca_file", "Certificates that are trusted instead of those of the system.").called("file"),
    row::text("cert_file", "The certificate of this node, where etcd asks for one.").called("file"),
    row::text("key_file", "And its key.").called("file"),
};
constexpr Section kTls = {"`tls`", kTlsKeys};

constexpr Key kSharedList = row::text("", "A dynamic list.").called("name").matching(kName);
constexpr Key kShareKeys[] = {
    row::sequence("lists", kSharedList, "What is added to these lists on this node is added on every node.")
        .by_default("[]"),
    row::integer("per_minute", 1, 100'000, "At most so many entries; the others stay on this node.").by_default("60"),
    row::time("max_ttl", 1, 366 * kDay_s, "The longest that they stay on other nodes.").by_default("1h"),
};
constexpr Section kShare = {"`share`", kShareKeys};

constexpr Key kFleetKeys[] = {
    row::sequence("etcd", kEndpoint, "The members of the cluster that holds the fleet's policy.").required(),
    row::text("name", "Of the fleet: nodes of one name have one policy.").called("name").matching(kName).required(),
    row::text("node", "Of this machine, which no other node may have. Left out: its host name.")
        .called("name")
        .matching(kName),
    row::text("group", "Nodes of a group take a revision together.").called("name").matching(kName).by_default("rest"),
    row::map("tls", kTls, "How etcd is spoken to by https. Relative paths begin at the folder of this file."),
    row::text("user", "Of etcd, where it asks for a password.").called("name"),
    row::text("password_file", "The file that holds the password in its first line.").called("file"),
    row::map("share", kShare, "What this node finds that others are to know."),
};
constexpr Section kFleet = {"`fleet`", kFleetKeys};

constexpr Key kGuardKeys[] = {
    row::integer("min_entries", 0, kMostEntries, "How many entries a feed must have.").by_default("1"),
    row::number("max_shrink", 0, 100, "%", "How much of its entries a feed may lose at once.").by_default("50%"),
    row::number("max_growth", 1, kMostGrowth, "x", "How many times as many entries as before a feed may have at once.")
        .by_default("10x"),
    row::choice(
        "reserved", "keep | warn | cut | refuse",
        "What becomes of entries of a drop list in address space that no stranger sends from (private, loopback, "
        "your own): they are kept, kept with a warning, taken out, or the feed is refused.")
        .by_default("warn"),
    row::integer("widest_v4", 0, 32, "The shortest IPv4 prefix that a feed may have. 0: any.").by_default("0"),
    row::integer("widest_v6", 0, 128, "The shortest IPv6 prefix that a feed may have. 0: any.").by_default("0"),
    row::choice("supplies", "cut | keep",
                "What becomes of addresses that this host needs (its own, its gateways and resolvers, the servers of "
                "feeds and of the fleet) when a prefix or a range of a drop list holds them: they are taken out, or "
                "kept; with a warning either way. An entry of this one address alone is kept.")
        .by_default("cut"),
};
constexpr Section kGuard = {"`guard`", kGuardKeys};

// The rows of one key, as a policy file has it.
Key key_of(std::span<const Field> rows) {
  static std::deque<std::vector<Key>> all_keys;
  static std::deque<Section> all_sections;
  static std::deque<Key> all_items;
  const Field& field = rows.front();
  const auto section_of = [&](std::vector<Key> keys) -> const Section& {
    all_keys.push_back(std::move(keys));
    return all_sections.emplace_back(Section{kept("`" + std::string(field.key) + "`"), all_keys.back()});
  };
  const Key key = row::text(field.key, field.help).matching(field.pattern).called("value");
  if (field.form == FieldForm::list)
    return key.or_sequence(all_items.emplace_back(row::text("", "A value or a range.").called("value")));
  if (field.form == FieldForm::number) {
    std::vector<Key> keys;
    for (const Field& inner : rows) keys.push_back(row::integer(inner.inner, 0, UINT8_MAX, inner.inner_help));
    return row::map(field.key, section_of(std::move(keys)), field.help);
  }
  if (field.form == FieldForm::bits) {
    const Key& name =
        all_items.emplace_back(row::choice("", kept(bit_names(UINT8_MAX, field.names(), " | ")), "A name."));
    return row::map(field.key,
                    section_of({row::sequence("set", name, "What must be set."),
                                row::sequence("mask", name, "What is looked at; left out: what must be set.")}),
                    field.help);
  }
  return key;
}

std::vector<Key> entry_keys() {
  std::vector<Key> keys = {row::text("entry", "An entry as a text, to give it a comment or an end.").called("entry")};
  const std::span<const Field> all = fields();
  const auto add = [&](std::string_view name) {
    const auto first = std::find_if(all.begin(), all.end(), [&](const Field& field) { return field.key == name; });
    const auto last = std::find_if(first, all.end(), [&](const Field& field) { return field.key != name; });
    keys.push_back(key_of({first, last}));
  };
  keys.push_back(
      row::text("src", "The source address: an address, a prefix or a range, without a port.").called("address"));
  add("sport");
  keys.push_back(row::text("dst", "The destination address: as `src`, and of the same family.").called("address"));
  add("dport");
  for (const Field& field : all) {
    if (std::none_of(keys.begin(), keys.end(), [&](const Key& key) { return key.name == field.key; })) add(field.key);
  }
  keys.push_back(row::text("expires",
                           "From then on the entry matches nothing: a time of RFC 3339, as in "
                           "2026-12-01T00:00:00Z.")
                     .called("time")
                     .matching("\\d{4}-\\d\\d-\\d\\d[Tt]\\d\\d:\\d\\d:\\d\\d(\\.\\d+)?([Zz]|[+-]\\d\\d:\\d\\d)"));
  keys.push_back(row::text("comment", "For people; it is not looked at."));
  return keys;
}

std::map<const feeds::Format*, Section> format_sections() {
  static std::deque<std::vector<Key>> all;
  std::map<const feeds::Format*, Section> sections;
  static const Key kAlternative = row::text("", "One of several alternatives.").called("name");
  for (const feeds::Format* format : feeds::formats()) {
    std::vector<Key>& keys = all.emplace_back();
    for (const feeds::Setting& setting : format->settings) {
      keys.push_back(row::text(setting.name, kept(std::string(setting.what) + ".")).or_sequence(kAlternative));
    }
    sections[format] = {kept("`format: " + std::string(format->name) + "`"), keys};
  }
  return sections;
}

// `format` as a map: one format with its settings.
const Section& formats_section() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> rows;
    for (const feeds::Format* format : feeds::formats()) {
      rows.push_back(row::map(format->name, format_section(*format), kept(std::string(format->what) + ".")));
    }
    return rows;
  }();
  static const Section kFormats = {"`format`", keys, true};
  return kFormats;
}

std::string_view format_names() {
  std::string names = "auto";
  for (const feeds::Format* format : feeds::formats()) names += std::string(" | ") + format->name;
  return kept(names);
}

std::vector<Key> list_keys() {
  static const Key kEntry = row::text("",
                                      "An entry that is a map has these keys; as a text it is an address, a prefix, a "
                                      "range, or an address with a port.")
                                .or_map(entry_section());
  return {
      row::text("name", "1 to 63 of A-Z a-z 0-9 . _ -; no other list may have it.")
          .called("name")
          .matching("[A-Za-z0-9._-]{1,63}")
          .required(),
      row::text("comment", "For people; it is shown with the list."),
      row::choice("action", kActions,
                  "What happens to packets that the list matches. A pass list wins over every drop list.")
          .required(),
      row::choice("mode", "enforce | monitor", "monitor: what a drop list would drop is counted and passes.")
          .by_default("enforce"),
      row::choice("match", "src | dst | either",
                  "The side of a packet that entries without named fields are compared with.")
          .by_default("src"),
      row::boolean("allow_any",
                   "true: entries may match every address, as 0.0.0.0/0 and ::/0 do, and a feed may cover half of "
                   "all addresses.")
          .by_default("false"),
      row::map("guard", kGuard,
               "What a feed must keep to. One that does not is refused, and the list keeps what it had."),
      row::integer(
          "ipv6_aggregate", 0, 128,
          "Every single IPv6 address becomes the network of this length around it. 128: it stays as it is; 0 needs "
          "`allow_any`.")
          .by_default("128"),
      row::integer("max_entries", 1, kMostAdded, "Of a dynamic list: how many entries may be added to it.")
          .by_default("1000000"),
      row::text("max_ttl",
                "Of a dynamic list: how long an added entry may stay, a time in s, m, h, d or w. Left out: as long "
                "as you like.")
          .called("time")
          .matching(kDuration),
      row::boolean("dynamic", "true: `controlctl add` and `controlctl del` may change the list while it is enforced.")
          .by_default("false"),
      row::sequence("entries", kEntry, "The list's own entries; they stand before those of its feed."),
      row::choice("format", format_names(),
                  "How the feed is written: a name from `controlctl formats`, or a map of one name to its settings.")
          .or_map(formats_section())
          .by_default("auto"),
      row::text("file",
                "The feed: a file with one entry a line or in another format, a pattern such as feeds/*.txt, or a "
                "folder. A relative path begins at the folder of this file. Files are watched, and read again when "
                "they change.")
          .called("path"),
      row::text("url", "Instead of `file`: a feed that controld fetches.").called("URL").matching(kHttp),
      row::time("every", kLeastEvery_s, kMostEvery_s,
                "With `url`: how often it is asked for, 10 % more or less, so that not all ask at once.")
          .by_default("1h"),
      row::later("scope"),
      row::later("replies"),
      row::later("limit"),
      row::later("max_age"),
      row::later("entry_counters"),
  };
}

std::vector<Key> policy_keys() {
  static const Key kTunnel =
      row::choice("", kept(bit_names(UINT8_MAX, tunnel_names(), " | ")), "The name of a kind of tunnel.");
  static const Key kPolicyKeys[] = {
      row::choice("default", kActions, "What happens to packets that no list matches.").by_default("pass"),
      row::choice("unparsed", kActions, "What happens to frames with a broken header.").by_default("pass"),
      row::sequence(
          "tunnels", kTunnel,
          "Of these tunnels the packet inside is judged, too: each layer, four at most, is a packet of its own, and "
          "the frame drops when any of them drops.")
          .by_default("[]"),
      row::sequence(
          "own", kAddress,
          "Addresses, prefixes and ranges that no list can block: they are cut out of every drop list. Entries with "
          "named fields count as they are written.")
          .by_default("[]"),
  };
  static const Section kPolicy = {"`policy`", kPolicyKeys};
  static const std::vector<Key> kListKeys = list_keys();
  static const Section kList = {"the list", kListKeys};
  static const Key kListItem = row::map("", kList, "Each list has these keys.");
  return {
      row::text("version", "Of this format.").matching("1").required(),
      row::text("state_dir",
                "The folder of snapshots, journal and history, for the daemon alone (0700). Without root it is "
                "$XDG_STATE_HOME/weir or ~/.local/state/weir.")
          .called("folder")
          .by_default("/var/lib/weir"),
      row::map("policy", kPolicy, "What holds beside the lists."),
      row::map("filter", kFilter, "The filter that most packets are judged by."),
      row::sequence(
          "targets", kTargetItem,
          "Who enforces the policy. Left out: the data plane of this machine at its default socket. []: nobody."),
      row::map("fetch", kFetch, "How feeds with an `url` are fetched."),
      row::map("capture", kCapture,
               "Samples of what is dropped, in pcapng files. Without this section there are none."),
      row::map("history", kHistory, "What is kept for `controlctl rollback`."),
      row::map("plan", kPlan, "What a change may do to the traffic that flows (`controlctl plan`)."),
      row::map("metrics", kMetrics, "Metrics for Prometheus and a page for people, by HTTP."),
      row::sequence("lists", kListItem,
                    "The lists, 256 at most. Among lists of one action the first in this file gets the credit."),
      row::map("fleet", kFleet,
               "This machine is a node of a fleet: its lists come from there, and what this file says about targets, "
               "`own`, memory, metrics, fetch, capture and history holds on this node."),
      row::later("asn"),
      row::later("country"),
      row::later("replies"),
      row::later("link"),
  };
}

}  // namespace

const Section& entry_section() {
  static const std::vector<Key> kKeys = entry_keys();
  static const Section kEntry = {"the entry", kKeys};
  return kEntry;
}

const Section& format_section(const feeds::Format& format) {
  static const std::map<const feeds::Format*, Section> kSections = format_sections();
  return kSections.at(&format);
}

const Section& target_section() {
  return kTarget;
}

const Section& policy_section() {
  static const std::vector<Key> kKeys = policy_keys();
  static const Section kSection = {"the policy", kKeys};
  return kSection;
}

}  // namespace weir::control
