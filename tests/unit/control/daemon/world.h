#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "control/daemon/running.h"

namespace weir::control {

// The policy file, the feeds, the journal and the published generations of a schedule, without a disk.
class World {
 public:
  static constexpr const char* kFeeds[] = {"feeds/a.txt", "feeds/b.txt"};
  static constexpr const char* kList = "scanners";  // its file is the first feed

  // Versions of the policy file and the feeds, and the numbers of added changes.
  struct Content {
    uint64_t policy = 1;
    std::map<std::string, uint64_t> feeds = {{kFeeds[0], 1}, {kFeeds[1], 1}};
    std::set<uint64_t> added;
  };

  static std::shared_ptr<const std::string> text_of(uint64_t policy) {
    return std::make_shared<const std::string>(std::to_string(policy));
  }

  bool has_policy() const { return running != nullptr && running->policy != nullptr; }
  const Content& content() const { return generations.at(running->publication->generation.number); }

  // Feeds that differ from those that the running policy was made of.
  std::set<std::string> changed_feeds() const {
    std::set<std::string> changed;
    if (!has_policy()) return changed;
    for (const auto& [path, version] : content().feeds) {
      if (version < disk.feeds.at(path)) changed.insert(path);
    }
    return changed;
  }

  std::shared_ptr<const Base> make_base() {
    auto publication = std::make_shared<Publication>();
    publication->generation = {1, ++numbers};
    auto base = std::make_shared<Base>();
    base->publication = publication;
    return base;
  }

  // base: of changes; 0: of a reload, which is a base itself. on: an overlay's base; null: the generation is whole.
  void publish(const Content& next, const std::string& path, uint64_t base, std::shared_ptr<const Base> on) {
    const std::shared_ptr<const Base> whole = make_base();
    const uint64_t number = whole->publication->generation.number;
    generations[number] = next;
    auto published = std::make_shared<Running>();
    published->publication = whole->publication;
    published->stands_on = on != nullptr ? std::move(on) : whole;
    published->base = base == 0 ? number : base;
    static const auto policy = std::make_shared<const Policy>();
    published->policy = policy;
    published->policy_text = text_of(next.policy);
    published->policy_path = path;
    ListDetails list;
    list.name = kList;
    list.feed.emplace();
    published->lists.push_back(list);
    running = published;
  }

  void publish_last_good() {
    publish(disk, "", 0, nullptr);
    auto last_good = std::make_shared<Running>(*running);
    last_good->from_last_good = true;
    last_good->policy = nullptr;
    last_good->policy_text = nullptr;
    running = last_good;
  }

  // Takes changes back that came after one generation, up to another one.
  void take_back(uint64_t after, uint64_t up_to) {
    const auto was = generations.find(after), newest = generations.find(up_to);
    if (was == generations.end() || newest == generations.end()) return;
    for (const uint64_t change : newest->second.added) {
      if (was->second.added.contains(change)) continue;
      journal.erase(change);
      taken_back.insert(change);
    }
  }

  Content disk;  // the policy file and the feeds
  std::set<uint64_t> journal, taken_back;
  std::map<uint64_t, Content> generations;
  std::shared_ptr<const Running> running;
  uint64_t numbers = 0;
};

}  // namespace weir::control
