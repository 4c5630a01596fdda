#include <fmt/format.h>

#include <memory>

#include "control/read/feeds/json_records.h"

// Spamhaus DROP as JSON: {"cidr": PREFIX, "sblid": ..., "rir": ...} a line, and a last one of metadata, which says how
// many there are.
namespace weir::control::feeds {
namespace spamhaus {

Outcome take_record(const JsonRecord& record, const Options& options, ListDraft& list) {
  if (const auto type = record.others.find("type"); type != record.others.end() && type->second == "metadata") {
    const auto said = record.others.find("records");
    // Every line so far is a record; this one is being read.
    if (said != record.others.end() && said->second != std::to_string(record.line - 1)) {
      list.fault = FeedFault{fmt::format("has {} records, and says on line {} that there are {}", record.line - 1,
                                         record.line, printable(said->second, 20)),
                             "get the file again: it is not whole"};
    }
    return {};
  }
  if (record.parts[0].empty() && record.others.contains("asn")) {
    return Outcome::skip("an autonomous system, not its addresses");
  }
  return take_parts(record, {record.line}, options, list);
}

std::string recognise(std::string_view beginning) {
  const std::string_view text = trim(beginning);
  const std::string_view first = text.substr(0, text.find('\n'));
  const auto has = [&](const char* key) { return first.find(key) != std::string_view::npos; };
  return first.starts_with('{') && has("\"rir\"") && (has("\"cidr\"") || has("\"asn\""))
             ? "its lines are JSON objects with the keys of Spamhaus"
             : "";
}

Read start(const Options& options) {
  JsonShape shape;
  shape.names[0] = {"cidr"};
  shape.others = {"type", "records", "asn"};
  shape.take = take_record;
  return read_json_lines(std::move(shape), options);
}

}  // namespace spamhaus

extern const Format kSpamhausFormat;
const Format kSpamhausFormat = {
    "spamhaus", "Spamhaus DROP as JSON lines", spamhaus::recognise, spamhaus::start, Parts::lines, true};

}  // namespace weir::control::feeds
