#include "control/sources/crowdsec/local_api.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/files.h"
#include "control/base/json/json.h"

namespace weir::control::crowdsec {
namespace {

constexpr size_t kMostAnswer = 64 << 20;  // 350,000 decisions
constexpr size_t kMostKey = 1024;
constexpr size_t kMostMessage = 200;
constexpr int kAnswerMs = 60'000;

bool is_visible(char c) {
  return static_cast<unsigned char>(c) > 0x20 && static_cast<unsigned char>(c) < 0x7f;
}

// What an answer that is no 200 says, as it may be shown; empty: nothing.
std::string message_of(const std::string& body) {
  const Result<Document> document = Document::parse(body);
  std::string text = document ? document->text("message").value_or("") : "";
  if (text.size() > kMostMessage) text.resize(kMostMessage);
  for (char& c : text) {
    if (!is_visible(c)) c = ' ';
  }
  return text.empty() ? "" : ": " + text;
}

std::string hint_of(long status) {
  if (status == 401 || status == 403) return " (is it the key that `cscli bouncers add` printed?)";
  if (status == 404) return " (is it the address of CrowdSec's local API?)";
  if (status / 100 == 3) return " (it leads elsewhere: name that address)";
  return "";
}

}  // namespace

Result<std::string> read_key(const std::string& path) {
  const Result<std::string> text = read_file(path, kMostKey);
  if (!text) return Error{text.error()};
  std::string key = text->substr(0, text->find('\n'));
  while (!key.empty() && (key.back() == '\r' || key.back() == ' ')) key.pop_back();
  if (key.empty()) return Error{path + " holds no key: `cscli bouncers add NAME -o raw` prints one"};
  if (!std::all_of(key.begin(), key.end(), is_visible)) {
    return Error{"the first line of " + path + " is no key: it holds blanks, or what is no ASCII"};
  }
  return key;
}

Result<std::optional<Decisions>> LocalApi::ask(bool for_all, int stop_fd) {
  const std::string base = access_.url.substr(0, access_.url.find_last_not_of('/') + 1);
  HttpRequest request;
  // Each decision, also where another one about the same address lasts longer; and those about countries and networks
  // of others, to say that they are there.
  request.url = fmt::format("{}/v1/decisions/stream?startup={}&dedup=false&scopes=ip,range,country,as", base, for_all);
  if (!access_.key.empty()) request.headers.push_back("X-Api-Key: " + access_.key);
  request.tls = access_.tls;
  request.timeout_ms = kAnswerMs;
  request.max_bytes = kMostAnswer;
  request.stop_fd = stop_fd;
  const Result<HttpAnswer> answer = client_.ask(request);
  if (!answer) {  // what was asked is of no interest to who reads it
    const size_t shown = answer.error().starts_with(request.url) ? request.url.size() : 0;
    return Error{shown == 0 ? answer.error() : access_.url + answer.error().substr(shown)};
  }
  if (answer->is_stopped) return std::optional<Decisions>();
  if (answer->status != 200) {
    return Error{fmt::format("{} answers {}{}{}", access_.url, answer->status, message_of(answer->body),
                             hint_of(answer->status))};
  }
  Result<Decisions> decisions = read_decisions(answer->body);
  if (!decisions) return Error{fmt::format("the answer of {} is not understood: {}", access_.url, decisions.error())};
  return std::optional<Decisions>(std::move(*decisions));
}

}  // namespace weir::control::crowdsec
