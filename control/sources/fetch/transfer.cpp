#include "control/sources/fetch/transfer.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netdb.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "control/base/http/public_address.h"
#include "control/base/http/reach.h"

namespace weir::control {
namespace {

constexpr uint32_t kCpuSeconds = 300;

struct Free {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Curl = std::unique_ptr<CURL, Free>;
using Headers = std::unique_ptr<curl_slist, Free>;

// One transfer, while libcurl calls back.
struct Transfer {
  CURL* curl = nullptr;
  int socket = -1;
  std::span<std::byte> to;
  uint64_t most = 0, taken = 0;
  bool is_too_large = false;
  // Where redirects may lead. A server that anybody can reach, or make names resolve for, may not make this machine ask
  // what only this machine can reach, and show its lines.
  bool may_be_private = false;
  bool has_proxy = false;
  std::string led_to;  // the address or host that was refused
};

long status_of(CURL* curl) {
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

// Anything but what was asked for is not kept, and ends the transfer.
size_t take(char* bytes, size_t, size_t n, void* user) {
  Transfer& transfer = *static_cast<Transfer*>(user);
  if (status_of(transfer.curl) != 200) return 0;
  transfer.is_too_large = n > transfer.most - transfer.taken;
  if (transfer.is_too_large) return 0;
  if (n != 0) memcpy(transfer.to.data() + transfer.taken, bytes, n);
  transfer.taken += n;
  return n;
}

long redirects_of(CURL* curl) {
  long redirects = 0;
  curl_easy_getinfo(curl, CURLINFO_REDIRECT_COUNT, &redirects);
  return redirects;
}

struct FreeUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

// The host of an url, or of one that is relative to it. Empty: there is none.
std::string host_of(const char* url, const char* relative = nullptr) {
  const std::unique_ptr<CURLU, FreeUrl> parsed(curl_url());
  char* host = nullptr;
  if (parsed == nullptr || curl_url_set(parsed.get(), CURLUPART_URL, url, 0) != CURLUE_OK) return "";
  if (relative != nullptr && curl_url_set(parsed.get(), CURLUPART_URL, relative, 0) != CURLUE_OK) return "";
  if (curl_url_get(parsed.get(), CURLUPART_HOST, &host, CURLU_URLDECODE) != CURLUE_OK) return "";
  std::string copy = host;
  curl_free(host);
  return copy;
}

// Looks at the server once its answer begins: redirects may be private where the url of the list is.
void look_at_server(Transfer& transfer) {
  const char* address = nullptr;
  if (transfer.has_proxy || redirects_of(transfer.curl) != 0) return;
  if (curl_easy_getinfo(transfer.curl, CURLINFO_PRIMARY_IP, &address) != CURLE_OK || address == nullptr) return;
  if (*address != '\0' && !is_public_host(address)) transfer.may_be_private = true;
}

// A host that is written as an address, or is this machine by its name, is known without a connection: also where a
// proxy would make it.
bool may_lead(Transfer& transfer, std::string_view line) {
  constexpr std::string_view kName = "location:";
  const long status = status_of(transfer.curl);
  if (transfer.may_be_private || status < 300 || status > 399 || line.size() < kName.size()) return true;
  if (strncasecmp(line.data(), kName.data(), kName.size()) != 0) return true;
  std::string to(line.substr(kName.size()));
  to.erase(0, std::min(to.find_first_not_of(" \t"), to.size()));
  to.erase(to.find_last_not_of(" \t\r\n") + 1);
  const char* from = nullptr;
  curl_easy_getinfo(transfer.curl, CURLINFO_EFFECTIVE_URL, &from);
  const std::string host = from == nullptr ? "" : host_of(from, to.c_str());
  if (host.empty() || is_public_host(host)) return true;  // what is no url is refused by libcurl
  transfer.led_to = host;
  return false;
}

size_t take_header(char* bytes, size_t, size_t n, void* user) {
  Transfer& transfer = *static_cast<Transfer*>(user);
  const std::string_view line(bytes, n);
  if (line.starts_with("HTTP/")) look_at_server(transfer);
  return may_lead(transfer, line) ? n : 0;
}

// Before a connection is made, by the address that a name turned out to be.
curl_socket_t open_socket(void* user, curlsocktype, curl_sockaddr* address) {
  Transfer& transfer = *static_cast<Transfer*>(user);
  const bool is_redirected = redirects_of(transfer.curl) != 0;
  if (is_redirected && !transfer.has_proxy && !transfer.may_be_private && !is_public(&address->addr)) {
    char text[INET6_ADDRSTRLEN] = "";
    getnameinfo(&address->addr, static_cast<socklen_t>(address->addrlen), text, sizeof text, nullptr, 0,
                NI_NUMERICHOST);
    transfer.led_to = text;
    return CURL_SOCKET_BAD;
  }
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

// Not 0 when nobody waits for it any more.
int go_on(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  pollfd gone = {static_cast<Transfer*>(user)->socket, 0, 0};
  return poll(&gone, 1, 0) > 0 && (gone.revents & (POLLHUP | POLLERR)) != 0 ? 1 : 0;
}

template <size_t size>
void copy_text(char (&to)[size], std::string_view text) {
  memset(to, 0, size);
  text.copy(to, size - 1);
}

// One that is too long to be kept whole is none.
template <size_t size>
void copy_header(CURL* curl, const char* name, char (&to)[size]) {
  memset(to, 0, size);
  curl_header* header = nullptr;
  if (curl_easy_header(curl, name, 0, CURLH_HEADER, -1, &header) != CURLHE_OK) return;
  if (strlen(header->value) < size) copy_text(to, header->value);
}

bool begins_with(const char* text, std::string_view with) {
  return std::string_view(text).substr(0, with.size()) == with;
}

void add_header(Headers& headers, const char* name, const char* value) {
  if (*value == '\0') return;
  curl_slist* longer = curl_slist_append(headers.get(), (std::string(name) + ": " + value).c_str());
  if (longer == nullptr) return;
  (void)headers.release();
  headers.reset(longer);
}

void set_up(CURL* curl, const TransferRequest& ask, std::span<std::byte> certificates) {
  const long timeout = static_cast<long>(ask.timeout_s);
  // From https nobody leads back to what anybody on the way can read and change.
  const bool is_secure = begins_with(ask.url, "https:");
  curl_easy_setopt(curl, CURLOPT_URL, ask.url);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, is_secure ? "https" : "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, static_cast<long>(kMostRedirects));
  curl_easy_setopt(curl, CURLOPT_UNRESTRICTED_AUTH, 0L);  // user and password are for the host of the url alone
  curl_easy_setopt(curl, CURLOPT_PROXY, ask.proxy);       // "": none, whatever the environment says
  curl_easy_setopt(curl, CURLOPT_NOPROXY, "");
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(curl, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  if (!certificates.empty()) {
    curl_blob blob = {certificates.data(), certificates.size(), CURL_BLOB_COPY};
    curl_easy_setopt(curl, CURLOPT_CAINFO_BLOB, &blob);
    curl_easy_setopt(curl, CURLOPT_PROXY_CAINFO_BLOB, &blob);
    curl_easy_setopt(curl, CURLOPT_CAPATH, nullptr);
  }
  curl_easy_setopt(curl, CURLOPT_USERAGENT, ask.user_agent);
  curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "gzip");
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, timeout);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, static_cast<long>(kLeastSpeed));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, timeout);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, timeout * static_cast<long>(kMostTimeouts));
  curl_easy_setopt(curl, CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(ask.max_bytes));
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
}

TransferAnswer fetch(int socket, std::span<std::byte> shared, const TransferRequest& ask) {
  TransferAnswer answer = {};
  answer.result = TransferResult::failed;
  if (ask.max_bytes > shared.size() || ask.certificate_bytes > shared.size()) return answer;
  curl_global_init(CURL_GLOBAL_DEFAULT);
  const Curl owned(curl_easy_init());
  CURL* curl = owned.get();
  if (curl == nullptr) return answer;
  set_up(curl, ask, shared.first(ask.certificate_bytes));
  Headers headers;
  add_header(headers, "If-None-Match", ask.etag);
  add_header(headers, "If-Modified-Since", ask.last_modified);
  const bool is_conditional = headers != nullptr;
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  Transfer transfer = {curl, socket, shared, ask.max_bytes, 0, false, ask.may_be_private != 0, *ask.proxy != '\0', ""};
  if (const std::string own = host_of(ask.url); !own.empty() && !is_public_host(own)) transfer.may_be_private = true;
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, open_socket);
  curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, go_on);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  char why[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);

  const CURLcode code = curl_easy_perform(curl);
  answer.status = static_cast<uint32_t>(status_of(curl));
  curl_off_t retry_after = 0;
  if (curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &retry_after) == CURLE_OK && retry_after > 0) {
    answer.retry_after_s = static_cast<uint64_t>(retry_after);
  }
  const std::string most = std::to_string(ask.max_bytes);
  if (!transfer.led_to.empty() && code != CURLE_OK) {
    copy_text(answer.error, "a redirect leads to " + transfer.led_to +
                                ", which is not public: name it as the url, or write fetch: {private: true}");
  } else if (transfer.is_too_large || code == CURLE_FILESIZE_EXCEEDED) {
    copy_text(answer.error, "it is larger than " + most + " bytes (fetch: max_size)");
  } else if (answer.status >= 400 || (code == CURLE_WRITE_ERROR && answer.status != 200)) {
    copy_text(answer.error, "the server answers " + std::to_string(answer.status));
  } else if (code != CURLE_OK) {
    copy_text(answer.error, *why != '\0' ? why : curl_easy_strerror(code));
  } else if (answer.status == 304 && is_conditional) {
    answer.result = TransferResult::same;
  } else if (answer.status != 200) {
    copy_text(answer.error, "the server answers " + std::to_string(answer.status));
  } else {
    answer.result = TransferResult::taken;
    answer.bytes = transfer.taken;
    copy_header(curl, "ETag", answer.etag);
    copy_header(curl, "Last-Modified", answer.last_modified);
  }
  return answer;
}

void answer_one(int socket, std::span<std::byte> shared) {
  TransferRequest ask = {};
  if (confine::hear(socket, std::as_writable_bytes(std::span(&ask, 1))) != sizeof ask) return;
  const TransferAnswer answer = fetch(socket, shared, ask);
  (void)confine::tell(socket, std::as_bytes(std::span(&answer, 1)));
}

}  // namespace

const confine::Job kFetchJob = {"weir-fetch", kCpuSeconds, answer_one, &kNetworkReach};

}  // namespace weir::control
