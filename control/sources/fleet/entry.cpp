#include "control/sources/fleet/entry.h"

#include "control/base/json/json.h"

namespace weir::control::fleet {

void members(Fields& f, Added& added) {
  f({"by", "", "who added it"}, added.by);
  f.unless_empty({"node", "", "that shared it"}, added.node);
  f.unless_empty({"comment", "", "of it"}, added.comment);
  f({"ttl_s", "s", "of its lease; 0: it has none"}, added.ttl_s);
  f({"at", "s", "when, Unix time"}, added.at);
}

std::string text_of(const Added& added) {
  return write_json(added).line();
}

Result<Added> read_added(std::string_view text) {
  const Result<Document> document = Document::parse(text);
  if (!document) return Error{document.error()};
  Result<Added> added = read_json<Added>(*document);
  if (added && added->comment.size() > kMostComment) added->comment.resize(kMostComment);
  return added;
}

}  // namespace weir::control::fleet
