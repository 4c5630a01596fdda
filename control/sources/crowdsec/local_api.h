#pragma once

#include <optional>
#include <string>
#include <utility>

#include "common/result.h"
#include "control/base/http/client.h"
#include "control/sources/crowdsec/decisions.h"

// CrowdSec's local API, as what it calls a bouncer, or remediation component, asks it.
namespace weir::control::crowdsec {

struct Access {
  std::string url;  // of the API: http://127.0.0.1:8080
  std::string key;  // as `cscli bouncers add` prints it; empty: the certificate of tls says who asks
  HttpTls tls;
};

// The key of a file: its first line. Error: there is none, or it is none.
Result<std::string> read_key(const std::string& path);

class LocalApi {
 public:
  explicit LocalApi(Access access) : access_(std::move(access)) {}

  // All decisions, or what changed since it was asked before; with whatever is deleted in between of the first kind
  // too. stop_fd: gives up as soon as it can be read; the answer is empty then. Error: one line, with what to do.
  Result<std::optional<Decisions>> ask(bool for_all, int stop_fd);
  void set_key(const std::string& key) { access_.key = key; }

 private:
  Access access_;
  HttpClient client_;
};

}  // namespace weir::control::crowdsec
