#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "common/result.h"
#include "control/ctl/client.h"
#include "control/sources/followed/followed_list.h"
#include "control/tell/answer/change.h"
#include "control/tell/answer/list.h"

// Programs that follow a source read and change dynamic lists of controld here.
namespace weir::control::ctl {

class DynamicLists {
 public:
  // patience_ms: for one answer.
  DynamicLists(std::string socket, int patience_ms) : socket_(std::move(socket)), patience_ms_(patience_ms) {}

  // Error: that of the answer, or that nobody answers. It may have lines with hints.
  template <class Answer>
  Result<Answer> ask(const Request& request) const {
    const Result<Document> document = call(request);
    if (!document) return Error{document.error()};
    if (const std::optional<std::string> error = error_of(*document)) return Error{*error};
    Result<Answer> answer = read_json<Answer>(*document);
    return answer ? std::move(answer) : Error{"the answer of controld is not understood: " + answer.error()};
  }
  bool has_answered() const { return has_answered_; }

  // Reads the list page by page, and calls f with each entry that was added to it.
  Result<void> each_added(const std::string& list, const std::function<void(const EntryDetails&)>& f) const;

  struct Outcome {
    enum class How : uint8_t { done, refused, away } how = How::done;
    std::string why = {};
    ChangeAnswer answer = {};  // when it is done. Not `ok`: not every target has the change yet
  };
  Outcome change(const std::string& list, const FollowedList::Batch& batch) const;

 private:
  Result<Document> call(const Request& request) const;
  // Nothing was done. An answer with "ok" has more to tell than its error.
  static std::optional<std::string> error_of(const Document& document);

  const std::string socket_;
  const int patience_ms_;
  mutable bool has_answered_ = false;
};

}  // namespace weir::control::ctl
