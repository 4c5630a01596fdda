#include "control/policy/read/policy.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "common/paths.h"
#include "common/yaml/yaml.h"
#include "control/policy/model/columns.h"
#include "control/policy/read/default_drop.h"
#include "control/policy/read/feed_file.h"
#include "control/policy/read/feed_group.h"
#include "control/policy/read/parsers.h"
#include "control/policy/read/policy_entries.h"
#include "control/policy/read/policy_file.h"
#include "control/policy/read/policy_settings.h"
#include "control/policy/read/supplies.h"
#include "control/policy/read/target_spec.h"

namespace weir::control {
namespace {

using yaml::Kind;
using yaml::MapReader;
using yaml::Node;

constexpr const char* kVersion = "1";

enum class Feeds { read, skip };

// What is known of a list before its feed is read.
struct PendingList {
  ListDraft own;                  // the entries that the policy file holds
  const Node* entries = nullptr;  // their place; null: there are none
  bool allow_any = false;
  Guard guard;
  const Node* feed = nullptr;  // the value of `file` or `url`; null: none
  FormatChoice format;
};

bool is_name(const std::string& text) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !text.empty() && text.size() < WEIR_LIST_NAME_BYTES && text.find_first_not_of(kAllowed) == std::string::npos;
}

// One method a section, in the order of the file.
class PolicyReader {
 public:
  PolicyReader(const yaml::Document& document, Diagnostics& diagnostics, uint64_t now, const FeedHistory& history)
      : document_(document), diagnostics_(diagnostics), file_{document, diagnostics, now}, history_(history) {
    policy_.path = document.path;
  }

  void read_file() {
    if (document_.root.kind == Kind::null) {
      diagnostics_.add({Severity::error, document_.where(document_.root), "the policy is empty", "",
                        "begin with a line `version: 1`"});
      return;
    }
    MapReader& root = root_.emplace(document_, &document_.root, policy_section(), diagnostics_);
    if (!read_version(root)) return;
    read_settings(root);
    read_lists(root);
    root.finish();
  }

  // The file of a node has all but the lists, which the fleet's policy has.
  void read_node_file() {
    if (document_.root.kind == Kind::null) return;
    MapReader& root = root_.emplace(document_, &document_.root, policy_section(), diagnostics_);
    if (!read_version(root)) return;
    read_settings(root);
    if (const Node* lists = root.find("lists")) {
      root.error(*lists, "a node of a fleet has no lists of its own", "put them into the fleet's policy, and push it");
    }
    (void)root.sequence("lists");
    root.finish();
  }

  // The node's file wins where it has a section; the fleet's policy keeps the others.
  void put_on_top(PolicyReader& node) {
    const auto replace = [&](const char* section, auto member) {
      if (node.has(section)) policy_.*member = std::move(node.policy_.*member);
    };
    policy_.state_dir = node.policy_.state_dir;
    if (node.has_memory_) policy_.memory_bytes = node.policy_.memory_bytes;
    replace("targets", &Policy::targets);
    replace("fetch", &Policy::fetch);
    replace("capture", &Policy::capture);
    if (node.has("capture")) {
      capture_filter_ = node.capture_filter_;
      capture_file_ = &node.file_;
    }
    replace("history", &Policy::history);
    replace("plan", &Policy::plan);
    replace("metrics", &Policy::metrics);
    policy_.fleet = node.policy_.fleet;
    // Its own addresses, beside those of the fleet.
    node_path_ = node.policy_.path;
    const auto append = [](auto& own, const auto& more) {
      own.insert(own.end(), more.begin(), more.end());
      for (size_t i = own.size() - more.size(); i < own.size(); i++) own[i].source = 1;
    };
    append(own_.v4, node.own_.v4);
    append(own_.v6, node.own_.v6);
  }

  // These sections alone; a member is left empty when it has an error.
  Places read_places() {
    Places places;
    if (document_.root.kind == Kind::null) return places;
    MapReader root(document_, &document_.root, policy_section(), diagnostics_);
    const auto keep_if_right = [&](auto& place, auto read) {
      const size_t errors = diagnostics_.errors();
      auto value = read();
      if (diagnostics_.errors() == errors) place = std::move(value);
    };
    keep_if_right(places.state_dir, [&] { return read_state_dir(root); });
    keep_if_right(places.targets, [&] { return read_targets(root); });
    keep_if_right(places.metrics, [&] { return read_metrics(root.section("metrics")); });
    keep_if_right(places.fleet, [&] { return read_fleet(root); });
    return places;
  }

  // What asks the system: feeds, names in a filter.
  void read_feeds() {
    const std::map<std::string, std::string> not_fetched = fetch_first();
    find_supplies();
    for (size_t l = 0; l < pending_.size(); l++) {
      warn_of_supplies(pending_[l], policy_.lists[l]);
      if (pending_[l].feed != nullptr) read_feed(pending_[l], policy_.lists[l], not_fetched);
    }
    check_capture_filter(*capture_file_, capture_filter_);
  }

  // feeds: skip leaves out what only lists with their feeds can tell.
  void warn_of_default_drop(const Policy& policy, Feeds feeds) const {
    if (policy.default_action != WEIR_DROP || default_ == nullptr) return;
    const auto warn = [&](const std::optional<Complaint>& complaint, const Node& place) {
      if (complaint) file_.warning(place, complaint->reason, complaint->hint);
    };
    if (own_node_ != nullptr) warn(drops_own(policy.lists, own_), *own_node_);
    if (feeds == Feeds::read) warn(ends_ipv6(policy.lists), *default_);
  }

  Policy take() {
    std::shared_ptr<const Own> own;
    if (own_.entries() != 0) own = std::make_shared<Own>(Own{make_entries(own_), policy_.path, node_path_});
    for (size_t l = 0; l < pending_.size(); l++) {
      List& list = policy_.lists[l];
      if (list.action == WEIR_DROP) list.own = own;
      if (list.content == nullptr) {  // else with its feed
        list.ipv6_widened = aggregate_ipv6(pending_[l].own, list.ipv6_aggregate);
        list.content = make_entries(std::move(pending_[l].own));
      }
      list.hold(std::move(list.content));
    }
    return std::move(policy_);
  }

 private:
  // Another version means other keys: no further error would be to the point.
  bool read_version(MapReader& root) {
    const Node* node = root.require("version");
    const auto version = root.text("version");
    if (!version) return document_.root.kind == Kind::map;
    if (*version == kVersion) return true;
    root.error(*node, "policy version " + quoted(*version) + " is not known",
               std::string("this program reads `version: ") + kVersion + "`");
    return false;
  }

  bool has(const char* section) { return root_ && root_->find(section) != nullptr; }

  // All sections but `lists`, in the order of the file.
  void read_settings(MapReader& root) {
    policy_.state_dir = read_state_dir(root);
    read_policy_section(root.section("policy"));
    read_filter_section(root.section("filter"));
    policy_.targets = read_targets(root);
    policy_.fetch = read_fetch_settings(document_.path, root.section("fetch"));
    if (root.map("capture") != nullptr) read_capture(root.section("capture"));
    policy_.history = read_history(root.section("history"));
    policy_.plan = read_plan(root.section("plan"));
    policy_.metrics = read_metrics(root.section("metrics"));
    policy_.fleet = read_fleet(root);
  }

  std::string read_state_dir(MapReader& root) const {
    std::string folder = root.text("state_dir").value_or(default_state_dir());
    if (folder.empty()) root.error(*root.find("state_dir"), "`state_dir` is empty", "name a folder");
    return folder;
  }

  std::optional<FleetSettings> read_fleet(MapReader& root) const {
    if (root.map("fleet") == nullptr) return std::nullopt;
    return read_fleet_settings(document_.path, root.section("fleet"));
  }

  void read_policy_section(MapReader section) {
    section.take("default", policy_.default_action);
    default_ = section.find("default");
    section.take("unparsed", policy_.unparsed_action);
    if (const Node* tunnels = section.sequence("tunnels")) {
      policy_.tunnels = read_names(file_, *tunnels, tunnel_names(), "a tunnel").value_or(0);
    }
    own_node_ = section.sequence("own");
    if (own_node_ != nullptr) read_own_entries(file_, *own_node_, own_);
    section.finish();
  }

  void keep(List list, PendingList pending) {
    list.policy_path = policy_.path;
    list.content = nullptr;  // until it is read
    policy_.lists.push_back(std::move(list));
    pending_.push_back(std::move(pending));
  }

  void read_filter_section(MapReader section) {
    section.take("false_positive_rate", policy_.false_positive_rate);
    section.take("memory", policy_.memory_bytes);
    has_memory_ = section.find("memory") != nullptr;
    read_layout(section);
    if (const Node* canaries = section.sequence("canaries")) read_canaries(file_, *canaries, policy_.canaries);
    section.finish();
  }

  void read_layout(MapReader& section) {
    constexpr weir_layout kChoices[] = {WEIR_LAYOUT_LINE8, WEIR_LAYOUT_PAGE2, WEIR_LAYOUT_PAGE7, WEIR_LAYOUT_RIBBON};
    const auto chosen = section.choice("layout");
    if (!chosen || *chosen == 0) return;
    policy_.layout = kChoices[*chosen - 1];
    if (policy_.layout == WEIR_LAYOUT_RIBBON && policy_.false_positive_rate < kLeastRibbonRate) {
      section.error(*section.find("layout"),
                    "`layout` is `ribbon`, which cannot keep a `false_positive_rate` of " +
                        section.find("false_positive_rate")->text + ": its lowest is 0.00391 (one in 256)",
                    "raise `false_positive_rate` to 0.004 or more, or take `layout` out");
    }
  }

  std::vector<TargetSpec> read_targets(MapReader& root) const {
    const Node* targets = root.sequence("targets");
    if (targets == nullptr) return {dataplane_target(default_dataplane_socket())};
    if (!targets->items.empty()) return control::read_targets(file_, *targets);
    root.warning(*targets, "no targets: nothing enforces this policy",
                 "`weir setup` writes one; without the key the data plane of this machine is meant");
    return {};
  }

  void read_capture(MapReader section) {
    capture_filter_ = section.find("filter");
    policy_.capture = read_capture_settings(document_.path, section);
  }

  void read_lists(MapReader& root) {
    const Node* lists = root.sequence("lists");
    if (lists == nullptr || lists->items.empty()) {
      const Node& place = lists != nullptr ? *lists : document_.root;
      if (root.find("lists") == lists && !policy_.fleet) {
        root.warning(place, "no lists: every packet meets `policy.default`", "add a list under `lists:`");
      }
      return;
    }
    for (const Node& node : lists->items) {
      if (policy_.lists.size() == WEIR_MAX_LISTS) {
        root.error(node, "more than " + std::to_string(WEIR_MAX_LISTS) + " lists",
                   "join lists that have the same action and mode");
        return;
      }
      read_list(root.item("lists", node), node);
    }
  }

  void read_list(MapReader reader, const Node& node) {
    if (node.kind != Kind::map) return;
    List list;
    read_name(reader, list);
    list.comment = reader.text("comment").value_or("");
    reader.require("action");
    reader.take("action", list.action);
    reader.take("mode", list.mode);
    if (list.mode == WEIR_MONITOR && list.action == WEIR_PASS) {
      reader.error(*reader.find("mode"), "`mode: monitor` has no meaning in a pass list",
                   "take it out: pass lists are always enforced");
    }
    constexpr uint8_t kMatch[] = {WEIR_AS_SOURCE, WEIR_AS_DESTINATION, kBothDirections};
    list.match = kMatch[reader.choice("match").value_or(0)];
    PendingList pending;
    pending.own.match = list.match;
    pending.allow_any = reader.boolean("allow_any").value_or(false);
    pending.guard = read_guard(reader.section("guard"));
    list.ipv6_aggregate = read_ipv6_aggregate(reader, pending.allow_any);
    list.dynamic = read_dynamic(reader, pending.allow_any);
    const Node* entries = reader.sequence("entries");
    if (entries != nullptr) read_entries(file_, *entries, pending.allow_any, pending.own);
    pending.entries = entries;
    read_file_and_format(reader, list, pending);
    const bool has_entries = reader.find("entries") != nullptr && (entries == nullptr || !entries->items.empty());
    const bool has_feed = reader.find("file") != nullptr || reader.find("url") != nullptr;
    if (!has_entries && !has_feed && !list.dynamic) {
      reader.warning(node, "the list is empty: it has no `entries`, no `file` and no `url`", "give it one of them");
    }
    if (const Node* guard = reader.find("guard"); guard != nullptr && !has_feed) {
      reader.warning(*guard, "`guard` has no effect in a list without a `file` or `url`", "take it out");
    }
    reader.finish();
    keep(std::move(list), std::move(pending));
  }

  void read_name(MapReader& reader, List& list) {
    const Node* place = reader.require("name");
    const auto name = reader.text("name");
    if (!name) return;
    list.name = *name;
    if (!is_name(*name)) {
      reader.error(*place, "`" + *name + "` is not a name for a list", "1 to 63 of the letters A-Z a-z 0-9 and . _ -");
    } else if (const auto [known, is_new] = line_of_name_.emplace(*name, place->line); !is_new) {
      reader.error(*place, "a list named `" + *name + "` is on line " + std::to_string(known->second) + " already",
                   "choose another name");
    }
  }

  void read_file_and_format(MapReader& reader, List& list, PendingList& pending) {
    const std::optional<FormatChoice> format = read_format(file_, reader);
    const auto file = reader.text("file");
    if (const auto fetched = read_feed_url(reader)) {
      list.file = shown_url(fetched->url);
      list.url = fetched->url;
      list.every_s = fetched->every_s;
      pending.feed = format ? reader.find("url") : nullptr;
      pending.format = format.value_or(FormatChoice{});
    }
    if (!file) return;
    const Node* place = reader.find("file");
    if (file->empty()) {
      reader.error(*place, "`file` is empty", "name a feed, as in file: feeds/drop.txt");
    } else {
      list.file = *file;
      pending.feed = format ? place : nullptr;
      pending.format = format.value_or(FormatChoice{});
    }
  }

  std::string path_of(const List& list) const {
    if (const auto other = history_.instead.find(list.name); other != history_.instead.end()) return other->second;
    if (list.url.empty()) return (std::filesystem::path(policy_.path).parent_path() / list.file).string();
    return fetched_path(history_.state_dir.empty() ? policy_.state_dir : history_.state_dir, list.name, list.url);
  }

  // There is nothing of this feed, nor of another that the list had.
  bool is_without_feed(const List& list) const {
    const auto had_feed = [&](const List& before) { return before.name == list.name && !before.feed.path.empty(); };
    return !control::identity_of(path_of(list)) &&
           (history_.book == nullptr || std::none_of(history_.book->begin(), history_.book->end(), had_feed));
  }

  // Why feeds could not be fetched that there has to be something of, by path.
  std::map<std::string, std::string> fetch_first() const {
    if (!history_.fetch_first || diagnostics_.errors() != 0) return {};
    std::vector<FetchedFeed> feeds;
    for (const List& list : policy_.lists) {
      if (list.url.empty() || !is_without_feed(list)) continue;
      feeds.push_back({list.name, list.url, list.every_s, path_of(list)});
    }
    return feeds.empty() ? std::map<std::string, std::string>() : history_.fetch_first(policy_.fetch, feeds);
  }

  // What a drop list should not block. Where nobody enforces the policy, the host loses nothing: it is only said.
  void find_supplies() {
    if (history_.host_supplies) supplies_ = history_.host_supplies();
    const bool is_enforced = history_.has_targets || !policy_.targets.empty();
    const auto set = [&](auto& some) {
      for (auto& supply : some) supply.is_cut = is_enforced;
    };
    set(supplies_.v4);
    set(supplies_.v6);
    for (const List& list : policy_.lists) {
      if (!list.url.empty()) add_server(list.url, "the server of list `" + list.name + "`", supplies_);
    }
    add_server(policy_.fetch.proxy, "the proxy of `fetch`", supplies_);
    if (policy_.fleet) {
      for (const std::string& endpoint : policy_.fleet->endpoints) add_server(endpoint, "etcd of `fleet`", supplies_);
    }
    // No list blocks the policy's own addresses.
    const auto is_own = [](const auto& entries, auto address) {
      return std::any_of(entries.begin(), entries.end(),
                         [&](const auto& entry) { return entry.first <= address && address <= entry.last; });
    };
    std::erase_if(supplies_.v4, [&](const auto& supply) { return is_own(own_.v4, supply.address); });
    std::erase_if(supplies_.v6, [&](const auto& supply) { return is_own(own_.v6, supply.address); });
    order(supplies_);
  }

  // Entries of the policy file stay as they are written.
  void warn_of_supplies(const PendingList& pending, const List& list) const {
    if (list.action != WEIR_DROP || pending.entries == nullptr) return;
    const SupplyHit hit = control::find_supplies(supplies_, pending.own);
    if (hit.count == 0) return;
    const auto node = std::find_if(pending.entries->items.begin(), pending.entries->items.end(),
                                   [&](const Node& item) { return item.line == hit.line; });
    const std::string more = hit.count == 1 ? "" : " (entries like it: " + std::to_string(hit.count) + ")";
    file_.warning(node == pending.entries->items.end() ? *pending.entries : *node,
                  "list `" + list.name + "` blocks what this host or weir needs: " + hit.text + more,
                  "take the address out of the entry, or put it into `policy: {own: [...]}`");
  }

  void read_feed(PendingList& pending, List& list, const std::map<std::string, std::string>& not_fetched) {
    if (!list.url.empty() && !history_.fetch_first && is_without_feed(list)) {
      file_.warning(*pending.feed, list.file + " was not fetched yet: its list is judged without it",
                    "controld fetches it when it takes this policy");
      return;
    }
    FeedRequest request = {
        path_of(list),
        pending.format.format,
        pending.format.settings,
        {pending.format.text(), list.action, list.match, list.ipv6_aggregate, pending.allow_any, pending.guard, {}, {}},
        nullptr,
        policy_.memory_bytes,
    };
    if (!list.url.empty()) {
      const auto why = not_fetched.find(request.path);
      const bool is_known = why != not_fetched.end() && !why->second.empty();
      request.missing = {list.file + " was not fetched yet" + (is_known ? ": " + why->second : ""),
                         "look at the address; `controlctl feeds` says when it is asked for again"};
    }
    static const ListDraft kNobody;
    const bool asks_own = list.action == WEIR_DROP && pending.guard.reserved != Reserved::keep;
    const ListDraft& own = asks_own ? own_ : kNobody;
    if (own.entries() != 0) request.options.own = make_entries(own)->digest;
    if (list.action == WEIR_DROP) {
      request.supplies = &supplies_;
      request.options.supplies = digest_of(supplies_);
    }
    const uint64_t widened = aggregate_ipv6(pending.own, list.ipv6_aggregate);
    const bool is_group = list.url.empty() && stands_for_several(request.path);
    const FeedOutcome outcome = (is_group ? control::read_feed_group : control::read_feed)(
        request, std::move(pending.own), widened, own, history_, list);
    if (outcome.error) {
      file_.error(*pending.feed, outcome.error->reason, outcome.error->hint);
    } else {
      warn_of_refusals(*pending.feed, list);
      warn_of_notes(*pending.feed, list);
    }
    for (const Complaint& complaint : outcome.warnings) file_.warning(*pending.feed, complaint.reason, complaint.hint);
  }

  // They stand, whether the feed was read now or is as it was. A refused file is not the content that they are about.
  void warn_of_notes(const Node& place, const List& list) const {
    for (const FeedFile& feed : list.feeds()) {
      if (feed.refusal) continue;
      for (const FeedNote& note : feed.feed.notes) file_.warning(place, feed.feed.path + " " + note.reason, note.hint);
    }
  }

  void warn_of_refusals(const Node& place, const List& list) const {
    std::string last;  // of several files the reason is the same when none of them can be found
    for (const FeedFile& feed : list.feeds()) {
      if (!feed.refusal || feed.refusal->reason == last) continue;
      last = feed.refusal->reason;
      const bool has_content = feed.state.taken_at != 0;
      file_.warning(
          place,
          "list `" + list.name + "` " +
              (has_content ? "keeps its last good content (entries: " + std::to_string(feed.feed.entries) + ")"
                           : "has nothing of one of its files") +
              ": " + last,
          feed.refusal->hint);
    }
  }

  const yaml::Document& document_;
  Diagnostics& diagnostics_;
  const PolicyFile file_;
  const FeedHistory& history_;
  Policy policy_;
  std::vector<PendingList> pending_;  // of each list
  ListDraft own_;                     // `policy.own`, of the node's file as well
  std::string node_path_;
  const Node* own_node_ = nullptr;  // null: it is left out
  Supplies supplies_;
  const Node* default_ = nullptr;  // the value of `policy.default`; null: it is left out
  const Node* capture_filter_ = nullptr;
  const PolicyFile* capture_file_ = &file_;  // that it is written in
  std::map<std::string, uint32_t> line_of_name_;
  std::optional<MapReader> root_;  // empty: the file is empty
  bool has_memory_ = false;        // the file names `filter.memory`
};

std::optional<Policy> check(const std::optional<yaml::Document>& document, Feeds feeds, size_t errors_before,
                            Diagnostics& diagnostics, uint64_t now, const FeedHistory& history) {
  if (!document) return std::nullopt;
  PolicyReader reader(*document, diagnostics, now, history);
  reader.read_file();
  std::optional<yaml::Document> node_document;
  std::optional<PolicyReader> node;
  if (!history.node_file.empty()) {
    node_document = yaml::read_document(history.node_file, diagnostics, yaml_parser(history.parsers));
    if (!node_document) return std::nullopt;
    node.emplace(*node_document, diagnostics, now, history);
    node->read_node_file();
    reader.put_on_top(*node);
  }
  if (feeds == Feeds::read) reader.read_feeds();
  if (diagnostics.errors() != errors_before) return std::nullopt;
  Policy policy = reader.take();
  reader.warn_of_default_drop(policy, feeds);
  policy.text = std::make_shared<const std::string>(document->text);
  return policy;
}

}  // namespace

std::vector<FetchedFeed> fetched_feeds(const Policy& policy) {
  std::vector<FetchedFeed> feeds;
  for (const List& list : policy.lists) {
    if (list.url.empty()) continue;
    const std::string& path = list.refusal ? list.refusal->path : list.feed.path;
    feeds.push_back({list.name, list.url, list.every_s, path});
  }
  return feeds;
}

std::optional<Policy> read_policy(const std::string& path, Diagnostics& diagnostics, uint64_t now,
                                  const FeedHistory& history) {
  const size_t errors_before = diagnostics.errors();
  return check(yaml::read_document(path, diagnostics, yaml_parser(history.parsers)), Feeds::read, errors_before,
               diagnostics, now, history);
}

std::optional<Policy> read_policy_text(const std::string& path, std::string text, Diagnostics& diagnostics,
                                       uint64_t now, const FeedHistory& history) {
  const size_t errors_before = diagnostics.errors();
  return check(yaml::parse_document(path, std::move(text), diagnostics, yaml_parser(history.parsers)), Feeds::read,
               errors_before, diagnostics, now, history);
}

Places read_places(const std::string& path, const confine::Helpers* parsers) {
  Diagnostics ignored;
  const std::optional<yaml::Document> document = yaml::read_document(path, ignored, yaml_parser(parsers));
  if (!document || !ignored.ok()) return {};
  return PolicyReader(*document, ignored, 0, FeedHistory()).read_places();
}

std::optional<Policy> parse_policy(const std::string& path, std::string text, Diagnostics& diagnostics, uint64_t now,
                                   const yaml::Parse& parse) {
  const size_t errors_before = diagnostics.errors();
  return check(yaml::parse_document(path, std::move(text), diagnostics, parse), Feeds::skip, errors_before, diagnostics,
               now, FeedHistory());
}

}  // namespace weir::control
