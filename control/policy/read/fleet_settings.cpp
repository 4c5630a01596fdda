#include "control/policy/read/fleet_settings.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace weir::control {
namespace {

using yaml::MapReader;
using yaml::Node;

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

}  // namespace weir::control
