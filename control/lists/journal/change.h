#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/lists/journal/journal.h"
#include "control/policy/model/edit.h"

// What `controlctl add`, `del` and `flush` ask for.
namespace weir::control {

struct Change {
  enum class Verb : uint8_t { add, del, flush };
  static constexpr size_t kMostEntries = 100'000;  // at once
  static constexpr size_t kMostComment = 500;      // bytes
  static constexpr uint32_t kMostTtl_s = 10u * 366 * 86400;

  Verb verb = Verb::add;
  std::string list;  // empty: the one dynamic list with this action
  weir_action action = WEIR_DROP;
  std::vector<std::string> entries;   // as read_entry_line() takes them; flush: none
  std::optional<uint32_t> ttl_s;      // add; empty: the list's max_ttl
  std::string comment;                // add
  std::vector<uint64_t> ttls;         // add; of each entry, 0: ttl_s; empty: all are 0
  std::vector<std::string> comments;  // add; of each entry, empty: comment; none: all are empty
  uint32_t uid = 0;                   // who asks
  int32_t pid = 0;
};

struct ChangeCounts {
  uint64_t added = 0, renewed = 0, deleted = 0;
  uint64_t missing = 0;                         // were to be deleted, and were not there
  std::string still_held;                       // one that was to be deleted, and the list and entry that hold it
  std::vector<std::string> still_passes = {};   // first kMostTexts that were added, and what lets them through
  uint64_t widened = 0;                         // of those that were added or renewed, by ipv6_aggregate
  std::vector<std::string> widened_texts = {};  // of the first kMostTexts
};
constexpr size_t kMostTexts = 5;

// The list of the book that the change is for. Error: there is none, several might be meant, or it is not dynamic.
Result<const List*> list_of(const Change& change, const Book& book);

// Does it in the journal, whose transaction has begun, and adds to the edit what becomes of the list's content. Error:
// which entry is wrong, why, and the way out; the journal and the edit hold a part of it then.
Result<ChangeCounts> apply(const Change& change, const List& list, uint64_t now, Journal& journal, EntriesEdit& edit);

// Looks in other lists of the book, and among own addresses: for added entries that pass all the same, and for deleted
// ones that another list with the same action holds. It looks at the first 100 entries of the change, as written.
void look_elsewhere(const Change& change, const List& list, const Book& book, uint64_t now, ChangeCounts& counts);

// The journal's entries of the list, those that ended left out.
Result<ListDraft> journal_of(const List& list, uint64_t now, Journal& journal);

// Takes out of the journal what ended some time ago. Adds to each list's edit what goes from its content; what belongs
// to no list of the book is gone as well.
Result<void> sweep(const Book& book, uint64_t now, Journal& journal, std::vector<EntriesEdit>& edits);

// An entry of the journal as the content of its list is to hold it: appended to the draft. False: no such entry.
bool append_added(const List& list, const std::string& text, uint32_t expires, ListDraft& draft);

// Returns the entry that the list enforces for an added one, given as the journal has it. Empty: the same, or no entry.
std::string enforced_as(const List& list, const std::string& text);

// What the journal calls the entries that it put into the list: text and expiry. Of addresses that the list widens, and
// of entries from older journals, it may call them otherwise.
std::vector<JournalEntry> texts_of_added(const List& list);

// The entries that the lists have of a journal that was lost, for one that begins anew; without who and why.
Result<void> restore(const Book& book, uint64_t now, Journal& journal);

}  // namespace weir::control
