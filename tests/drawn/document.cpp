#include "tests/drawn/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "control/policy/feeds/reading.h"

namespace weir::drawn {
namespace {

std::string joined(const std::vector<Range>& ranges) {
  std::string all;
  for (const Range& range : ranges) all += (all.empty() ? "" : " ") + to_string(range);
  return all.empty() ? "nothing" : all;
}

std::string shown(std::string_view text) {
  std::string all;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    all += c == '\n' || (byte >= ' ' && byte < 127) ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return all;
}

bool holds_all(const std::vector<Range>& more, const std::vector<Range>& fewer) {
  return std::all_of(fewer.begin(), fewer.end(),
                     [&](const Range& one) { return std::find(more.begin(), more.end(), one) != more.end(); });
}

// What was read of one item: whole, or with entries missing, or with one that nobody wants.
struct OfItem {
  const Range* unwanted = nullptr;
  size_t missing = 0;
};

OfItem look_at(const Item& item, const std::vector<Range>& found) {
  OfItem best;
  bool is_first = true;
  for (const auto& accepted : item.accepted) {
    if (!holds_all(accepted, found)) continue;
    std::set<Range> wanted(accepted.begin(), accepted.end());
    const size_t missing = wanted.size() - std::set<Range>(found.begin(), found.end()).size();
    if (is_first || missing < best.missing) best.missing = missing;
    is_first = false;
  }
  if (!is_first || found.empty()) return best;
  best.unwanted = &found.front();
  for (const Range& one : found) {
    const bool is_wanted = std::any_of(item.accepted.begin(), item.accepted.end(), [&](const auto& accepted) {
      return std::find(accepted.begin(), accepted.end(), one) != accepted.end();
    });
    if (!is_wanted) best.unwanted = &one;
  }
  return best;
}

}  // namespace

std::string to_string(const Range& range) {
  const auto text = [&](Ipv6 address) {
    return range.is_v4 ? weir::to_string(static_cast<Ipv4>(address)) : weir::to_string(address);
  };
  std::string all = text(range.first);
  if (range.last != range.first) all += "-" + text(range.last);
  if (range.port != 0)
    all = range.is_v4 ? fmt::format("{}:{}", all, range.port) : fmt::format("[{}]:{}", all, range.port);
  return all;
}

uint32_t network(const Range& range) {
  constexpr uint32_t kIsV6 = uint32_t{1} << 31;
  if (range.is_v4) return static_cast<uint32_t>(range.first >> 16);
  return kIsV6 | static_cast<uint32_t>(range.first >> 96 & 0x7fff'ffff);
}

Reading read(const Document& document, size_t bytes_at_once) {
  using namespace weir::control;
  feeds::Options options;
  options.written = 1'000'000'000;
  options.settings = document.settings;
  options.directions = document.directions;
  options.action = document.action;
  feeds::Reading reader(document.format == "auto" ? nullptr : feeds::find_format(document.format), options);
  ListDraft list;
  std::string_view text = document.text;
  for (; !text.empty(); text.remove_prefix(std::min(bytes_at_once, text.size()))) {
    reader.read(text.substr(0, bytes_at_once), false, list);
  }
  reader.read({}, true, list);

  Reading reading;
  for (const auto& entry : list.v4) reading.entries.push_back({entry.first, entry.last, entry.port, true});
  for (const auto& entry : list.v6) reading.entries.push_back({entry.first, entry.last, entry.port, false});
  std::sort(reading.entries.begin(), reading.entries.end());
  reading.entries.erase(std::unique(reading.entries.begin(), reading.entries.end()), reading.entries.end());
  reading.bad = list.feed.bad;
  reading.skipped = list.feed.skipped;
  reading.is_refused = list.fault || reading.entries.empty();  // a guard refuses feeds of no entry
  reading.refusal = list.fault ? list.fault->reason : reading.entries.empty() ? "has no entries" : "";
  reading.format = list.feed.format;
  for (const LineSample& sample : list.feed.samples) {
    reading.samples.push_back(
        fmt::format("line {}: {}: {}", sample.line, LineSample::kNames[sample.kind], sample.reason));
  }
  for (const FeedNote& note : list.feed.notes) reading.notes.push_back(note.reason);
  return reading;
}

Judgement judge(const Document& document, const Reading& reading) {
  if (reading.is_refused) {
    const bool has_entries = std::any_of(document.items.begin(), document.items.end(),
                                         [](const Item& item) { return !item.accepted.empty(); });
    if (document.must_read && has_entries)
      return {Verdict::false_refusal, document.drawn_as + ": plainly good", reading.refusal};
    return {Verdict::refused, "", reading.refusal};
  }
  std::vector<std::vector<Range>> found(document.items.size());
  for (const Range& entry : reading.entries) {
    const auto owner = document.owners.find(network(entry));
    if (owner == document.owners.end()) {
      return {Verdict::silent_wrong, document.drawn_as + ": an address that is nowhere",
              fmt::format("has {}, which is not in the document", to_string(entry))};
    }
    found[owner->second].push_back(entry);
  }
  uint64_t must_count = 0, may_count = 0;
  for (const Item& item : document.items) may_count += item.count_if_read;
  const Item* missing_of = nullptr;
  const Item *counted_of = nullptr, *read_of = nullptr;
  for (size_t i = 0; i < document.items.size(); i++) {
    const Item& item = document.items[i];
    const bool is_warned = !item.accepted_warned.empty() && found[i] == item.accepted_warned;
    if (is_warned && !reading.notes.empty()) continue;
    if (item.count_if_read > 0) {
      may_count += item.may_count;
      if (found[i].empty()) continue;
      must_count += item.count_if_read;
      counted_of = read_of = &item;
    }
    const OfItem of = look_at(item, found[i]);
    if (of.unwanted != nullptr) {
      return {Verdict::silent_wrong, item.kind, fmt::format("has {}, which nobody wants", to_string(*of.unwanted))};
    }
    must_count += std::max<uint64_t>(item.must_count, of.missing > 0 ? 1 : 0);
    may_count += std::max<uint64_t>(item.must_count, item.may_count) + of.missing;
    if (of.missing > 0) missing_of = &item;
    if (item.must_count > 0) counted_of = &item;
  }
  if (document.must_refuse) return {Verdict::silent_wrong, document.drawn_as + ": broken or an error", "is read"};
  const uint64_t counted = reading.bad + reading.skipped;
  if (counted < must_count) {
    const Item* item = missing_of != nullptr ? missing_of : read_of != nullptr ? read_of : counted_of;
    return {Verdict::silent_wrong, item->kind,
            fmt::format("{} {}, and {} of {} are counted", item->kind,
                        missing_of != nullptr ? "is not read" : "is to be counted", counted, must_count)};
  }
  if (counted > may_count) {
    return {Verdict::wrong_count, document.drawn_as + ": counts too much",
            fmt::format("{} are counted, and {} have a reason", counted, may_count)};
  }
  return {};
}

std::string to_text(const Document& document) {
  std::string all = fmt::format("{} read as {}{}{}{}, {}\n", document.drawn_as, document.format,
                                document.settings.empty() ? "" : " with ", document.settings,
                                document.action == WEIR_PASS ? ", action pass" : "",
                                document.must_refuse ? "must be refused"
                                : document.must_read ? "must be read"
                                                     : "may be refused");
  all += "--- text\n" + shown(document.text) + "\n--- truth\n";
  for (const Item& item : document.items) {
    std::string accepted;
    for (const auto& one : item.accepted) accepted += (accepted.empty() ? "" : " | ") + joined(one);
    all += fmt::format("{}: {}", item.kind, accepted.empty() ? "nothing" : accepted);
    if (item.must_count > 0) all += fmt::format(", {} to be counted", item.must_count);
    if (item.may_count > item.must_count) all += fmt::format(", {} may be counted", item.may_count);
    all += "\n";
  }
  return all;
}

std::string to_text(const Reading& reading) {
  std::string all = fmt::format("--- read as {}\n", reading.format);
  if (reading.is_refused) all += "refused: " + shown(reading.refusal) + "\n";
  all += fmt::format("{}; {} bad, {} skipped\n", joined(reading.entries), reading.bad, reading.skipped);
  for (const std::string& sample : reading.samples) all += sample + "\n";
  for (const std::string& note : reading.notes) all += "warning: " + note + "\n";
  return all;
}

}  // namespace weir::drawn
