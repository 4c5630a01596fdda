// Where to listen, as a policy and a command line say it.
#include "control/policy/model/listen.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::control;

TEST_CASE("an address to listen at is read and written") {
  for (const char* text :
       {"127.0.0.1:9617", "0.0.0.0:1", "192.0.2.1:65535", "[::1]:9617", "[::]:0", "[2001:db8::7]:80"}) {
    INFO(text);
    const Result<ListenAddress> address = parse_listen_address(text);
    REQUIRE(address);
    CHECK(text_of(*address) == text);
  }
  for (const char* text :
       {"", ":", "127.0.0.1", "127.0.0.1:", ":9617", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1: 1", "127.0.0.1:1x",
        "127.1:80", "::1:9617", "[::1:9617", "[::1]9617", "[127.0.0.1]:80", "localhost:9617", "[]:1", "[:1"}) {
    INFO(text);
    CHECK_FALSE(parse_listen_address(text));
  }
}

TEST_CASE("loopback, every interface, off") {
  CHECK(is_loopback(*parse_listen_address("127.0.0.1:1")));
  CHECK(is_loopback(*parse_listen_address("127.9.9.9:1")));
  CHECK(is_loopback(*parse_listen_address("[::1]:1")));
  CHECK_FALSE(is_loopback(*parse_listen_address("0.0.0.0:1")));
  CHECK_FALSE(is_loopback(*parse_listen_address("[::]:1")));
  CHECK(is_any(*parse_listen_address("[::]:1")));
  CHECK(is_any(*parse_listen_address("0.0.0.0:1")));
  CHECK_FALSE(is_any(*parse_listen_address("[::1]:1")));
  CHECK(text_of(*MetricsSettings().listen) == "127.0.0.1:9617");
  const Result<MetricsSettings> off = parse_metrics_settings("off");
  REQUIRE(off);
  CHECK_FALSE(off->listen);
  CHECK_FALSE(parse_metrics_settings("on"));
}
