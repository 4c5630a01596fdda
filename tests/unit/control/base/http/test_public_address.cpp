// Which addresses a redirect may lead to.
#include <arpa/inet.h>
#include <netinet/in.h>

#include "control/base/http/public_address.h"
#include "tests/catch.h"

using namespace weir::control;

TEST_CASE("addresses of this machine, of its link and of private networks are not public") {
  for (const char* host : {"0.0.0.0",
                           "0.1.2.3",
                           "10.0.0.1",
                           "10.255.255.255",
                           "100.64.0.1",
                           "100.127.255.255",
                           "127.0.0.1",
                           "127.255.255.255",
                           "169.254.169.254",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.168.0.1",
                           "192.168.255.255",
                           "224.0.0.1",
                           "255.255.255.255",
                           "127.1",
                           "0x7f000001",
                           "2130706433",
                           "::",
                           "::1",
                           "[::1]",
                           "::127.0.0.1",
                           "::ffff:127.0.0.1",
                           "[::ffff:10.0.0.1]",
                           "64:ff9b::10.0.0.1",
                           "2002:7f00:1::",
                           "2002:c0a8:101::1",
                           "fc00::1",
                           "fdff::1",
                           "fe80::1",
                           "fe80::1%eth0",
                           "febf::1",
                           "fec0::1",
                           "ff02::1",
                           "localhost",
                           "LOCALHOST",
                           "localhost.",
                           "a.localhost",
                           ""}) {
    INFO(host);
    CHECK_FALSE(is_public_host(host));
  }
  for (const char* host :
       {"1.1.1.1",         "9.255.255.255",     "11.0.0.0",         "100.63.255.255",        "100.128.0.0",
        "126.255.255.255", "128.0.0.0",         "169.253.255.255",  "169.255.0.0",           "172.15.255.255",
        "172.32.0.0",      "192.0.2.1",         "192.167.255.255",  "192.169.0.0",           "223.255.255.255",
        "2001:db8::1",     "[2606:4700::1111]", "64:ff9b::1.1.1.1", "2002:101:101::1",       "::ffff:1.1.1.1",
        "fbff::1",         "fe00::1",           "example.net",      "localhost.example.net", "notlocalhost"}) {
    INFO(host);
    CHECK(is_public_host(host));
  }
}

TEST_CASE("what is no address of the internet is not public") {
  sockaddr other = {};
  other.sa_family = AF_UNIX;
  CHECK_FALSE(is_public(&other));
}
