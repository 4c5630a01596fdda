#include <fmt/format.h>

#include <memory>
#include <utility>

#include "control/policy/feeds/json_records.h"

// Spamhaus DROP as JSON: {"cidr": PREFIX, "sblid": ..., "rir": ...} a line, and a last one of metadata, which says how
// many there are.
namespace weir::control::feeds {
namespace spamhaus {

// Since the last line of metadata: lists may follow each other.
struct Count {
  uint64_t records = 0;
};

void check_count(const JsonRecord& metadata, uint64_t records, ListDraft& list) {
  const auto said = metadata.others.find("records");
  if (said == metadata.others.end() || said->second == std::to_string(records)) return;
  list.fault = FeedFault{fmt::format("has {} records, and says on line {} that there are {}", records, metadata.line,
                                     shortened(said->second, 20)),
                         "get the file again: it is not whole", true};
}

Outcome take_record(const JsonRecord& record, const Options& options, Count& count, ListDraft& list) {
  if (const auto type = record.others.find("type"); type != record.others.end() && type->second == "metadata") {
    check_count(record, std::exchange(count.records, 0), list);
    return {};
  }
  count.records++;
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

Read start(const Options& options, std::string_view /*beginning*/) {
  JsonShape shape;
  shape.names[0] = {"cidr"};
  shape.others = {"type", "records", "asn"};
  const auto count = std::make_shared<Count>();
  shape.take = [count](const JsonRecord& record, const Options& how, ListDraft& list) {
    return take_record(record, how, *count, list);
  };
  return [count, read = read_json_lines(std::move(shape), options)](std::string_view part, ListDraft& list) {
    read(part, list);
    if (part.empty() && count->records > 0 && !list.fault) {
      list.fault = FeedFault{"has no last line that says how many records there are",
                             "get the file again: it is cut off; a file that never has that line is "
                             "`format: {jsonl: {address: cidr}}`",
                             true};
    }
  };
}

}  // namespace spamhaus

extern const Format kSpamhausFormat;
const Format kSpamhausFormat = {
    "spamhaus", "Spamhaus DROP as JSON lines", spamhaus::recognise, spamhaus::start, Parts::lines, true};

}  // namespace weir::control::feeds
