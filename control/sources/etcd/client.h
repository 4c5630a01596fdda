#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "control/base/http/client.h"
#include "control/sources/etcd/messages.h"

// A client of etcd (v3.4 or later) by its JSON gateway.
namespace weir::control::etcd {

// What an operator does when etcd has used up its space (the alarm NOSPACE), and takes nothing new.
constexpr const char* kMakeRoom =
    "make room by `etcdctl compact REVISION`, `etcdctl defrag --cluster` and `etcdctl alarm disarm`";

struct Access {
  std::vector<std::string> endpoints;  // https://HOST:PORT, of one cluster; at least one
  HttpTls tls;
  std::string user, password;  // empty: etcd asks for none, or for a certificate
  int timeout_ms = 3000;       // of one request to one endpoint
};

// One thread's at a time. A request goes to the endpoint that answered last; where that one does not, or has no leader,
// to the next. Reads are linearizable: what a member tells that lost the others is not believed. Errors say which
// endpoint said what.
class Client {
 public:
  explicit Client(Access access) : access_(std::move(access)) {}

  Result<RangeAnswer> range(const RangeRequest& request);
  // All that begin with the prefix, as they were at one moment.
  Result<RangeAnswer> all(std::string_view prefix, bool keys_only = false);
  // Empty pairs: it is not there.
  Result<RangeAnswer> get(std::string_view key);
  Result<TransactionAnswer> commit(const Transaction& transaction);
  Result<TransactionAnswer> put(std::string_view key, std::string_view value, int64_t lease = 0);

  Result<LeaseAnswer> grant(int64_t ttl_s);
  // left_s <= 0: it has ended.
  Result<LeaseAnswer> keep_alive(int64_t lease);
  Result<LeaseAnswer> time_to_live(int64_t lease);
  Result<void> revoke(int64_t lease);

  // Every change of keys that begin with the prefix, from this revision of the store on, until take() says false, or
  // is_stopped() is true, asked every 100 ms: then it is no error. Error: the watch ended, or never began.
  struct Stop {
    std::function<bool()> is_stopped;
    int fd = -1;  // or this can be read
  };
  Result<void> watch(std::string_view prefix, int64_t from, const std::function<bool(WatchAnswer&)>& take,
                     const Stop& stop);

  // Of each endpoint.
  struct Member {
    std::string endpoint, error;  // error empty: it answers
    StatusAnswer status;
  };
  std::vector<Member> members();

 private:
  Result<std::string> ask(const char* path, const std::string& body);
  Result<std::string> ask_one(const std::string& endpoint, const char* path, const std::string& body, bool& is_final);
  HttpRequest request_to(const std::string& endpoint, const char* path, const std::string& body) const;
  Result<void> log_in(const std::string& endpoint);

  const Access access_;
  HttpClient http_;
  std::string token_;
  size_t endpoint_ = 0;  // that answered last
};

}  // namespace weir::control::etcd
