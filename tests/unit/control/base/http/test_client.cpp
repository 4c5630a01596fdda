#include <sys/eventfd.h>

#include <atomic>

#include "control/base/http/client.h"
#include "tests/catch.h"
#include "tests/unit/eventually.h"
#include "tests/unit/http_server.h"

namespace weir::control {
namespace {

HttpRequest get(const std::string& url) {
  HttpRequest request;
  request.url = url;
  return request;
}

bool holds(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

std::atomic<bool> has_returned = false;

// Begins an answer, and goes on with nothing until the client has returned to the test.
std::string silent(const HttpServer::Asked&, const HttpServer::Send& more) {
  (void)more("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
  (void)eventually([] { return has_returned.load(); });
  return "";
}

Result<HttpAnswer> ask_silent(HttpClient& client, const HttpRequest& request) {
  has_returned = false;
  Result<HttpAnswer> answer = client.ask(request);
  has_returned = true;
  return answer;
}

}  // namespace

TEST_CASE("an HTTP client gets what the server says, with the request's headers, over one connection") {
  HttpServer server(
      [](const HttpServer::Asked& asked, const HttpServer::Send&) { return HttpServer::ok(asked.path()); });
  HttpClient client;
  HttpRequest request = get(server.url() + "/a?b=c");
  request.headers = {"X-Api-Key: of the test"};
  for (int i = 0; i < 3; i++) {
    const Result<HttpAnswer> answer = client.ask(request);
    REQUIRE(answer);
    CHECK(answer->status == 200);
    CHECK(answer->body == "/a?b=c");
    CHECK_FALSE(answer->is_stopped);
  }
  REQUIRE(server.asked().size() == 3);
  CHECK(server.asked()[2].connection == 0);
  CHECK(holds(server.asked()[2].head, "GET /a?b=c HTTP/1.1\r\n"));
  CHECK(holds(server.asked()[2].head, "X-Api-Key: of the test\r\n"));
}

TEST_CASE("an HTTP client sends a body, also a long one, as it is") {
  HttpServer server(
      [](const HttpServer::Asked& asked, const HttpServer::Send&) { return HttpServer::ok(asked.body.substr(0, 9)); });
  HttpClient client;
  HttpRequest request = get(server.url());
  request.method = "POST";
  request.headers = {"Content-Type: application/json"};
  for (const size_t n : {size_t(2), size_t(3) << 20}) {
    request.body = "{}" + std::string(n - 2, ' ');
    const Result<HttpAnswer> answer = client.ask(request);
    REQUIRE(answer);
    CHECK(answer->body == request.body.substr(0, 9));
    CHECK(server.asked().back().body == request.body);
    CHECK(holds(server.asked().back().head, "POST / HTTP/1.1\r\n"));
    CHECK(holds(server.asked().back().head, "Content-Type: application/json\r\n"));
    CHECK_FALSE(holds(server.asked().back().head, "Expect"));
  }
}

TEST_CASE("every status is an answer, and no redirect is followed") {
  HttpServer server([](const HttpServer::Asked& asked, const HttpServer::Send&) {
    if (asked.path() == "/moved")
      return std::string("HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n");
    return HttpServer::ok("no", "403 Forbidden");
  });
  HttpClient client;
  HttpRequest request = get(server.url() + "/moved");
  CHECK(client.ask(request)->status == 302);
  request.url = server.url();
  bool is_fed = false;
  request.on_data = [&](std::string_view) { return is_fed = true; };
  const Result<HttpAnswer> refused = client.ask(request);
  REQUIRE(refused);
  CHECK(refused->status == 403);
  CHECK(refused->body == "no");
  CHECK_FALSE(is_fed);
  CHECK(server.asked().size() == 2);
}

TEST_CASE("an answer is kept up to the most that is asked for") {
  HttpServer server([](const HttpServer::Asked& asked, const HttpServer::Send& more) {
    if (asked.path() == "/named") return HttpServer::ok(std::string(1001, 'x'));
    (void)more("HTTP/1.1 200 OK\r\n\r\n");
    (void)more(std::string(1001, 'x'));
    return std::string();
  });
  HttpClient client;
  for (const char* path : {"/named", "/unnamed"}) {
    HttpRequest request = get(server.url() + path);
    request.max_bytes = 1001;
    REQUIRE(client.ask(request));
    CHECK(client.ask(request)->body.size() == 1001);
    request.max_bytes = 1000;
    const Result<HttpAnswer> answer = client.ask(request);
    REQUIRE_FALSE(answer);
    CHECK(answer.error() == request.url + ": the answer is longer than 1000 bytes");
  }
}

TEST_CASE("no answer, half an answer and what is no HTTP are errors that name the url") {
  HttpServer server([](const HttpServer::Asked& asked, const HttpServer::Send&) {
    if (asked.path() == "/half") return std::string("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    if (asked.path() == "/other") return std::string("SSH-2.0-OpenSSH_9.2p1\r\n\r\n");
    return std::string();
  });
  HttpClient client;
  for (const char* path : {"/half", "/other", "/nothing"}) {
    HttpRequest request = get(server.url() + path);
    request.timeout_ms = 300;
    const Result<HttpAnswer> answer = client.ask(request);
    REQUIRE_FALSE(answer);
    CHECK(answer.error().rfind(request.url + ": ", 0) == 0);
  }
  const std::string free_port = HttpServer([](auto&&...) { return ""; }).url();
  const Result<HttpAnswer> nobody = client.ask(get(free_port));
  REQUIRE_FALSE(nobody);
  CHECK(holds(nobody.error(), free_port.c_str()));
  CHECK_FALSE(holds(nobody.error(), " ms"));
}

TEST_CASE("a server that is silent is waited for as long as was asked for") {
  HttpServer server(silent);
  HttpClient client;
  HttpRequest request = get(server.url());
  request.timeout_ms = 200;
  const Result<HttpAnswer> answer = ask_silent(client, request);
  REQUIRE_FALSE(answer);
  CHECK(holds(answer.error(), "timed out"));
  CHECK_FALSE(holds(answer.error(), "milliseconds"));
}

TEST_CASE("an answer that goes on is taken as it arrives, without a limit, until nobody wants more") {
  HttpServer server([](const HttpServer::Asked&, const HttpServer::Send& more) {
    (void)more("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    while (more("5\r\nagain\r\n")) {
    }
    return std::string();
  });
  HttpClient client;
  HttpRequest request = get(server.url());
  request.timeout_ms = 0;
  request.max_bytes = 10;
  size_t taken = 0;
  request.on_data = [&](std::string_view bytes) { return (taken += bytes.size()) < 5000; };
  const Result<HttpAnswer> answer = client.ask(request);
  REQUIRE(answer);
  CHECK(answer->is_stopped);
  CHECK(answer->status == 200);
  CHECK(answer->body.empty());
  CHECK(taken >= 5000);
}

TEST_CASE("a transfer is stopped from elsewhere, and the client goes on with the next one") {
  HttpServer server([](const HttpServer::Asked& asked, const HttpServer::Send& more) {
    return asked.path() == "/silent" ? silent(asked, more) : HttpServer::ok("next");
  });
  HttpClient client;
  HttpRequest request = get(server.url() + "/silent");
  std::atomic<bool> is_stopped = false;
  const Fd stop(eventfd(0, EFD_CLOEXEC));
  SECTION("by a question") {
    request.is_stopped = [&] { return is_stopped.load(); };
  }
  SECTION("by a descriptor") {
    request.stop_fd = stop.get();
  }
  request.on_data = [&](std::string_view bytes) {
    CHECK(bytes == "first");
    is_stopped = true;
    CHECK(eventfd_write(stop.get(), 1) == 0);
    return true;
  };
  const Result<HttpAnswer> answer = ask_silent(client, request);
  REQUIRE(answer);
  CHECK(answer->is_stopped);
  const Result<HttpAnswer> next = client.ask(get(server.url() + "/"));
  REQUIRE(next);
  CHECK(next->body == "next");
}

TEST_CASE("what is no url, and a header that would be two, are not sent") {
  HttpClient client;
  for (const char* url : {"", "127.0.0.1", "ftp://a/", "file:///etc/passwd", "http://", "http:///a", "http://:80/",
                          "http://a b/", "http://user:secret@a/", "http://a/\r\nX: y"}) {
    INFO(url);
    CHECK_FALSE(check_http_url(url));
    const Result<HttpAnswer> answer = client.ask(get(url));
    REQUIRE_FALSE(answer);
    CHECK_FALSE(holds(answer.error(), "secret"));
  }
  for (const char* url : {"http://a", "https://a.example:8080/b?c=@d", "http://[::1]:80/"}) CHECK(check_http_url(url));
  HttpServer server([](auto&&...) { return HttpServer::ok(""); });
  HttpRequest request = get(server.url());
  request.headers = {"A: b\r\nC: d"};
  CHECK_FALSE(client.ask(request));
  CHECK(server.asked().empty());
}

}  // namespace weir::control
