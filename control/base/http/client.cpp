#include "control/base/http/client.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace weir::control {
namespace {

constexpr int kLookMs = 100;     // how often is_stopped is asked
constexpr int kIdleMs = 1000;    // how long libcurl is waited for where nobody stops it
constexpr int kDeadMs = 20'000;  // a peer that is gone without a word is noticed within so long, in a stream too
constexpr long kKeepaliveIdle_s = 5, kKeepaliveInterval_s = 5;

struct FreeHeaders {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Headers = std::unique_ptr<curl_slist, FreeHeaders>;

// One transfer, while libcurl calls back.
struct Transfer {
  const HttpRequest& request;
  CURL* curl;
  HttpAnswer answer = {};
  bool is_too_large = false;
};

long status_of(CURL* curl) {
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

size_t take(char* bytes, size_t, size_t n, void* user) {
  Transfer& transfer = *static_cast<Transfer*>(user);
  const HttpRequest& request = transfer.request;
  if (request.on_data && status_of(transfer.curl) / 100 == 2) {
    transfer.answer.is_stopped = !request.on_data({bytes, n});
    return transfer.answer.is_stopped ? CURL_WRITEFUNC_ERROR : n;
  }
  transfer.is_too_large = n > request.max_bytes - transfer.answer.body.size();
  if (transfer.is_too_large) return CURL_WRITEFUNC_ERROR;
  transfer.answer.body.append(bytes, n);
  return n;
}

int set_socket(void*, curl_socket_t socket, curlsocktype) {
  const int ms = kDeadMs;
  (void)setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
  return CURL_SOCKOPT_OK;
}

bool has_control_characters(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

Result<Headers> headers_of(const HttpRequest& request) {
  // Nobody waits for "100 Continue" before a long body is sent.
  Headers headers(curl_slist_append(nullptr, "Expect:"));
  for (const std::string& header : request.headers) {
    if (has_control_characters(header)) return Error{"a header holds a control character"};
    curl_slist* longer = curl_slist_append(headers.get(), header.c_str());
    if (longer == nullptr) return Error{"out of memory"};
    (void)headers.release();
    headers.reset(longer);
  }
  return headers;
}

void set_method(CURL* curl, const HttpRequest& request) {
  if (request.method == "HEAD") {
    curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  } else if (request.method != "GET" || !request.body.empty()) {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.data());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
}

void set_blob(CURL* curl, CURLoption option, const std::string& pem) {
  if (pem.empty()) return;
  curl_blob blob = {const_cast<char*>(pem.data()), pem.size(), CURL_BLOB_COPY};
  curl_easy_setopt(curl, option, &blob);
}

void set_tls(CURL* curl, const HttpTls& tls) {
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(curl, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  if (!tls.ca_file.empty()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, tls.ca_file.c_str());
    curl_easy_setopt(curl, CURLOPT_CAPATH, nullptr);
  }
  if (!tls.ca_pem.empty()) {
    set_blob(curl, CURLOPT_CAINFO_BLOB, tls.ca_pem);
    curl_easy_setopt(curl, CURLOPT_CAPATH, nullptr);
  }
  set_blob(curl, CURLOPT_SSLCERT_BLOB, tls.cert_pem);
  set_blob(curl, CURLOPT_SSLKEY_BLOB, tls.key_pem);
  if (!tls.cert_file.empty()) curl_easy_setopt(curl, CURLOPT_SSLCERT, tls.cert_file.c_str());
  if (!tls.key_file.empty()) curl_easy_setopt(curl, CURLOPT_SSLKEY, tls.key_file.c_str());
}

void set_up(CURL* curl, const HttpRequest& request) {
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");  // whatever the environment says
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "weir/" WEIR_VERSION);
  if (!request.on_data) curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "gzip");
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.connect_timeout_ms));
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout_ms));
  curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(curl, CURLOPT_TCP_KEEPIDLE, kKeepaliveIdle_s);
  curl_easy_setopt(curl, CURLOPT_TCP_KEEPINTVL, kKeepaliveInterval_s);
  curl_easy_setopt(curl, CURLOPT_SOCKOPTFUNCTION, set_socket);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  set_method(curl, request);
  set_tls(curl, request.tls);
}

// The same failure has the same text each time: without " after 12 ms".
std::string without_times(std::string text) {
  constexpr std::string_view kAfter = " after ";
  for (size_t at = text.find(kAfter); at != std::string::npos; at = text.find(kAfter, at + 1)) {
    size_t end = text.find_first_not_of("0123456789", at + kAfter.size());
    for (const std::string_view unit : {" milliseconds", " ms"}) {
      if (end == std::string::npos || end == at + kAfter.size() || text.compare(end, unit.size(), unit) != 0) continue;
      text.erase(at, end + unit.size() - at);
      break;
    }
  }
  return text;
}

// Only the first call does something.
void start_curl() {
  static const CURLcode once = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)once;
}

// Until the transfer ended, or was stopped.
CURLcode run(CURLM* multi, Transfer& transfer) {
  const HttpRequest& request = transfer.request;
  curl_waitfd stop = {request.stop_fd, CURL_WAIT_POLLIN, 0};
  while (true) {
    int running = 0;
    if (curl_multi_perform(multi, &running) != CURLM_OK) return CURLE_FAILED_INIT;
    int left = 0;
    if (running == 0) {
      const CURLMsg* message = curl_multi_info_read(multi, &left);
      return message != nullptr ? message->data.result : CURLE_FAILED_INIT;
    }
    const unsigned n_stops = request.stop_fd >= 0 ? 1 : 0;
    const int wait_ms = request.is_stopped ? kLookMs : kIdleMs;
    if (curl_multi_poll(multi, n_stops == 1 ? &stop : nullptr, n_stops, wait_ms, nullptr) != CURLM_OK) {
      return CURLE_FAILED_INIT;
    }
    if ((n_stops == 1 && stop.revents != 0) || (request.is_stopped && request.is_stopped())) {
      transfer.answer.is_stopped = true;
      return CURLE_ABORTED_BY_CALLBACK;
    }
  }
}

}  // namespace

// CURL and CURLM are both void.
struct HttpClient::Handles {
  struct FreeMulti {
    void operator()(CURLM* handle) const { curl_multi_cleanup(handle); }
  };
  struct FreeEasy {
    void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
  };
  std::unique_ptr<CURLM, FreeMulti> multi;  // holds the connections
  std::unique_ptr<CURL, FreeEasy> curl;
};

HttpClient::HttpClient() : handles_(std::make_unique<Handles>()) {
  start_curl();
  handles_->multi.reset(curl_multi_init());
  handles_->curl.reset(curl_easy_init());
}
HttpClient::~HttpClient() {
  if (handles_) handles_->curl.reset();  // before what holds its connections
}
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;

Result<HttpAnswer> HttpClient::ask(const HttpRequest& request) {
  CURL* curl = handles_->curl.get();
  CURLM* multi = handles_->multi.get();
  if (curl == nullptr || multi == nullptr) return Error{"libcurl cannot be started"};
  if (const Result<void> url = check_http_url(request.url); !url) return Error{url.error()};
  const Result<Headers> headers = headers_of(request);
  if (!headers) return Error{request.url + ": " + headers.error()};

  curl_easy_reset(curl);
  set_up(curl, request);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers->get());
  Transfer transfer = {request, curl};
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  char why[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
  if (curl_multi_add_handle(multi, curl) != CURLM_OK) return Error{request.url + ": libcurl cannot begin"};
  const CURLcode code = run(multi, transfer);
  transfer.answer.status = status_of(curl);
  curl_multi_remove_handle(multi, curl);
  curl_easy_reset(curl);  // nothing of this frame is known to it any more

  if (transfer.is_too_large) {
    return Error{fmt::format("{}: the answer is longer than {} bytes", request.url, request.max_bytes)};
  }
  if (code == CURLE_OK || transfer.answer.is_stopped) return std::move(transfer.answer);
  return Error{fmt::format("{}: {}", request.url, without_times(*why != '\0' ? why : curl_easy_strerror(code)))};
}

Result<void> check_http_url(std::string_view url) {
  const size_t begin = url.starts_with("http://") ? 7 : url.starts_with("https://") ? 8 : 0;
  // Not shown where it holds what a terminal might obey.
  if (has_control_characters(url)) return Error{"the url holds a control character"};
  const std::string shown(url.substr(0, 200));
  if (begin == 0) return Error{fmt::format("`{}` is no url: it must begin with http:// or https://", shown)};
  if (url.find(' ') != std::string_view::npos) return Error{fmt::format("the url `{}` holds a blank", shown)};
  const std::string_view host = url.substr(begin, url.find_first_of("/?#", begin) - begin);
  if (host.empty() || host.front() == ':') return Error{fmt::format("the url `{}` names no host", shown)};
  // It may be a password: not shown.
  if (host.find('@') != std::string_view::npos) return Error{"the url names a user: write it without"};
  return {};
}

}  // namespace weir::control
