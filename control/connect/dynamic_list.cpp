#include "control/connect/dynamic_list.h"

#include <algorithm>

#include "common/clock.h"

namespace weir::control::ctl {

Result<Document> DynamicLists::call(const Request& request) const {
  Patience patience;
  patience.is_quiet = true;
  patience.most_ms = patience_ms_;
  Result<Document> document = call_controld(socket_, request, patience);
  if (document) has_answered_ = true;
  return document;
}

std::optional<std::string> DynamicLists::error_of(const Document& document) {
  return document.contains("ok") ? std::nullopt : document.text("error");
}

Result<void> DynamicLists::each_added(const std::string& list,
                                      const std::function<void(const EntryDetails&)>& f) const {
  Request wanted{"entries"};
  wanted.name = list;
  while (true) {
    const Result<EntriesAnswer> page = ask<EntriesAnswer>(wanted);
    if (!page) return Error{page.error()};
    for (const EntryDetails& entry : page->entries) {
      if (entry.added) f(entry);
    }
    if (page->next.empty()) return {};
    wanted.after = page->next;
  }
}

DynamicLists::Outcome DynamicLists::change(const std::string& list, const FollowedList::Batch& batch) const {
  Request request{batch.is_add ? "add" : "del"};
  request.name = list;
  add_rows(batch, static_cast<uint64_t>(unix_now()), 0, request);
  const Result<Document> document = call(request);
  if (!document) return {Outcome::How::away, document.error()};
  if (const std::optional<std::string> error = error_of(*document)) return {Outcome::How::refused, *error};
  Result<ChangeAnswer> answer = read_json<ChangeAnswer>(*document);
  if (!answer) return {Outcome::How::refused, "the answer of controld is not understood: " + answer.error()};
  return {Outcome::How::done, "", std::move(*answer)};
}

}  // namespace weir::control::ctl
