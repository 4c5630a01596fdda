#include "control/policy/read/policy_settings.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <string>

#include "control/policy/feeds/apart.h"
#include "control/policy/model/time_text.h"
#include "control/policy/read/frame_filter.h"
#include "control/policy/read/policy_file.h"

namespace weir::control {

namespace {

using yaml::MapReader;
using yaml::Node;

// Seconds; empty: the key is not there, or no time.
std::optional<uint32_t> read_duration(MapReader& reader, const char* key, const char* examples) {
  const auto text = reader.text(key);
  if (!text) return std::nullopt;
  const auto seconds = parse_duration(*text);
  if (!seconds) {
    reader.error(*reader.find(key), quoted(key) + " is " + quoted(*text) + ": it must be a time like " + examples,
                 "s, m, h, d and w are seconds, minutes, hours, days and weeks; at least 1s");
  }
  return seconds;
}

}  // namespace

Guard read_guard(MapReader reader) {
  Guard guard;
  reader.take("min_entries", guard.min_entries);
  if (const auto percent = reader.number("max_shrink")) guard.max_shrink = *percent / 100;
  reader.take("max_growth", guard.max_growth);
  reader.take("reserved", guard.reserved);
  reader.take("widest_v4", guard.widest_v4);
  reader.take("widest_v6", guard.widest_v6);
  reader.take("supplies", guard.supplies);
  reader.finish();
  return guard;
}

std::optional<Dynamic> read_dynamic(MapReader& list, bool allow_any) {
  Dynamic dynamic;
  dynamic.allow_any = allow_any;
  list.take("max_entries", dynamic.max_entries);
  dynamic.max_ttl_s = read_duration(list, "max_ttl", "10m, 24h or 7d").value_or(0);
  if (list.boolean("dynamic").value_or(false)) return dynamic;
  for (const char* key : {"max_entries", "max_ttl"}) {
    const Node* bound = list.find(key);
    if (bound == nullptr) continue;
    list.error(*bound, quoted(key) + " bounds what `controlctl add` may do, and this list is not dynamic",
               "write `dynamic: true` in the list, or take it out");
  }
  return std::nullopt;
}

uint8_t read_ipv6_aggregate(MapReader& list, bool allow_any) {
  const auto bits = static_cast<uint8_t>(list.integer("ipv6_aggregate").value_or(128));
  if (bits == 0 && !allow_any) {
    list.error(*list.find("ipv6_aggregate"), "`ipv6_aggregate: 0` makes every IPv6 host all addresses",
               "write `allow_any: true` in the list if that is what you want");
  }
  return bits;
}

HistorySettings read_history(MapReader reader) {
  HistorySettings history;
  reader.take("size", history.size_bytes);
  history.keep_s = read_duration(reader, "keep", "12h, 7d or 4w").value_or(history.keep_s);
  reader.finish();
  return history;
}

PlanSettings read_plan(MapReader reader) {
  PlanSettings plan;
  if (const auto percent = reader.number("max_newly_dropped")) plan.max_newly_dropped = *percent / 100;
  if (const auto percent = reader.number("max_newly_passed")) plan.max_newly_passed = *percent / 100;
  reader.take("samples", plan.samples);
  reader.take("recent", plan.recent_s);
  const bool has_limit = plan.max_newly_dropped || plan.max_newly_passed;
  if (has_limit && plan.samples == 0) {
    reader.warning(*reader.find("samples"), "`plan.samples` is 0: no traffic is known that a limit could be held to",
                   "take `samples` out, or the limits");
  }
  reader.finish();
  return plan;
}

MetricsSettings read_metrics(MapReader reader) {
  MetricsSettings metrics;
  if (const auto listen = reader.text("listen")) {
    const Result<MetricsSettings> read = parse_metrics_settings(*listen);
    if (read) {
      metrics = *read;
    } else {
      reader.error(*reader.find("listen"), "`listen` is no address to serve metrics at: `" + *listen + "`",
                   read.error());
    }
  }
  reader.finish();
  return metrics;
}

using yaml::Kind;

namespace {

std::optional<FormatChoice> choice_named(const PolicyFile& file, const Node& place, const std::string& name) {
  FormatChoice choice;
  if (name == "auto") return choice;
  choice.format = feeds::find_format(name);
  if (choice.format != nullptr) return choice;
  std::string known = "auto";
  for (const feeds::Format* format : feeds::formats()) known += std::string(", ") + format->name;
  file.error(place, "`format` is " + quoted(name) + ", which is not known", "formats: " + known);
  return std::nullopt;
}

// One value, or several as alternatives.
std::optional<std::string> value_of(const PolicyFile& file, const Node& node) {
  std::string text;
  if (node.kind == Kind::scalar) text = node.text;
  for (const Node& item : node.items) text += (text.empty() ? "" : "|") + item.text;
  const bool is_good = !text.empty() && text.find_first_of(",=()") == std::string::npos &&
                       std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (is_good) return text;
  file.error(node, "a setting of the format is " + control::quoted(text), "a name or a number, without , = ( and )");
  return std::nullopt;
}

void read_settings(const PolicyFile& file, const Node& node, FormatChoice& choice) {
  const std::string what = std::string("`format: ") + choice.format->name + "`";
  yaml::MapReader settings(file.document, &node, format_section(*choice.format), file.diagnostics);
  for (const feeds::Setting& setting : choice.format->settings) {
    const Node* value = settings.find(setting.name);
    if (value == nullptr) continue;
    const auto text = value_of(file, *value);
    if (text) choice.settings += (choice.settings.empty() ? "" : ",") + std::string(setting.name) + "=" + *text;
  }
  settings.finish();
  if (choice.settings.size() > feeds::ParseRequest::kMostSettings) {
    file.error(node,
               "the settings of " + what + " are longer than " + std::to_string(feeds::ParseRequest::kMostSettings) +
                   " characters",
               "shorten them");
  }
}

}  // namespace

std::string FormatChoice::text() const {
  if (format == nullptr) return "auto";
  return settings.empty() ? format->name : std::string(format->name) + "(" + settings + ")";
}

std::optional<FormatChoice> read_format(const PolicyFile& file, yaml::MapReader& list) {
  const Node* node = list.find("format");
  if (node == nullptr) return FormatChoice{};
  if (node->kind != Kind::map) {
    const auto name = list.text("format");
    return name ? choice_named(file, *node, *name) : std::nullopt;
  }
  if (node->members.size() != 1) {
    file.error(*node, "`format` names one format with its settings", "as in format: {csv: {address: 2, port: 3}}");
    return std::nullopt;
  }
  const yaml::Member& member = node->members.front();
  auto choice = choice_named(file, member.key, member.key.text);
  if (!choice || member.value.kind == Kind::null) return choice;
  const size_t errors = file.diagnostics.errors();
  if (choice->format == nullptr) {
    file.error(member.value, "`format: auto` has no settings", "name the format that has them");
  } else {
    read_settings(file, member.value, *choice);
  }
  return file.diagnostics.errors() == errors ? choice : std::nullopt;
}

namespace {

constexpr size_t kMostUrlBytes = 2048, kMostAgentBytes = 256;

// A scheme, a host, and no byte that a request could not hold as it is.
bool is_url(const std::string& text, std::initializer_list<const char*> schemes) {
  const auto scheme =
      std::find_if(schemes.begin(), schemes.end(), [&](const char* known) { return text.starts_with(known); });
  if (scheme == schemes.end() || text.size() > kMostUrlBytes) return false;
  const std::string shown = shown_url(text);
  const char first = shown.substr(std::string_view(*scheme).size(), 1).c_str()[0];
  const bool has_host = first != '\0' && first != '/' && first != '?' && first != '#' && first != ':';
  return has_host && std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

FetchSettings read_fetch_settings(const std::string& policy_path, MapReader reader) {
  FetchSettings settings;
  if (const auto proxy = reader.text("proxy"); proxy && !proxy->empty()) {
    settings.proxy = *proxy;
    if (!is_url(*proxy, {"http://", "https://", "socks5://", "socks5h://"})) {
      reader.error(*reader.find("proxy"), "`proxy` is no URL of a proxy: `" + shown_url(*proxy) + "`",
                   "write http://HOST:PORT; https, socks5 and socks5h are known, too");
    }
  }
  reader.take("timeout", settings.timeout_s);
  reader.take("max_size", settings.max_bytes);
  if (const auto file = reader.text("ca_file")) {
    if (file->empty()) reader.error(*reader.find("ca_file"), "`ca_file` is empty", "name a file, or take the key out");
    settings.ca_file = (std::filesystem::path(policy_path).parent_path() / *file).string();
  }
  if (const auto agent = reader.text("user_agent")) {
    settings.user_agent = *agent;
    const bool is_line = std::all_of(agent->begin(), agent->end(), [](char c) { return c >= ' ' && c <= '~'; });
    if (agent->empty() || agent->size() > kMostAgentBytes || !is_line) {
      reader.error(*reader.find("user_agent"), "`user_agent` is no header: 1 to 256 characters of ASCII",
                   "take it out to send `" + FetchSettings().user_agent + "`");
    }
  }
  reader.take("concurrent", settings.concurrent);
  reader.take("private", settings.may_be_private);
  reader.finish();
  return settings;
}

std::optional<FeedUrl> read_feed_url(MapReader& list) {
  const auto url = list.text("url");
  const auto every = list.seconds("every");
  if (!url) {
    if (const Node* node = list.find("every"); node != nullptr && list.find("url") == nullptr) {
      list.warning(*node, "`every` has no effect in a list without a `url`",
                   "take it out: the files of feeds are watched, and read when they change");
    }
    return std::nullopt;
  }
  const Node* place = list.find("url");
  if (!is_url(*url, {"http://", "https://"})) {
    list.error(*place, "`url` is no URL that can be fetched: `" + shown_url(*url) + "`",
               "write https://HOST/PATH, in ASCII, with %XX for other characters; at most 2048 of them");
    return std::nullopt;
  }
  if (list.find("file") != nullptr) {
    list.error(*place, "a list has one feed: `file` or `url`", "make a list of each; they may have the same action");
    return std::nullopt;
  }
  return FeedUrl{*url, every.value_or(FetchedFeed().every_s)};
}

namespace {

constexpr size_t kMostNameBytes = 63;

bool is_fleet_name(const std::string& text) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !text.empty() && text.size() <= kMostNameBytes && text.find_first_not_of(kAllowed) == std::string::npos;
}

void take_name(MapReader& reader, const char* key, std::string& into) {
  const auto name = reader.text(key);
  if (!name) return;
  into = *name;
  if (is_fleet_name(*name)) return;
  reader.error(*reader.find(key), std::string("`") + key + "` is `" + *name + "`, which is no name",
               "write 1 to 63 of the letters A-Z a-z 0-9 and . _ -");
}

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return "";
  return name;
}

// http(s)://HOST:PORT, without a path.
bool is_endpoint(const std::string& text) {
  const size_t begin = text.starts_with("http://") ? 7 : text.starts_with("https://") ? 8 : 0;
  if (begin == 0 || begin == text.size() || text.size() > 256) return false;
  return std::all_of(text.begin() + static_cast<std::ptrdiff_t>(begin), text.end(), [](unsigned char c) {
    return isalnum(c) != 0 || c == '.' || c == '-' || c == ':' || c == '[' || c == ']';
  });
}

void take_file(const std::string& policy_path, MapReader& reader, const char* key, std::string& into) {
  const auto file = reader.text(key);
  if (!file) return;
  if (file->empty()) {
    reader.error(*reader.find(key), std::string("`") + key + "` is empty", "name a file, or take the key out");
  }
  into = (std::filesystem::path(policy_path).parent_path() / *file).string();
}

void read_endpoints(MapReader& reader, FleetSettings& settings) {
  reader.require("etcd");
  const Node* endpoints = reader.sequence("etcd");
  if (endpoints == nullptr) return;
  if (endpoints->items.empty()) reader.error(*endpoints, "`etcd` names no endpoint", "write [https://HOST:2379, ...]");
  for (const Node& item : endpoints->items) {
    std::string text = item.text;
    while (text.ends_with('/')) text.pop_back();
    if (item.kind != yaml::Kind::scalar || !is_endpoint(text)) {
      reader.error(item, "`" + item.text + "` is no endpoint of etcd", "write http://HOST:PORT or https://HOST:PORT");
    }
    settings.endpoints.push_back(std::move(text));
  }
}

void read_share(MapReader reader, FleetSettings& settings) {
  if (const Node* lists = reader.sequence("lists")) {
    for (const Node& item : lists->items) {
      if (item.kind == yaml::Kind::scalar && is_fleet_name(item.text)) {
        settings.shared_lists.push_back(item.text);
      } else {
        reader.error(item, "`" + item.text + "` is no name of a list", "name dynamic lists of the fleet's policy");
      }
    }
  }
  reader.take("per_minute", settings.shared_per_minute);
  if (const auto ttl = reader.seconds("max_ttl")) settings.shared_ttl_s = *ttl;
  reader.finish();
}

}  // namespace

FleetSettings read_fleet_settings(const std::string& policy_path, MapReader reader) {
  FleetSettings settings;
  read_endpoints(reader, settings);
  reader.require("name");
  take_name(reader, "name", settings.name);
  settings.node = host_name();
  take_name(reader, "node", settings.node);
  take_name(reader, "group", settings.group);
  MapReader tls = reader.section("tls");
  take_file(policy_path, tls, "ca_file", settings.ca_file);
  take_file(policy_path, tls, "cert_file", settings.cert_file);
  take_file(policy_path, tls, "key_file", settings.key_file);
  tls.finish();
  reader.take("user", settings.user);
  take_file(policy_path, reader, "password_file", settings.password_file);
  if (settings.user.empty() != settings.password_file.empty()) {
    const Node* there = reader.find(settings.user.empty() ? "password_file" : "user");
    if (there != nullptr) reader.error(*there, "`user` and `password_file` belong together", "write both, or none");
  }
  read_share(reader.section("share"), settings);
  reader.finish();
  return settings;
}

CaptureSettings read_capture_settings(const std::string& policy_path, MapReader reader) {
  CaptureSettings settings;
  if (const auto folder = reader.text("folder")) {
    if (folder->empty()) {
      reader.error(*reader.find("folder"), "`folder` is empty", "name a folder, or take the key out");
    }
    settings.folder = (std::filesystem::path(policy_path).parent_path() / *folder).string();
  }
  reader.take("one_in", settings.one_in);
  reader.take("per_list_per_second", settings.per_list_per_second);
  reader.take("snap_bytes", settings.snap_bytes);
  reader.take("filter", settings.filter);
  reader.take("file_size", settings.file_bytes);
  reader.take("file_age", settings.file_age_s);
  reader.take("files", settings.files);
  reader.finish();
  return settings;
}

void check_capture_filter(const PolicyFile& file, const yaml::Node* filter) {
  if (filter == nullptr) return;
  const Result<FrameFilter> compiled = FrameFilter::compile(filter->text);
  if (compiled) return;
  file.error(*filter, "`filter` is `" + filter->text + "`: " + compiled.error(),
             "pcap-filter(7) tells what can be written, as in tcp port 443");
}

}  // namespace weir::control
