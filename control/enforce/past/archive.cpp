#include "control/enforce/past/archive.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/clock.h"
#include "common/printable.h"
#include "control/enforce/past/feed_line.h"
#include "control/policy/feeds/take.h"
#include "control/policy/model/edit.h"
#include "control/policy/read/parsers.h"
#include "control/policy/read/policy.h"

namespace weir::control {
namespace {

constexpr size_t kMostPolicyLine = 400;  // characters of a line of a policy that are shown

const List* list_named(const Book& book, const std::string& name) {
  const auto found = std::find_if(book.begin(), book.end(), [&](const List& list) { return list.name == name; });
  return found == book.end() ? nullptr : &*found;
}

bool is_of_file(const Origin& origin) {
  return origin.source != kJournalSource;
}

// The same entry, wherever it is written.
template <class Entry>
bool is_it(const Origin& origin, Entry entry) {
  const auto* value = std::get_if<Entry>(&origin.value);
  if (value == nullptr) return false;
  entry.line = value->line;
  entry.source = value->source;
  return entry == *value;
}

// entries: of a list, or what was added to one.
template <class Entries>
bool has_entry(const Origin& origin, const Entries& entries) {
  const auto is_same = [&](const auto& entry) {
    return is_of_file(origin) == (entry.source != kJournalSource) && is_it(origin, entry);
  };
  return std::any_of(entries.v4.begin(), entries.v4.end(), is_same) ||
         std::any_of(entries.v6.begin(), entries.v6.end(), is_same) ||
         std::any_of(entries.flows.begin(), entries.flows.end(), is_same);
}

// Line number `wanted`, from 1.
std::string line_of(const std::string& text, uint32_t wanted) {
  size_t begin = 0;
  for (uint32_t line = 1; line < wanted; line++) {
    begin = text.find('\n', begin);
    if (begin == std::string::npos) return "";
    begin++;
  }
  const std::string_view line = std::string_view(text).substr(begin, text.find('\n', begin) - begin);
  return shortened(feeds::trim(line), kMostPolicyLine);
}

std::string time_of(int64_t at) {
  return time_text(static_cast<uint32_t>(std::clamp<int64_t>(at, 0, kNever)));
}

}  // namespace

Result<Archive::Kept*> Archive::open(wire::Generation generation, Check check) {
  if (epoch_ != generation.epoch) kept_.clear();
  epoch_ = generation.epoch;
  const auto known = kept_.find(generation.number);
  if (known != kept_.end() && (known->second->is_checked || check == Check::ends)) return known->second.get();
  Result<HistoryFiles::Kept> files = files_.open(generation, check == Check::all);
  if (!files) return Error{files.error()};
  Result<StoredBook> book = StoredBook::open(files->book.bytes());
  if (!book) return Error{book.error()};
  auto kept = std::make_unique<Kept>(
      Kept{std::move(files->policy_text), std::move(files->book), std::move(*book), check == Check::all, {}});
  return (kept_[generation.number] = std::move(kept)).get();
}

std::vector<uint64_t> Archive::kept_bases(uint64_t epoch, Journal& journal) const {
  Result<std::vector<uint64_t>> bases = journal.generations().bases(epoch);
  if (!bases) return {};
  std::erase_if(*bases, [&](uint64_t number) { return !files_.has(number); });
  return std::move(*bases);
}

Result<Archive::Kept::Rules> Archive::rules_of(Kept& kept) {
  if (kept.rules) return *kept.rules;
  Diagnostics diagnostics;
  const std::optional<Policy> policy =
      parse_policy(config_, kept.policy_text, diagnostics, unix_now(), yaml_parser(parsers_));
  if (!policy) return Error{"the policy of that time is not understood any more: " + format(diagnostics)};
  return *(kept.rules = {policy->default_action, policy->unparsed_action, policy->tunnels});
}

Moment Archive::moment_of(uint64_t number, uint64_t epoch, Journal& journal) {
  const auto record = journal.generations().find({epoch, number});
  if (!record || !*record) return {number, 0, "", std::nullopt};
  const std::optional<uint32_t> by = (*record)->uid == kNobody ? std::nullopt : std::optional((*record)->uid);
  return {number, (*record)->at, (*record)->cause, by};
}

Error Archive::nothing_kept(const When& when, uint64_t epoch, Journal& journal) {
  std::string reach = "nothing was kept yet";
  if (const std::vector<uint64_t> bases = kept_bases(epoch, journal); !bases.empty()) {
    const Moment oldest = moment_of(bases.front(), epoch, journal);
    reach = fmt::format("what is kept begins with generation {}, of {}", oldest.generation, time_of(oldest.at));
  }
  const std::string what = when.generation ? fmt::format("generation {}", *when.generation) : time_of(*when.at);
  return Error{
      fmt::format("nothing is kept of {}: {}\nhint: `history` of the policy says how much is kept, and "
                  "`controlctl history` lists it",
                  what, reach)};
}

Result<Then> Archive::find(const When& when, const Addresses& addresses, const Book& runs, uint64_t epoch,
                           Journal& journal, const GivenUp& is_given_up) {
  Generations& generations = journal.generations();
  Result<std::optional<GenerationRecord>> record =
      when.generation ? generations.find({epoch, *when.generation}) : generations.newest_by(epoch, *when.at);
  if (!record) return Error{record.error()};
  if (!*record || !files_.has((*record)->base)) return nothing_kept(when, epoch, journal);
  Then then;
  then.record = std::move(**record);
  then.at = when.at.value_or(then.record.at);
  const wire::Generation generation = {epoch, then.record.number};
  Result<Kept*> kept = open({epoch, then.record.base}, Check::all);
  if (!kept) return Error{kept.error()};
  const Result<Kept::Rules> rules = rules_of(**kept);
  if (!rules) return Error{rules.error()};
  then.default_action = rules->default_action;
  then.unparsed_action = rules->unparsed_action;
  then.tunnels = rules->tunnels;
  then.book = (*kept)->book.holding(addresses);
  Result<std::vector<Added>> added =
      added_then(generation, then.record.base, then.book, runs, addresses, journal, is_given_up);
  if (!added) return Error{added.error()};
  then.added = std::move(*added);
  for (List& list : then.book) {
    ListDraft content;
    for (const Added& one : then.added) {
      if (one.list != list.name) continue;
      content.v4.insert(content.v4.end(), one.content.v4.begin(), one.content.v4.end());
      content.v6.insert(content.v6.end(), one.content.v6.begin(), one.content.v6.end());
      content.flows.insert(content.flows.end(), one.content.flows.begin(), one.content.flows.end());
    }
    list.hold(with_journal(list.as_written(), std::move(content)));
  }
  return then;
}

void Archive::trace(const std::vector<Origin*>& origins, const Book& book, const std::vector<Added>& added,
                    wire::Generation generation, uint64_t base, const Addresses& addresses, Journal& journal,
                    const GivenUp& is_given_up) {
  if (!is_given_up) return trace(origins, book, added, generation, base, addresses, journal, [] { return false; });
  std::vector<Origin*> of_files;
  for (Origin* origin : origins) {
    if (is_given_up()) return;
    Provenance& from = origin->provenance.emplace();
    if (is_of_file(*origin)) {
      of_files.push_back(origin);
      continue;
    }
    const auto one = std::find_if(added.begin(), added.end(), [&](const Added& added_one) {
      return added_one.list == origin->list && has_entry(*origin, added_one.content);
    });
    if (one == added.end()) {  // the journal calls it otherwise
      from.or_before = true;
      continue;
    }
    from.added_by = one->entry.uid;
    from.added_at = one->entry.added_at;
    origin->comment = one->entry.comment;
    from.since = one->since != 0 ? moment_of(one->since, generation.epoch, journal)
                                 : Moment{0, one->entry.added_at, "add", one->entry.uid};
    if (one->until != 0) from.until = moment_of(one->until, generation.epoch, journal);
    const int64_t ends = one->entry.expires;
    if (one->entry.expires != kNever && (from.until ? from.until->at >= ends : ends <= unix_now())) {
      from.until = Moment{0, ends, "expired", std::nullopt};
    }
  }
  if (base == 0 || of_files.empty()) return;
  trace_files(of_files, generation, base, addresses, journal, is_given_up);
  read_lines(of_files, book, {generation.epoch, base}, is_given_up);
}

// From the base backwards, and onwards, as long as the entries are in every generation that is kept.
void Archive::trace_files(const std::vector<Origin*>& origins, wire::Generation generation, uint64_t base,
                          const Addresses& addresses, Journal& journal, const GivenUp& is_given_up) {
  std::vector<uint64_t> bases = kept_bases(generation.epoch, journal);
  // One that cannot be read says nothing.
  std::erase_if(bases, [&](uint64_t number) {
    return is_given_up() || !open({generation.epoch, number}, Check::ends);
  });
  if (is_given_up()) return;
  std::erase_if(kept_, [&](const auto& one) { return !std::binary_search(bases.begin(), bases.end(), one.first); });
  // Whether the generation has each of these.
  const auto have = [&](uint64_t number, const std::vector<Origin*>& wanted) {
    std::vector<bool> found(wanted.size(), false);
    const Result<Kept*> kept = open({generation.epoch, number}, Check::ends);
    if (!kept) return found;
    const std::span<const List> lists = (*kept)->book.lists();
    for (size_t l = 0; l < lists.size(); l++) {
      std::shared_ptr<const Entries> entries;
      for (size_t i = 0; i < wanted.size(); i++) {
        if (wanted[i]->list != lists[l].name) continue;
        if (entries == nullptr) entries = (*kept)->book.holding(l, addresses);
        found[i] = has_entry(*wanted[i], *entries);
      }
    }
    return found;
  };
  const auto here = std::lower_bound(bases.begin(), bases.end(), base);
  for (Origin* origin : origins) origin->provenance->since = moment_of(base, generation.epoch, journal);
  std::vector<Origin*> open_ones = origins;
  for (auto one = here; !open_ones.empty(); --one) {
    if (one == bases.begin()) {
      for (Origin* origin : open_ones) origin->provenance->or_before = true;
      break;
    }
    if (is_given_up()) return;
    const uint64_t number = *std::prev(one);
    const std::vector<bool> found = have(number, open_ones);
    std::vector<Origin*> still;
    for (size_t i = 0; i < open_ones.size(); i++) {
      if (!found[i]) continue;
      open_ones[i]->provenance->since = moment_of(number, generation.epoch, journal);
      still.push_back(open_ones[i]);
    }
    open_ones = std::move(still);
  }
  open_ones = origins;
  for (auto one = here; one != bases.end() && !open_ones.empty(); ++one) {
    if (*one == base) continue;
    if (is_given_up()) return;
    const std::vector<bool> found = have(*one, open_ones);
    std::vector<Origin*> still;
    for (size_t i = 0; i < open_ones.size(); i++) {
      if (found[i]) {
        still.push_back(open_ones[i]);
      } else {
        open_ones[i]->provenance->until = moment_of(*one, generation.epoch, journal);
      }
    }
    open_ones = std::move(still);
  }
}

// The lines as they are written, and the feeds that they are in.
void Archive::read_lines(const std::vector<Origin*>& origins, const Book& book, wire::Generation base,
                         const GivenUp& is_given_up) {
  if (is_given_up()) return;
  const Result<Kept*> kept = open(base, Check::all);
  std::map<std::pair<std::string, uint8_t>, std::vector<Origin*>> by_feed;
  for (Origin* origin : origins) {
    if (origin->source != 0) {
      by_feed[{origin->list, origin->source}].push_back(origin);
    } else if (kept) {
      origin->provenance->text = line_of((*kept)->policy_text, origin->line);
    }
  }
  for (auto& [place, of_feed] : by_feed) {
    if (is_given_up()) return;
    const List* list = list_named(book, place.first);
    if (list == nullptr) continue;
    const std::vector<FeedFile> feeds = list->feeds();
    if (place.second > feeds.size()) continue;
    const FeedFile& feed = feeds[place.second - 1u];
    const FeedContent content = {list->files.empty() ? list->file : feed.feed.path,
                                 feed.state.file.modified_ns / 1'000'000'000, feed.state.taken_at,
                                 fmt::format("{:016x}{:016x}", feed.state.digest[1], feed.state.digest[0])};
    std::set<uint32_t> lines;
    for (Origin* origin : of_feed) {
      origin->provenance->feed = content;
      lines.insert(origin->line);
    }
    const std::string at = files_.feed_path(base.number, feed.state.digest);
    const auto found = lines_.read(at.empty() ? feed.feed.path : at, feed.state.digest, feed.feed.format, lines);
    for (Origin* origin : of_feed) {
      const auto line = found.find(origin->line);
      if (line == found.end()) continue;
      origin->provenance->text = line->second.text;
      origin->provenance->columns = line->second.columns;
      origin->comment = line->second.comment;
    }
  }
}

}  // namespace weir::control
