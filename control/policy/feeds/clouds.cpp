#include <span>

#include "control/policy/feeds/json_text.h"
#include "control/policy/feeds/statements.h"

// Networks of clouds, as these publish them. A cloud is a row: which paths of its document hold networks.
namespace weir::control::feeds {
namespace clouds {

using Texts = std::span<const std::string_view>;

struct Cloud {
  Texts keys;         // that its documents have: all of them
  Texts any_key;      // and one of these
  Texts paths;        // of networks; empty: all texts in arrays
  Texts no_networks;  // first keys of paths whose texts are none
};

constexpr std::string_view kAwsKeys[] = {"prefixes", "syncToken"}, kAwsAny[] = {"ip_prefix", "ipv6_prefix"},
                           kAwsPaths[] = {"prefixes.ip_prefix", "prefixes.ipv6_prefix", "ipv6_prefixes.ipv6_prefix"};
constexpr std::string_view kGcpKeys[] = {"prefixes", "creationTime"}, kGcpAny[] = {"ipv4Prefix", "ipv6Prefix"},
                           kGcpPaths[] = {"prefixes.ipv4Prefix", "prefixes.ipv6Prefix"};
constexpr std::string_view kAzureKeys[] = {"values", "properties"}, kAzureAny[] = {"addressPrefixes"},
                           kAzurePaths[] = {"values.properties.addressPrefixes"};
constexpr std::string_view kCloudflareKeys[] = {"result"}, kCloudflareAny[] = {"ipv4_cidrs", "ipv6_cidrs"},
                           kCloudflarePaths[] = {"result.ipv4_cidrs", "result.ipv6_cidrs", "result.jdcloud_cidrs"};
constexpr std::string_view kFastlyKeys[] = {"addresses", "ipv6_addresses"},
                           kFastlyPaths[] = {"addresses", "ipv6_addresses"};
constexpr std::string_view kGithubKeys[] = {"hooks", "web", "git"},
                           kGithubOthers[] = {"domains", "ssh_keys", "ssh_key_fingerprints"};
constexpr std::string_view kOracleKeys[] = {"regions", "cidrs"}, kOracleAny[] = {"cidr"},
                           kOraclePaths[] = {"regions.cidrs.cidr"};

constexpr Cloud kAws = {kAwsKeys, kAwsAny, kAwsPaths, {}};
constexpr Cloud kGcp = {kGcpKeys, kGcpAny, kGcpPaths, {}};
constexpr Cloud kAzure = {kAzureKeys, kAzureAny, kAzurePaths, {}};
constexpr Cloud kCloudflare = {kCloudflareKeys, kCloudflareAny, kCloudflarePaths, {}};
constexpr Cloud kFastly = {kFastlyKeys, {}, kFastlyPaths, {}};
constexpr Cloud kGithub = {kGithubKeys, {}, {}, kGithubOthers};
constexpr Cloud kOracle = {kOracleKeys, kOracleAny, kOraclePaths, {}};

bool is_one_of(std::string_view text, Texts texts) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

struct Handler {
  const Cloud& cloud;
  JsonReading reading;
  const JsonText<Handler>* text = nullptr;

  void begin(ListDraft& list, const JsonText<Handler>& where) {
    reading.list = &list;
    text = &where;
  }
  void finish() {}

  void open(bool is_array) { reading.place.enter(is_array); }
  void close() { reading.place.leave(); }
  void key(std::string_view name) { reading.place.name(name); }

  void scalar(std::string_view value, bool is_string) {
    value = trim(value);
    const std::string path = reading.place.path();
    if (path == "success" && value == "false" && !is_string) {
      reading.list->fault = FeedFault{"is an error answer: it says `success: false`", "ask again later"};
    }
    if (!is_string && value == "null") return;
    const Outcome outcome = outcome_of(path, value, is_string);
    reading.tell(outcome, text->line(), value);
  }

  Outcome outcome_of(std::string_view path, std::string_view value, bool is_string) const {
    const bool is_none = is_one_of(path.substr(0, path.find('.')), cloud.no_networks);
    const bool is_network =
        cloud.paths.empty() ? reading.place.is_in_array() && !path.empty() && !is_none : is_one_of(path, cloud.paths);
    if (is_network) return is_string ? take(value, {text->line()}, reading.options, *reading.list) : "no text";
    if (is_none && reading.place.is_in_array()) return Outcome::skip("a name or a key, not a network");
    return is_string && is_entry(value) ? Outcome::skip("an address where this format has no networks") : Outcome();
  }
};

bool is_like(const Cloud& cloud, std::string_view beginning) {
  const auto has = [&](std::string_view key) { return has_key(beginning, key); };
  return trim(beginning).starts_with('{') && std::all_of(cloud.keys.begin(), cloud.keys.end(), has) &&
         (cloud.any_key.empty() || std::any_of(cloud.any_key.begin(), cloud.any_key.end(), has));
}

template <const Cloud& kCloud>
std::string recognise(std::string_view beginning) {
  return is_like(kCloud, beginning) ? "it begins with the keys of this cloud's networks" : "";
}

template <const Cloud& kCloud>
Read start(const Options& options, std::string_view /*beginning*/) {
  return read_document(Handler{kCloud, JsonReading{options}});
}

template <const Cloud& kCloud>
constexpr Format row(const char* name, const char* what) {
  return {name, what, recognise<kCloud>, start<kCloud>, Parts::bytes, true};
}

}  // namespace clouds

#define WEIR_CLOUD(name, text, what)   \
  extern const Format k##name##Format; \
  const Format k##name##Format = clouds::row<clouds::k##name>(text, what);
WEIR_CLOUD(Aws, "aws", "networks of Amazon Web Services: ip-ranges.json")
WEIR_CLOUD(Gcp, "gcp", "networks of Google: cloud.json, goog.json, those of its crawlers")
WEIR_CLOUD(Azure, "azure", "networks of Microsoft Azure: ServiceTags_Public.json")
WEIR_CLOUD(Cloudflare, "cloudflare", "networks of Cloudflare: what its API answers to `ips`")
WEIR_CLOUD(Fastly, "fastly", "networks of Fastly: its public-ip-list")
WEIR_CLOUD(Github, "github", "networks of GitHub: what its API answers to `meta`")
WEIR_CLOUD(Oracle, "oracle", "networks of Oracle's cloud: public_ip_ranges.json")
#undef WEIR_CLOUD

}  // namespace weir::control::feeds
