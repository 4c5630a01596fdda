#include <cerrno>

#include "common/again.h"
#include "tests/catch.h"

using namespace weir;

TEST_CASE("a call that a signal interrupted is made again") {
  int calls = 0;
  CHECK(not_interrupted([&] { return calls++ < 3 ? (errno = EINTR, -1) : 7; }) == 7);
  CHECK(calls == 4);
}

TEST_CASE("a call that failed for another reason, or did nothing, is made once") {
  int calls = 0;
  CHECK(not_interrupted([&] { return calls++, errno = EAGAIN, ssize_t{-1}; }) == -1);
  CHECK(errno == EAGAIN);
  CHECK(calls == 1);
  errno = EINTR;
  CHECK(not_interrupted([&] { return calls++, 0; }) == 0);
  CHECK(calls == 2);
}

TEST_CASE("a send is made again after an interruption and while there is no memory, and not for ever") {
  int calls = 0;
  CHECK(send_again([&]() -> ssize_t {
          switch (calls++) {
            case 0:
              return errno = EINTR, -1;
            case 1:
              return errno = ENOBUFS, -1;
            default:
              return 5;
          }
        }) == 5);
  CHECK(calls == 3);
  calls = 0;
  CHECK(send_again([&]() -> ssize_t { return calls++, errno = ENOMEM, -1; }) == -1);
  CHECK(errno == ENOMEM);
  CHECK(calls == 6);
  calls = 0;
  CHECK(send_again([&]() -> ssize_t { return calls++, errno = EPIPE, -1; }) == -1);
  CHECK(calls == 1);
}
