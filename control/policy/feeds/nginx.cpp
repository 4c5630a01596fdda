#include "control/policy/feeds/take.h"

// nginx's access rules: `deny PREFIX;`. What is allowed, and other directives, are skipped.
namespace weir::control::feeds {
namespace nginx {

Outcome read_statement(std::string_view statement, uint32_t number, const Options& options, ListDraft& list) {
  const std::string_view verb = next_word(statement);
  const std::string_view what = next_word(statement);
  if (verb.empty()) return {};
  if (verb != "deny" && verb != "allow") return "not `deny PREFIX;`";
  if (!trim(statement).empty()) return "more than `deny PREFIX;`";
  if (what == "all") return Outcome::skip("all addresses: `policy.default` says that");
  if (verb == "allow" && options.action == WEIR_DROP)
    return Outcome::skip("`allow`: an exception, which a pass list says");
  if (verb == "deny" && options.action == WEIR_PASS) return Outcome::skip("`deny`, and this list lets through");
  return take(what, {number}, options, list);
}

Outcome read_line(std::string_view line, uint32_t number, const Options& options, ListDraft& list) {
  line = trim(line.substr(0, line.find('#')));
  if (!line.empty() && line.back() != ';') return "the line does not end in `;`";
  while (!line.empty()) {
    const size_t end = std::min(line.find(';'), line.size());
    add_outcome(read_statement(line.substr(0, end), number, options, list), list.feed, number, line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return {};
}

bool is_like(std::string_view line) {
  const size_t end = line.find(';');
  const std::string_view verb = next_word(line);
  return (verb == "deny" || verb == "allow") && end != std::string_view::npos;
}

std::string recognise(std::string_view beginning) {
  return recognise_lines(beginning, is_like, "is `deny PREFIX;`");
}

Read start(const Options& options, std::string_view /*beginning*/) {
  return [options](std::string_view part, ListDraft& list) {
    read_lines(part, list,
               [&](std::string_view line, uint32_t number) { return read_line(line, number, options, list); });
  };
}

}  // namespace nginx

extern const Format kNginxFormat;
const Format kNginxFormat = {"nginx", "`deny PREFIX;` a line, as nginx has it", nginx::recognise, nginx::start};

}  // namespace weir::control::feeds
