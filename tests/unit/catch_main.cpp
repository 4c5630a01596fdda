// The one translation unit with Catch2's main(): every unit test program links it.
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

// A test program that the machine may not be able to run defines it (tests/catch.h).
__attribute__((weak)) int before_tests() {
  return 0;
}

int main(int argc, char** argv) {
  const int code = before_tests();
  return code != 0 ? code : Catch::Session().run(argc, argv);
}
