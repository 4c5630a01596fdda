#include "control/policy/read/fetch_settings.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>

namespace weir::control {
namespace {

using yaml::MapReader;
using yaml::Node;

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

}  // namespace weir::control
