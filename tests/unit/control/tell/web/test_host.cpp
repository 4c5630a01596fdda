// Who may be asked for: addresses, localhost and the machine's own name, and nothing else.
#include "control/tell/web/host.h"
#include "tests/catch.h"

using weir::control::web::is_own_host;

TEST_CASE("a request is for this machine by address, as localhost, or by its own name") {
  struct Row {
    const char* host;
    bool is_own;
  };
  const Row rows[] = {
      {"127.0.0.1", true},
      {"127.0.0.1:9617", true},
      {"192.0.2.7:80", true},
      {"[::1]", true},
      {"[::1]:9617", true},
      {"[2001:db8::7]:9617", true},
      {"localhost", true},
      {"LocalHost:9617", true},
      {"localhost.:9617", true},
      {"rack7.example.net", true},
      {"RACK7.example.net:9617", true},
      {"rack7:9617", true},
      {"", false},
      {":9617", false},
      {".", false},
      {"evil.example.com", false},
      {"rack7.evil.com:9617", false},
      {"localhost.evil.com", false},
      {"127.0.0.1.evil.com", false},
      {"127.0.0.1:9617.evil.com", false},
      {"127.0.0.1:", false},
      {"127.0.0.1:x", false},
      {"127.0.0.1:123456", false},
      {"127.0.0.256", false},
      {"127.1", false},
      {"::1", false},
      {"[::1", false},
      {"[::1]x", false},
      {"[::1]:", false},
      {"[localhost]", false},
      {"[]", false},
      {"user@127.0.0.1", false},
      {"127.0.0.1 ", false},
  };
  for (const Row& row : rows) {
    INFO(row.host);
    CHECK(is_own_host(row.host, "rack7.example.net") == row.is_own);
  }
  CHECK_FALSE(is_own_host("rack7", ""));
  CHECK_FALSE(is_own_host("", ""));
}
