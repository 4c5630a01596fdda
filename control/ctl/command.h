#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/ctl/line/command.h"
#include "control/tell/answer/request.h"

// What the commands share: a request to controld, its answer shown.
namespace weir::control::ctl {

// One request to controld and its answer. Empty when controld cannot be reached: that was said, as JSON too if asked.
std::optional<Document> ask(const Context& context, const Request& request);

// What an answer means to a script.
int exit_code(const Document& answer);

// Prints an answer as JSON, or that it is an error. False: it is to be shown (an answer with "ok": false too: it has
// more to tell than its error).
bool is_printed(const Context& context, const Document& answer);
// "the answer of controld is not understood: member X is missing". Returns kFailed.
int not_understood(const std::string& error);
// Warns of members that this program does not know; they are left out.
void warn_of_unknown(const std::vector<std::string>& members);

template <class Answer>
int print_answer(const Context& context, const Document& document, void (*show)(const Answer& answer)) {
  if (!document.text("version")) return not_understood("member version is missing");
  if (is_printed(context, document)) return exit_code(document);
  std::vector<std::string> unknown;
  const Result<Answer> answer = read_json<Answer>(document, &unknown);
  if (!answer) return not_understood(answer.error());
  warn_of_unknown(unknown);
  show(*answer);
  return exit_code(document);
}

// A whole command: the request, its answer printed. Returns the exit code.
template <class Answer>
int request(const Context& context, const Request& request, void (*show)(const Answer& answer)) {
  const std::optional<Document> answer = ask(context, request);
  return answer ? print_answer(context, *answer, show) : kUnreachable;
}

// The same for an answer in pages: take(answer) each, without --json, until there is no next one; wanted.after says
// where. As JSON each page is a line.
template <class Answer, class Take>
int request_pages(const Context& context, Request wanted, Take take) {
  while (true) {
    const std::optional<Document> document = ask(context, wanted);
    if (!document) return kUnreachable;
    if (!document->text("version")) return not_understood("member version is missing");
    if (!is_printed(context, *document)) {
      const Result<Answer> answer = read_json<Answer>(*document);
      if (!answer) return not_understood(answer.error());
      take(*answer);
    }
    if (exit_code(*document) != kOk) return exit_code(*document);
    wanted.after = document->text("next");
    if (!wanted.after) return kOk;
  }
}

}  // namespace weir::control::ctl
