#include "control/sources/etcd/messages.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <charconv>

#include "common/peer_number.h"
#include "control/base/json/json.h"

namespace weir::control::etcd {

std::string to_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // EVP_EncodeBlock ends it with a NUL
  const int n = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(n));
  return text;
}

Result<std::string> from_base64(std::string_view text) {
  if (text.empty()) return std::string();
  const Error wrong{"etcd says something that is not base64"};
  if (text.size() % 4 != 0) return wrong;
  std::string bytes(text.size() / 4 * 3, '\0');
  const int n = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (n < 0) return wrong;
  // It counts what stands for the padding, too.
  size_t padding = 0;
  while (padding < 2 && text[text.size() - 1 - padding] == '=') padding++;
  bytes.resize(static_cast<size_t>(n) - padding);
  // It takes padding and blanks in many places.
  if (to_base64(bytes) != text) return wrong;
  return bytes;
}

Result<int64_t> whole_of(std::string_view text) {
  int64_t number = 0;
  if (text.empty()) return number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Error{"etcd says `" + std::string(text.substr(0, 40)) + "` for a number"};
  }
  return number;
}

namespace {

// As in etcd's JSON: bytes in base64, numbers as text; what is 0, false or empty is left out.
struct Header {
  std::string revision;
};
void members(Fields& f, Header& header) {
  f.unless_empty({"revision", "", ""}, header.revision);
}

struct Pair {
  std::string key, value, create_revision, mod_revision, lease;
};
void members(Fields& f, Pair& pair) {
  f.unless_empty({"key", "", ""}, pair.key);
  f.unless_empty({"value", "", ""}, pair.value);
  f.unless_empty({"create_revision", "", ""}, pair.create_revision);
  f.unless_empty({"mod_revision", "", ""}, pair.mod_revision);
  f.unless_empty({"lease", "", ""}, pair.lease);
}

struct Range {
  std::string key, range_end, limit, revision;
  std::optional<bool> keys_only;
};
void members(Fields& f, Range& range) {
  f({"key", "", ""}, range.key);
  f.unless_empty({"range_end", "", ""}, range.range_end);
  f.unless_empty({"limit", "", ""}, range.limit);
  f.unless_empty({"revision", "", ""}, range.revision);
  f.maybe({"keys_only", "", ""}, range.keys_only);
}

struct RangeResult {
  std::optional<Header> header;
  std::optional<std::vector<Pair>> kvs;
  std::optional<bool> more;
};
void members(Fields& f, RangeResult& range) {
  f.maybe_object({"header", "", ""}, range.header, "header");
  f.maybe_array({"kvs", "", ""}, range.kvs, "pair");
  f.maybe({"more", "", ""}, range.more);
}

struct Put {
  std::string key, value, lease;
};
void members(Fields& f, Put& put) {
  f({"key", "", ""}, put.key);
  f({"value", "", ""}, put.value);
  f.unless_empty({"lease", "", ""}, put.lease);
}

struct Operation {
  std::optional<Put> put;
  std::optional<Range> erase, range;
};
void members(Fields& f, Operation& operation) {
  f.maybe_object({"request_put", "", ""}, operation.put, "put");
  f.maybe_object({"request_delete_range", "", ""}, operation.erase, "range");
  f.maybe_object({"request_range", "", ""}, operation.range, "range");
}

struct Compare {
  std::string key, mod_revision;
  std::string target = "MOD", result = "EQUAL";
};
void members(Fields& f, Compare& compare) {
  f({"key", "", ""}, compare.key);
  f({"target", "", ""}, compare.target);
  f({"result", "", ""}, compare.result);
  f({"mod_revision", "", ""}, compare.mod_revision);
}

struct Txn {
  std::vector<Compare> compare;
  std::vector<Operation> success, failure;
};
void members(Fields& f, Txn& txn) {
  f.array({"compare", "", ""}, txn.compare, "compare");
  f.array({"success", "", ""}, txn.success, "operation");
  f.array({"failure", "", ""}, txn.failure, "operation");
}

struct OperationResult {
  std::optional<RangeResult> range;
};
void members(Fields& f, OperationResult& result) {
  f.maybe_object({"response_range", "", ""}, result.range, "range");
}

struct TxnResult {
  std::optional<Header> header;
  std::optional<bool> succeeded;
  std::optional<std::vector<OperationResult>> responses;
};
void members(Fields& f, TxnResult& result) {
  f.maybe_object({"header", "", ""}, result.header, "header");
  f.maybe({"succeeded", "", ""}, result.succeeded);
  f.maybe_array({"responses", "", ""}, result.responses, "result");
}

struct Lease {
  std::string id, ttl;
};
void members(Fields& f, Lease& lease) {
  f.unless_empty({"ID", "", ""}, lease.id);
  f.unless_empty({"TTL", "s", ""}, lease.ttl);
}

struct KeepAlive {
  std::optional<Lease> result;
};
void members(Fields& f, KeepAlive& alive) {
  f.maybe_object({"result", "", ""}, alive.result, "lease");
}

struct Login {
  std::string name, password;
};
void members(Fields& f, Login& login) {
  f({"name", "", ""}, login.name);
  f({"password", "", ""}, login.password);
}

struct Token {
  std::string token;
};
void members(Fields& f, Token& token) {
  f({"token", "", ""}, token.token);
}

struct WatchCreate {
  std::string key, range_end, start_revision;
};
void members(Fields& f, WatchCreate& create) {
  f({"key", "", ""}, create.key);
  f.unless_empty({"range_end", "", ""}, create.range_end);
  f.unless_empty({"start_revision", "", ""}, create.start_revision);
}
struct Watch {
  WatchCreate create;
};
void members(Fields& f, Watch& watch) {
  f.object({"create_request", "", ""}, watch.create, "create");
}

struct WatchEvent {
  std::string type;
  std::optional<Pair> kv;
};
void members(Fields& f, WatchEvent& event) {
  f.unless_empty({"type", "", ""}, event.type);
  f.maybe_object({"kv", "", ""}, event.kv, "pair");
}
struct WatchResult {
  std::optional<Header> header;
  std::optional<bool> canceled;
  std::string compact_revision, cancel_reason;
  std::optional<std::vector<WatchEvent>> events;
};
void members(Fields& f, WatchResult& result) {
  f.maybe_object({"header", "", ""}, result.header, "header");
  f.maybe({"canceled", "", ""}, result.canceled);
  f.unless_empty({"compact_revision", "", ""}, result.compact_revision);
  f.unless_empty({"cancel_reason", "", ""}, result.cancel_reason);
  f.maybe_array({"events", "", ""}, result.events, "event");
}
struct WatchFault {
  std::string message;
  int64_t code = 0;
};
void members(Fields& f, WatchFault& fault) {
  f.unless_empty({"message", "", ""}, fault.message);
  std::optional<int64_t> code = fault.code;
  f.maybe({"grpc_code", "", ""}, code);
  if (f.reading() && code) fault.code = *code;
}
struct WatchLine {
  std::optional<WatchResult> result;
  std::optional<WatchFault> error;
};
void members(Fields& f, WatchLine& line) {
  f.maybe_object({"result", "", ""}, line.result, "result");
  f.maybe_object({"error", "", ""}, line.error, "error");
}

struct Status {
  std::optional<Header> header;
  std::string version, database, leader;
  std::vector<std::string> errors;
};
void members(Fields& f, Status& status) {
  f.maybe_object({"header", "", ""}, status.header, "header");
  f.unless_empty({"version", "", ""}, status.version);
  f.unless_empty({"dbSize", "bytes", ""}, status.database);
  f.unless_empty({"leader", "", ""}, status.leader);
  f.unless_empty({"errors", "", ""}, status.errors);
}

struct Fault {
  std::string error;
  int64_t code = 0;
};
void members(Fields& f, Fault& fault) {
  f.unless_empty({"error", "", ""}, fault.error);
  std::optional<int64_t> code = fault.code;
  f.maybe({"code", "", ""}, code);
  if (f.reading() && code) fault.code = *code;
}

template <class T>
Result<T> parse(std::string_view text) {
  const Result<Document> document = Document::parse(text);
  if (!document) return Error{"etcd's answer is not understood: " + document.error()};
  Result<T> read = read_json<T>(*document);
  if (!read) return Error{"etcd's answer is not understood: " + read.error()};
  return read;
}

std::string digits(int64_t number) {
  return number == 0 ? std::string() : std::to_string(number);
}

Result<int64_t> revision_of(const std::optional<Header>& header) {
  Result<int64_t> revision = whole_of(header ? header->revision : std::string());
  if (revision && (*revision < 0 || static_cast<uint64_t>(*revision) > kMostNumber)) {
    return Error{fmt::format("etcd tells revision {} of its store, which is not possible", *revision)};
  }
  return revision;
}

Result<KeyValue> pair_of(const Pair& pair) {
  KeyValue made;
  Result<std::string> key = from_base64(pair.key);
  Result<std::string> value = from_base64(pair.value);
  const Result<int64_t> created_at = whole_of(pair.create_revision);
  const Result<int64_t> changed_at = whole_of(pair.mod_revision);
  const Result<int64_t> lease = whole_of(pair.lease);
  if (!key) return Error{key.error()};
  if (!value) return Error{value.error()};
  for (const Result<int64_t>* number : {&created_at, &changed_at, &lease}) {
    if (!*number) return Error{number->error()};
  }
  return KeyValue{std::move(*key), std::move(*value), *created_at, *changed_at, *lease};
}

Result<void> append_pairs(const std::optional<std::vector<Pair>>& from, std::vector<KeyValue>& to) {
  if (!from) return {};
  for (const Pair& pair : *from) {
    Result<KeyValue> made = pair_of(pair);
    if (!made) return Error{made.error()};
    to.push_back(std::move(*made));
  }
  return {};
}

Range range_of(const RangeRequest& request) {
  Range range = {to_base64(request.key), to_base64(request.end), digits(request.limit), digits(request.revision), {}};
  if (request.keys_only) range.keys_only = true;
  return range;
}

// "memberID:8211 alarm:NOSPACE ": NOSPACE.
std::string alarm_of(const std::string& text) {
  constexpr std::string_view kName = "alarm:";
  const size_t at = text.find(kName);
  if (at == std::string::npos) return text;
  const size_t begin = at + kName.size();
  return text.substr(begin, std::min(text.find(' ', begin), text.size()) - begin);
}

}  // namespace

std::string end_of_prefix(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  if (end.empty()) return std::string(1, '\0');  // of all keys
  end.back()++;
  return end;
}

std::string text_of(const RangeRequest& request) {
  return write_json(range_of(request)).line();
}

Result<RangeAnswer> read_range(std::string_view text) {
  const Result<RangeResult> read = parse<RangeResult>(text);
  if (!read) return Error{read.error()};
  RangeAnswer answer;
  const Result<int64_t> revision = revision_of(read->header);
  if (!revision) return Error{revision.error()};
  answer.revision = *revision;
  answer.has_more = read->more.value_or(false);
  if (const Result<void> pairs = append_pairs(read->kvs, answer.pairs); !pairs) return Error{pairs.error()};
  return answer;
}

std::string text_of(const Transaction& transaction) {
  Txn txn;
  for (const Condition& condition : transaction.conditions) {
    txn.compare.push_back({to_base64(condition.key), std::to_string(condition.changed_at)});
  }
  for (const Step& step : transaction.steps) {
    Operation operation;
    if (step.kind == Step::Kind::put) {
      operation.put = Put{to_base64(step.key), to_base64(step.value), digits(step.lease)};
    } else {
      Range range;
      range.key = to_base64(step.key);
      range.range_end = to_base64(step.end);
      (step.kind == Step::Kind::erase ? operation.erase : operation.range) = std::move(range);
    }
    txn.success.push_back(std::move(operation));
  }
  for (const std::string& key : transaction.else_read) {
    Operation operation;
    operation.range.emplace();
    operation.range->key = to_base64(key);
    txn.failure.push_back(std::move(operation));
  }
  return write_json(txn).line();
}

Result<TransactionAnswer> read_transaction(std::string_view text) {
  const Result<TxnResult> read = parse<TxnResult>(text);
  if (!read) return Error{read.error()};
  TransactionAnswer answer;
  const Result<int64_t> revision = revision_of(read->header);
  if (!revision) return Error{revision.error()};
  answer.revision = *revision;
  answer.held = read->succeeded.value_or(false);
  if (!read->responses) return answer;
  for (const OperationResult& result : *read->responses) {
    if (!result.range) continue;
    if (const Result<void> pairs = append_pairs(result.range->kvs, answer.read); !pairs) return Error{pairs.error()};
  }
  return answer;
}

std::string grant_text(int64_t ttl_s) {
  return write_json(Lease{"", std::to_string(ttl_s)}).line();
}

std::string lease_text(int64_t id) {
  return write_json(Lease{std::to_string(id), ""}).line();
}

Result<LeaseAnswer> read_lease(std::string_view text) {
  const Result<Lease> read = parse<Lease>(text);
  if (!read) return Error{read.error()};
  const Result<int64_t> id = whole_of(read->id), left = whole_of(read->ttl);
  if (!id) return Error{id.error()};
  if (!left) return Error{left.error()};
  return LeaseAnswer{*id, *left};
}

Result<LeaseAnswer> read_keepalive(std::string_view text) {
  const Result<KeepAlive> read = parse<KeepAlive>(text);
  if (!read) return Error{read.error()};
  const Lease lease = read->result.value_or(Lease{});
  const Result<int64_t> id = whole_of(lease.id), left = whole_of(lease.ttl);
  if (!id) return Error{id.error()};
  if (!left) return Error{left.error()};
  return LeaseAnswer{*id, *left};
}

std::string authenticate_text(std::string_view user, std::string_view password) {
  return write_json(Login{std::string(user), std::string(password)}).line();
}

Result<std::string> read_token(std::string_view text) {
  Result<Token> read = parse<Token>(text);
  if (!read) return Error{read.error()};
  return std::move(read->token);
}

std::string watch_text(std::string_view key, std::string_view end, int64_t from) {
  return write_json(Watch{{to_base64(key), to_base64(end), digits(from)}}).line();
}

Result<WatchAnswer> read_watch(std::string_view line) {
  const Result<WatchLine> read = parse<WatchLine>(line);
  if (!read) return Error{read.error()};
  WatchAnswer answer;
  if (read->error) {
    answer.is_cancelled = true;
    answer.reason = read->error->message;
  }
  if (!read->result) return answer;
  const WatchResult& result = *read->result;
  const Result<int64_t> revision = revision_of(result.header), compacted_at = whole_of(result.compact_revision);
  if (!revision) return Error{revision.error()};
  if (!compacted_at) return Error{compacted_at.error()};
  answer.revision = *revision;
  answer.compacted_at = *compacted_at;
  answer.is_cancelled = answer.is_cancelled || result.canceled.value_or(false);
  if (!result.cancel_reason.empty()) answer.reason = result.cancel_reason;
  if (!result.events) return answer;
  for (const WatchEvent& event : *result.events) {
    if (!event.kv) continue;
    Result<KeyValue> pair = pair_of(*event.kv);
    if (!pair) return Error{pair.error()};
    answer.events.push_back({event.type == "DELETE", std::move(*pair)});
  }
  return answer;
}

Result<StatusAnswer> read_status(std::string_view text) {
  const Result<Status> read = parse<Status>(text);
  if (!read) return Error{read.error()};
  const Result<int64_t> database = whole_of(read->database), revision = revision_of(read->header);
  if (!database) return Error{database.error()};
  if (!revision) return Error{revision.error()};
  StatusAnswer answer = {read->version, *database, read->leader.empty() ? 0 : 1, *revision, {}};
  for (const std::string& said : read->errors) {
    const std::string alarm = alarm_of(said);
    if (std::find(answer.alarms.begin(), answer.alarms.end(), alarm) == answer.alarms.end())
      answer.alarms.push_back(alarm);
  }
  return answer;
}

Failure read_failure(std::string_view text) {
  if (const Result<Fault> read = parse<Fault>(text); read) return {read->error, read->code};
  // A watch that did not begin answers so.
  const Result<WatchLine> line = parse<WatchLine>(text);
  return line && line->error ? Failure{line->error->message, line->error->code} : Failure{};
}

}  // namespace weir::control::etcd
