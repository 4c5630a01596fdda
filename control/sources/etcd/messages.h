#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

// This file writes requests of etcd's JSON gateway as text, and reads its answers.
namespace weir::control::etcd {

// etcd's JSON has bytes as base64, and whole numbers of 64 bits as digits in a text.

std::string to_base64(std::string_view bytes);
// Error: it is not base64 with its padding.
Result<std::string> from_base64(std::string_view text);

// Empty text is 0: etcd leaves out what is 0. Error: it is no number.
Result<int64_t> whole_of(std::string_view text);

// Requests of etcd's JSON gateway (v3) as text, and its answers as plain data. Whatever an answer holds, reading it
// ends in data or in an error.

struct KeyValue {
  std::string key, value;
  int64_t created_at = 0, changed_at = 0;  // revisions of the store
  int64_t lease = 0;                       // 0: none
};

// Behind the last key that begins with this prefix.
std::string end_of_prefix(std::string_view prefix);

struct RangeRequest {
  std::string key, end;  // end empty: this key alone
  int64_t limit = 0;     // 0: none
  int64_t revision = 0;  // of the store, as it was then; 0: as it is
  bool keys_only = false;
};
std::string text_of(const RangeRequest& request);

struct RangeAnswer {
  std::vector<KeyValue> pairs;
  int64_t revision = 0;  // of the store
  bool has_more = false;
};
Result<RangeAnswer> read_range(std::string_view text);

// Steps in one transaction, at most: etcd takes 128, unless it is told otherwise.
constexpr size_t kMostSteps = 100;

// One step of a transaction.
struct Step {
  enum class Kind : uint8_t { put, erase, range } kind = Kind::put;
  std::string key, value, end = {};  // end: erase, range
  int64_t lease = 0;
};
// What must hold: the key was changed last at this revision; 0: it is not there.
struct Condition {
  std::string key;
  int64_t changed_at = 0;
};
struct Transaction {
  std::vector<Condition> conditions;
  std::vector<Step> steps;                  // when they hold
  std::vector<std::string> else_read = {};  // keys that are read when they do not
};
std::string text_of(const Transaction& transaction);

struct TransactionAnswer {
  bool held = false;
  int64_t revision = 0;
  std::vector<KeyValue> read;  // of else_read: those that are there
};
Result<TransactionAnswer> read_transaction(std::string_view text);

struct LeaseAnswer {
  int64_t id = 0;
  int64_t left_s = 0;  // granted, or that are left; <= 0: it has ended
};
std::string grant_text(int64_t ttl_s);
std::string lease_text(int64_t id);
Result<LeaseAnswer> read_lease(std::string_view text);  // of grant and timetolive
Result<LeaseAnswer> read_keepalive(std::string_view text);

std::string authenticate_text(std::string_view user, std::string_view password);
Result<std::string> read_token(std::string_view text);

std::string watch_text(std::string_view key, std::string_view end, int64_t from);

struct Event {
  bool is_gone = false;
  KeyValue pair;
};
// One line of a watch.
struct WatchAnswer {
  int64_t revision = 0;       // of the store
  bool is_cancelled = false;  // nothing more comes
  int64_t compacted_at = 0;   // what was asked for is not kept before this; 0: it is
  std::string reason;         // cancelled: why
  std::vector<Event> events;
};
Result<WatchAnswer> read_watch(std::string_view line);

// What a member says of itself.
struct StatusAnswer {
  std::string version;
  int64_t database_bytes = 0, leader = 0, revision = 0;
  std::vector<std::string> alarms;  // names, as NOSPACE; texts that name none, as etcd says them
};
Result<StatusAnswer> read_status(std::string_view text);

struct Failure {
  std::string message;  // empty: it is none
  int64_t code = 0;     // of gRPC
};
Failure read_failure(std::string_view text);

}  // namespace weir::control::etcd
