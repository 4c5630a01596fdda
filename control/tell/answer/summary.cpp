#include "control/tell/answer/summary.h"

#include <cstring>

namespace weir::control {

std::vector<ListSummary> summarise(const Book& book) {
  std::vector<ListSummary> lists;
  for (const List& list : book) {
    lists.push_back({list.name, list.comment, list.action, list.mode, list.match, list.file, list.v4().size(),
                     list.v6().size(), list.flows().size(), list.entries(), list.ipv6_aggregate, list.ipv6_widened,
                     list.feed, list.feeds(), list.dynamic});
  }
  return lists;
}

std::vector<ListSummary> summarise(const filter::SnapshotView& snapshot) {
  std::vector<ListSummary> lists;
  for (const weir_list& list : snapshot.lists()) {
    ListSummary& summary = lists.emplace_back();
    summary.name.assign(list.name, strnlen(list.name, sizeof list.name));
    summary.action = static_cast<weir_action>(list.action);
    summary.mode = static_cast<weir_mode>(list.mode);
    summary.entries = list.n_entries;
  }
  return lists;
}

std::vector<RefusedFeed> refused_feeds(const std::vector<ListSummary>& lists) {
  std::vector<RefusedFeed> refused;
  for (const ListSummary& list : lists) {
    for (const FeedFile& feed : list.feeds) {
      if (!feed.refusal) continue;
      const FeedRefusal& why = *feed.refusal;
      refused.push_back({list.name, why.path, why.reason, why.hint, why.since});
    }
  }
  return refused;
}

std::vector<WarnedFeed> warned_feeds(const std::vector<ListSummary>& lists) {
  std::vector<WarnedFeed> warned;
  for (const ListSummary& list : lists) {
    for (const FeedFile& feed : list.feeds) {
      for (const FeedNote& note : feed.feed.notes)
        warned.push_back({list.name, feed.feed.path, note.reason, note.hint});
    }
  }
  return warned;
}

}  // namespace weir::control
