#include "control/sources/etcd/client.h"

namespace weir::control::etcd {
namespace {

constexpr size_t kMostAnswer = 64 << 20;
constexpr int64_t kPage = 1000;  // keys of a range at once
constexpr size_t kMostLine = 64 << 20;

// Codes of gRPC.
constexpr int64_t kInvalidArgument = 3, kNotFound = 5, kUnauthenticated = 16;
constexpr int64_t kOutOfRange = 11, kFailedPrecondition = 9, kResourceExhausted = 8, kPermissionDenied = 7;

constexpr const char* kNoSpace = "database space exceeded";

// What every other member would say, too.
bool is_answer(int64_t code) {
  return code == kInvalidArgument || code == kNotFound || code == kOutOfRange || code == kFailedPrecondition ||
         code == kResourceExhausted || code == kPermissionDenied;
}

// A JSON web token is also refused once any user or role has changed after it was given, by a code that says less.
bool is_about_token(const Failure& failure) {
  return failure.code == kUnauthenticated || failure.message.find("invalid auth token") != std::string::npos ||
         failure.message.find("revision of auth store is old") != std::string::npos;
}

// What an answer that is no 200 says: etcd's own JSON, or the text of what stands before it.
std::string refusal_of(const HttpAnswer& answer) {
  const Failure failure = read_failure(answer.body);
  if (failure.message.find(kNoSpace) != std::string::npos) return failure.message + "\nhint: " + kMakeRoom;
  if (!failure.message.empty()) return failure.message;
  constexpr size_t kMostShown = 200;
  std::string text = answer.body.substr(0, std::min(answer.body.find('\n'), kMostShown));
  return "HTTP status " + std::to_string(answer.status) + (text.empty() ? "" : ": " + text);
}

template <class Answer>
Result<Answer> read_with(const Result<std::string>& text, Result<Answer> (*read)(std::string_view)) {
  return text ? read(*text) : Result<Answer>(Error{text.error()});
}

}  // namespace

HttpRequest Client::request_to(const std::string& endpoint, const char* path, const std::string& body) const {
  HttpRequest request;
  request.method = "POST";
  request.url = endpoint + path;
  request.headers = {"Content-Type: application/json"};
  if (!token_.empty()) request.headers.push_back("Authorization: " + token_);
  request.body = body;
  request.tls = access_.tls;
  request.connect_timeout_ms = access_.timeout_ms;
  request.timeout_ms = access_.timeout_ms;
  request.max_bytes = kMostAnswer;
  return request;
}

Result<void> Client::log_in(const std::string& endpoint) {
  token_.clear();
  const Result<HttpAnswer> answer =
      http_.ask(request_to(endpoint, "/v3/auth/authenticate", authenticate_text(access_.user, access_.password)));
  if (!answer) return Error{answer.error()};
  if (answer->status != 200) {
    return Error{endpoint + " does not let user " + access_.user + " in: " + refusal_of(*answer)};
  }
  Result<std::string> token = read_token(answer->body);
  if (!token) return Error{endpoint + ": " + token.error()};
  token_ = std::move(*token);
  return {};
}

// is_final: no other endpoint has to be asked.
Result<std::string> Client::ask_one(const std::string& endpoint, const char* path, const std::string& body,
                                    bool& is_final) {
  is_final = false;
  for (int attempt = 0; attempt < 2; attempt++) {
    if (!access_.user.empty() && token_.empty()) {
      if (const Result<void> in = log_in(endpoint); !in) return Error{in.error()};
    }
    Result<HttpAnswer> answer = http_.ask(request_to(endpoint, path, body));
    if (!answer) return Error{answer.error()};
    if (answer->status == 200) return std::move(answer->body);
    const Failure failure = read_failure(answer->body);
    if (!access_.user.empty() && attempt == 0 && is_about_token(failure)) {
      token_.clear();  // it ended, or is of a time before a restart
      continue;
    }
    is_final = is_answer(failure.code);
    return Error{endpoint + " answers: " + refusal_of(*answer)};
  }
  return Error{endpoint + " does not take the token that it gave"};
}

Result<std::string> Client::ask(const char* path, const std::string& body) {
  std::string errors;
  for (size_t n = 0; n < access_.endpoints.size(); n++) {
    const size_t number = (endpoint_ + n) % access_.endpoints.size();
    bool is_final = false;
    Result<std::string> answer = ask_one(access_.endpoints[number], path, body, is_final);
    if (answer || is_final) {
      endpoint_ = number;
      return answer;
    }
    token_.clear();
    errors += (errors.empty() ? "" : "; ") + answer.error();
  }
  if (errors.empty()) return Error{"no endpoint of etcd is named"};
  return Error{errors + "\nhint: `etcdctl endpoint health` says whether etcd is there, and has a leader"};
}

Result<RangeAnswer> Client::range(const RangeRequest& request) {
  return read_with(ask("/v3/kv/range", text_of(request)), read_range);
}

Result<RangeAnswer> Client::all(std::string_view prefix, bool keys_only) {
  RangeRequest page = {std::string(prefix), end_of_prefix(prefix), kPage, 0, keys_only};
  RangeAnswer whole;
  while (true) {
    Result<RangeAnswer> part = range(page);
    if (!part) return part;
    if (page.revision == 0) whole.revision = page.revision = part->revision;
    std::move(part->pairs.begin(), part->pairs.end(), std::back_inserter(whole.pairs));
    if (!part->has_more || part->pairs.empty()) return whole;
    page.key = whole.pairs.back().key + '\0';
  }
}

Result<RangeAnswer> Client::get(std::string_view key) {
  return range({std::string(key), "", 0, 0, false});
}

Result<TransactionAnswer> Client::commit(const Transaction& transaction) {
  return read_with(ask("/v3/kv/txn", text_of(transaction)), read_transaction);
}

Result<TransactionAnswer> Client::put(std::string_view key, std::string_view value, int64_t lease) {
  return commit({{}, {{Step::Kind::put, std::string(key), std::string(value), "", lease}}, {}});
}

Result<LeaseAnswer> Client::grant(int64_t ttl_s) {
  return read_with(ask("/v3/lease/grant", grant_text(ttl_s)), read_lease);
}

Result<LeaseAnswer> Client::keep_alive(int64_t lease) {
  return read_with(ask("/v3/lease/keepalive", lease_text(lease)), read_keepalive);
}

Result<LeaseAnswer> Client::time_to_live(int64_t lease) {
  return read_with(ask("/v3/lease/timetolive", lease_text(lease)), read_lease);
}

Result<void> Client::revoke(int64_t lease) {
  const Result<std::string> answer = ask("/v3/lease/revoke", lease_text(lease));
  return answer ? Result<void>() : Error{answer.error()};
}

Result<void> Client::watch(std::string_view prefix, int64_t from, const std::function<bool(WatchAnswer&)>& take,
                           const Stop& stop) {
  const std::string endpoint = access_.endpoints.at(endpoint_);
  if (!access_.user.empty() && token_.empty()) {
    if (const Result<void> in = log_in(endpoint); !in) return in;
  }
  HttpRequest request = request_to(endpoint, "/v3/watch", watch_text(prefix, end_of_prefix(prefix), from));
  // A member that lost the others ends it, instead of keeping still.
  request.headers.push_back("Grpc-Metadata-hasleader: true");
  request.timeout_ms = 0;
  std::string rest, error;
  bool is_enough = false;
  request.on_data = [&](std::string_view bytes) {
    rest.append(bytes);
    size_t begin = 0;
    for (size_t end; (end = rest.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const std::string_view line(rest.data() + begin, end - begin);
      if (line.empty()) continue;
      Result<WatchAnswer> answer = read_watch(line);
      if (!answer) {
        error = answer.error();
        return false;
      }
      is_enough = !take(*answer);
      if (is_enough) return false;
      if (answer->is_cancelled) {
        error = answer->reason.empty() ? "it ended the watch" : answer->reason;
        return false;
      }
    }
    rest.erase(0, begin);
    if (rest.size() > kMostLine) error = "a line of the watch is too long";
    return error.empty();
  };
  request.is_stopped = stop.is_stopped;
  request.stop_fd = stop.fd;
  const Result<HttpAnswer> answer = http_.ask(request);
  if (answer && error.empty() && (answer->is_stopped || is_enough)) return {};
  // The next one is asked at another member.
  endpoint_ = (endpoint_ + 1) % access_.endpoints.size();
  token_.clear();
  if (!answer) return Error{answer.error()};
  if (error.empty() && answer->status != 200) error = refusal_of(*answer);
  return Error{endpoint + ": " + (error.empty() ? "the watch ended" : error)};
}

std::vector<Client::Member> Client::members() {
  std::vector<Member> members;
  for (const std::string& endpoint : access_.endpoints) {
    Member member = {endpoint, "", {}};
    bool is_final = false;
    token_.clear();
    const Result<std::string> text = ask_one(endpoint, "/v3/maintenance/status", "{}", is_final);
    const Result<StatusAnswer> status = read_with(text, read_status);
    if (status) member.status = *status;
    if (!status) member.error = status.error();
    members.push_back(std::move(member));
  }
  token_.clear();
  return members;
}

}  // namespace weir::control::etcd
