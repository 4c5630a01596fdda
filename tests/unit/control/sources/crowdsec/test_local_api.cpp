#include <sys/eventfd.h>

#include "control/sources/crowdsec/local_api.h"
#include "tests/catch.h"
#include "tests/unit/eventually.h"
#include "tests/unit/folder.h"
#include "tests/unit/http_server.h"

namespace weir::control::crowdsec {
namespace {

// What is asked of a server that answers so.
std::string error_of(const std::string& answer) {
  HttpServer server([&](auto&&...) { return answer; });
  const Result<std::optional<Decisions>> decisions = LocalApi({server.url() + "/", "key", {}}).ask(true, -1);
  REQUIRE_FALSE(decisions);
  std::string error = decisions.error();
  for (size_t at = error.find(server.url()); at != std::string::npos; at = error.find(server.url())) {
    error.replace(at, server.url().size(), "URL");
  }
  return error;
}

}  // namespace

TEST_CASE("the local API is asked for all and for news, with the key") {
  HttpServer server([](auto&&...) {
    return HttpServer::ok(
        R"({"new":[{"id":1,"scope":"Ip","value":"192.0.2.1","type":"ban","duration":"1h"}],"deleted":null})");
  });
  LocalApi api({server.url() + "/", "secret", {}});
  const Result<std::optional<Decisions>> all = api.ask(true, -1);
  REQUIRE(all);
  REQUIRE(*all);
  CHECK((*all)->added.size() == 1);
  api.set_key("other");
  REQUIRE(api.ask(false, -1));
  const std::vector<HttpServer::Asked> asked = server.asked();
  REQUIRE(asked.size() == 2);
  CHECK(asked[0].path() == "/v1/decisions/stream?startup=true&dedup=false&scopes=ip,range,country,as");
  CHECK(asked[1].path() == "/v1/decisions/stream?startup=false&dedup=false&scopes=ip,range,country,as");
  CHECK(asked[0].head.find("\r\nX-Api-Key: secret\r\n") != std::string::npos);
  CHECK(asked[1].head.find("\r\nX-Api-Key: other\r\n") != std::string::npos);
  CHECK(asked[1].connection == 0);
}

TEST_CASE("an answer of the local API that is none is an error of one line that never holds the key") {
  CHECK(error_of(HttpServer::ok(R"({"message":"access forbidden"})", "403 Forbidden")) ==
        "URL/ answers 403: access forbidden (is it the key that `cscli bouncers add` printed?)");
  CHECK(error_of(HttpServer::ok(R"({"message":"a\nb)" + std::string(500, 'x') + "\"}", "500 Oh")) ==
        "URL/ answers 500: a b" + std::string(197, 'x'));
  CHECK(error_of(HttpServer::ok("<html>", "404 Not Found")) ==
        "URL/ answers 404 (is it the address of CrowdSec's local API?)");
  CHECK(error_of("HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n") ==
        "URL/ answers 302 (it leads elsewhere: name that address)");
  CHECK(error_of(HttpServer::ok("<html>")) == "the answer of URL/ is not understood: it is not a JSON object");
  CHECK(error_of(HttpServer::ok(R"({"new":[{"id":"x"}]})")) ==
        "the answer of URL/ is not understood: member new[0].id is not a whole number from 0 on");
  const std::string long_one =
      error_of("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + std::string(67108865, ' '));
  CHECK(long_one == "URL/: the answer is longer than 67108864 bytes");
}

TEST_CASE("a silent local API is waited for until somebody wants no more") {
  std::atomic<bool> has_returned = false;
  HttpServer server([&](auto&&...) {
    (void)eventually([&] { return has_returned.load(); });
    return "";
  });
  const Fd stop(eventfd(1, EFD_CLOEXEC));
  const Result<std::optional<Decisions>> stopped = LocalApi({server.url(), "key", {}}).ask(true, stop.get());
  has_returned = true;
  REQUIRE(stopped);
  CHECK_FALSE(*stopped);
}

TEST_CASE("a key is the first line of a file") {
  const Folder folder;
  CHECK(*read_key(folder.write("a", "0123456789abcdef\n")) == "0123456789abcdef");
  CHECK(*read_key(folder.write("b", "key \r\nmore")) == "key");
  for (const char* text : {"", "\n", "two words\n", "\xc3\xa4\n", "a\x01\n"}) {
    const Result<std::string> key = read_key(folder.write("c", text));
    REQUIRE_FALSE(key);
    CHECK(key.error().find(folder / "c") != std::string::npos);
  }
  CHECK_FALSE(read_key(folder / "none"));
  CHECK_FALSE(read_key(folder.write("long", std::string(5000, 'x'))));
}

}  // namespace weir::control::crowdsec
