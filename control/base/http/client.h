#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

// Requests to an HTTP server, one after the other over connections that stay.
namespace weir::control {

struct HttpTls {
  std::string ca_file;              // PEM; empty: the certificates of the system
  std::string cert_file, key_file;  // of this client, PEM; empty: it has none
  // The same as texts, of one who reads no files.
  std::string ca_pem = {}, cert_pem = {}, key_pem = {};
};

struct HttpRequest {
  std::string method = "GET";
  std::string url;                        // as check_http_url() takes it
  std::vector<std::string> headers = {};  // "X-Api-Key: ..."; no ends of lines
  std::string body = {};
  HttpTls tls = {};
  int connect_timeout_ms = 5000;
  int timeout_ms = 30'000;      // from begin to end; 0: none, for an answer that goes on
  size_t max_bytes = 16 << 20;  // of the body that is kept, once it is unpacked

  // Takes the body of an answer 2xx as it arrives, so that none is kept; false ends the transfer. A body that is no 2xx
  // is kept. Empty: the body is kept.
  std::function<bool(std::string_view bytes)> on_data = {};
  // Asked every 100 ms; true ends the transfer. Only while the name of the server is looked up it may be later.
  std::function<bool()> is_stopped = {};
  int stop_fd = -1;  // ends the transfer as soon as it can be read
};

struct HttpAnswer {
  long status = 0;          // 0: it was stopped before there was one
  std::string body;         // empty, where on_data took it
  bool is_stopped = false;  // on_data, is_stopped or stop_fd ended it: the answer is not whole
};

// Error: it is not http://HOST... or https://HOST..., or names a user, or holds blanks or control characters.
Result<void> check_http_url(std::string_view url);

// One thread's at a time. Keeps the connection, for as long as the server does; follows no redirect, uses no proxy, and
// sends nothing to another server than that of the url.
class HttpClient {
 public:
  HttpClient();
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;

  // Whatever the status is. Error: "URL: why": no answer, one that ended early, was too long or came too late.
  Result<HttpAnswer> ask(const HttpRequest& request);

 private:
  struct Handles;
  std::unique_ptr<Handles> handles_;
};

}  // namespace weir::control
