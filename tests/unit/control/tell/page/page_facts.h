#pragma once

#include <string>

#include "control/tell/page/facts.h"

// Facts for pages: a well one, of two targets and a feed.
namespace weir::control::page {

constexpr int64_t kNow = 1'795'550'400;  // 2026-11-24T20:00:00Z

inline ListDetails list_called(std::string name, const char* action = "drop", const char* mode = "enforce") {
  ListDetails list;
  list.name = std::move(name);
  list.action = action;
  list.mode = mode;
  list.entries = list.v4 = 100;
  return list;
}

inline TargetStatus target_called(std::string socket, uint64_t generation) {
  TargetStatus target;
  target.socket = std::move(socket);
  target.connected = target.acknowledged = true;
  target.generation = {7, generation};
  target.workers = target.ports = 2;
  target.isa = "avx2";
  target.start_time = kNow - 7200;
  target.snapshot_bytes = 3 << 20;
  target.snapshot_limit_bytes = 512 << 20;
  return target;
}

inline TargetStats stats_called(std::string socket, uint32_t taken_us, uint64_t packets) {
  TargetStats stats;
  stats.socket = std::move(socket);
  stats.connected = stats.fresh = true;
  stats.start_time = kNow - 7200;
  stats.taken_us = taken_us;
  stats.totals.packets = packets;
  stats.totals.dropped = packets / 10;
  stats.totals.passed = packets - packets / 10;
  stats.totals.bytes = packets * 100;
  return stats;
}

inline wire::ListStats counters(uint64_t matched, uint64_t dropped) {
  wire::ListStats stats = {};
  stats.matched = matched;
  stats.dropped = dropped;
  return stats;
}

inline FeedDetails feed_of(std::string list) {
  FeedDetails feed;
  feed.list = std::move(list);
  feed.file = "/etc/weir/feeds/scanners.txt";
  feed.state = "good";
  feed.entries = feed.lines = 100;
  feed.taken_at = kNow - 600;
  return feed;
}

inline Facts well() {
  Facts facts;
  facts.host = "rack7";
  facts.now = kNow;
  facts.status.config = "/etc/weir/weir.yaml";
  facts.status.generation = {7, 12};
  facts.status.published_at = kNow - 3600;
  facts.status.entries = 200;
  facts.status.targets = {target_called("/run/weir/dataplane.sock", 12), target_called("xdp:eth0", 12)};
  facts.status.targets[1].interfaces = {{"eth0", 2, true, "native", ""}};
  facts.status.limits = {{"lists", {2, 256}}, {"snapshot_bytes", {3 << 20, 512 << 20}}};
  facts.lists.lists = {list_called("partners", "pass"), list_called("scanners")};
  facts.feeds.feeds = {feed_of("scanners")};
  facts.stats.lists = {{"partners", {}}, {"scanners", {}}};
  facts.stats.totals.packets = 12'345'678;
  facts.stats.lists[1].second.matched = facts.stats.lists[1].second.dropped = 2'000'000;
  facts.history.generations = {
      {{12, kNow - 3600, "asked for", 1000, 12, {{"scanners", "changed", 100, 5, 3}}}, true},
      {{11, kNow - 9000, "feed of scanners changed", kNobody, 11, {{"scanners", "new", 98, 98, 0}}}, true}};
  return facts;
}

}  // namespace weir::control::page
