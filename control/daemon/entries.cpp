#include "control/daemon/entries.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/clock.h"
#include "control/daemon/daemon.h"
#include "control/tell/answer/list.h"

namespace weir::control {

namespace {

// A page that somebody asked for.
struct Page {
  wire::Generation generation;
  const List* list;
  EntriesPlace place;
};

Result<Page> page_of(Daemon& daemon, const Request& request) {
  std::optional<EntriesPlace> place = EntriesPlace();
  if (request.after) place = EntriesPlace::parse(*request.after);
  if (!place) return Error{fmt::format("`after` is `{}`: it must be `next` of another page", *request.after)};
  const PagedBooks::Kept* kept = daemon.pages_of(place->generation);
  if (kept == nullptr) {
    return Error{
        fmt::format("generation {} is not kept any more for who reads it page by page: begin anew", place->generation)};
  }
  const std::string name = request.name.value_or("");
  const auto list =
      std::find_if(kept->book->begin(), kept->book->end(), [&](const List& one) { return one.name == name; });
  if (list == kept->book->end()) return Error{fmt::format("no list is called '{}'", name)};
  place->generation = kept->generation.number;
  return Page{kept->generation, &*list, *place};
}

EntryDetails details_of(const List& list, const JournalEntry& entry) {
  EntryDetails details;
  details.entry = entry.text;
  const bool names_its_sides = entry.text.find(' ') != std::string::npos;
  details.match = names_its_sides ? uint8_t{0} : list.match;
  details.file = list.file_of(kJournalSource);
  if (entry.expires != kNever) details.expires = entry.expires;
  details.added = {entry.added_at, entry.uid, entry.comment};
  details.enforced_as = enforced_as(list, entry.text);
  return details;
}

}  // namespace

void answer_entries(Daemon& daemon, const Request& request, const Caller&, ApiServer::Reply reply) {
  Result<Page> page = page_of(daemon, request);
  if (!page) return reply(failure_line(page.error()));
  EntriesPlace& place = page->place;
  EntriesAnswer answer = {page->generation, page->list->name, written_entries(*page->list, place), ""};
  const bool is_full = place.part != EntriesPlace::Part::added;
  if (is_full || !answer.entries.empty()) {
    answer.next = place.print();  // what was added has pages of its own
    return reply(answer_line(answer));
  }
  // The list by value: the book may go meanwhile.
  auto take = [answer, place, list = *page->list, reply](const Result<std::vector<JournalEntry>>& added) mutable {
    if (!added) return reply(failure_line(added.error()));
    const auto now = unix_now();
    for (const JournalEntry& entry : *added) {
      place.text = entry.text;
      if (entry.expires == kNever || now < entry.expires) answer.entries.push_back(details_of(list, entry));
    }
    if (added->size() == kEntriesOfPage) answer.next = place.print();
    reply(answer_line(answer));
  };
  if (!page->list->dynamic) return take(Result<std::vector<JournalEntry>>(std::vector<JournalEntry>()));
  daemon.read_added(page->list->name, place.text, kEntriesOfPage, take);
}

void answer_export(Daemon& daemon, const Request& request, const Caller&, ApiServer::Reply reply) {
  Result<Page> page = page_of(daemon, request);
  if (!page) return reply(failure_line(page.error()));
  ExportAnswer answer = {page->generation, page->list->name, live_entries(*page->list, unix_now(), page->place), ""};
  if (page->place.part != EntriesPlace::Part::end) answer.next = page->place.print();
  reply(answer_line(answer));
}

}  // namespace weir::control
