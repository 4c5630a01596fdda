// Any bytes as a feed of any format. The first line is the format's name (`auto`, or none that is known: as `auto`) and
// its settings; the rest is the file, packed or not. No crash, what was read is sound, and where the file is cut into
// parts does not matter.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "control/policy/feeds/named_sets.h"
#include "control/policy/feeds/reading.h"

namespace {

using namespace weir::control;

void require(bool holds) {
  if (!holds) abort();
}

template <class Addr>
void require_entries(const std::vector<Entry<Addr>>& entries, const FeedReport& feed, bool allow_any) {
  for (const auto& entry : entries) {
    require(entry.first <= entry.last);
    require(entry.port == 0 || entry.first == entry.last);
    require(entry.line >= 1 && entry.line <= feed.lines + 1);
    require(entry.source == 7 && entry.directions == WEIR_AS_DESTINATION);
    require(allow_any || entry.first != 0 || entry.last != static_cast<Addr>(~Addr{0}));
  }
}

// What is told set by set is what the list gets, and no more.
void require_sets(const feeds::NamedSets& sets, const ListDraft& list) {
  uint64_t entries = 0;
  for (const feeds::NamedSet& set : sets.all()) {
    entries += set.entries.size();
    for (const feeds::SetEntry& entry : set.entries) require(!entry.text.empty() && entry.expires >= 1'000'000);
    for (const feeds::LeftOut& one : set.left_out) {
      require(one.n >= one.first.size() && !one.first.empty() && !one.why.empty());
    }
    for (const std::string& exception : set.exceptions) require(exception.size() <= 80);
  }
  require(sets.all().empty() || entries == list.entries());
}

ListDraft read(const feeds::Format* format, const feeds::Options& options, std::string_view file, size_t at_once) {
  ListDraft list;
  feeds::Reading reading(format, options);
  for (; !file.empty(); file.remove_prefix(std::min(at_once, file.size()))) {
    bool more = reading.read(file.substr(0, at_once), false, list);
    while (more) more = reading.read({}, false, list);
  }
  bool more = reading.read({}, true, list);
  while (more) more = reading.read({}, true, list);
  require(list.fault || reading.format() != nullptr);
  require(format == nullptr || reading.format() == format || list.fault);
  return list;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view head = input.substr(0, input.find('\n'));
  const std::string_view file = input.substr(std::min(head.size() + 1, input.size()));
  const std::string_view name = head.substr(0, head.find(' '));
  const feeds::Format* format = feeds::find_format(name);
  feeds::Options options = {.directions = WEIR_AS_DESTINATION, .allow_any = size % 2 == 0, .source = 7};
  options.written = 1'000'000;
  options.settings = head.substr(std::min(name.size() + 1, head.size()));

  feeds::NamedSets sets;
  options.sets = &sets;
  const ListDraft list = read(format, options, file, feeds::kMostTextBytes);
  require_sets(sets, list);
  const FeedReport& feed = list.feed;
  require(feed.entries == list.entries());
  require(feed.samples.size() == std::min<uint64_t>(feed.bad, 5) + std::min<uint64_t>(feed.skipped, 5) +
                                     std::min<uint64_t>(feed.host_bits, 5));
  for (const LineSample& bad : feed.samples) {
    require(bad.line >= 1 && bad.line <= feed.lines + 1 && bad.text.size() <= 80 && !bad.reason.empty());
  }
  require(!list.fault || (!list.fault->reason.empty() && !list.fault->hint.empty()));
  require_entries(list.v4, feed, options.allow_any);
  require_entries(list.v6, feed, options.allow_any);

  if (format == nullptr || size == 0) return 0;        // `auto` looks at the first part alone
  if (feeds::Unpacker::of(file) != nullptr) return 0;  // so is how a file is packed
  feeds::Options same = options;
  same.sets = nullptr;
  feeds::Reading whole(format, same), parts(format, same);
  ListDraft a, b;
  if (!file.empty()) whole.read(file, false, a);
  whole.read({}, true, a);
  const size_t at_once = 3 + size % 7;
  for (size_t from = 0; from < file.size(); from += at_once) parts.read(file.substr(from, at_once), false, b);
  parts.read({}, true, b);
  require(a.fault.has_value() == b.fault.has_value());
  if (a.fault) return 0;  // nothing is taken of it, and what follows the fault in a part is read or not
  require(a.v4 == b.v4 && a.v6 == b.v6 && a.feed.lines == b.feed.lines && a.feed.bad == b.feed.bad);
  require(a.feed.skipped == b.feed.skipped);
  return 0;
}
