#include "common/key_window.h"
#include "tests/catch.h"

using namespace weir;

namespace {

// As far apart as a keyed hash puts keys.
uint64_t hash_of(uint64_t key) {
  uint64_t hash = key + 0x9e3779b97f4a7c15;  // splitmix64, Vigna 2015
  hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ hash >> 27) * 0x94d049bb133111eb;
  return hash ^ hash >> 31;
}

}  // namespace

TEST_CASE("a key counts once, however often it comes") {
  KeyWindow window;
  for (int times = 0; times < 1000; times++) {
    for (uint64_t key = 0; key < 100; key++) window.take(hash_of(key), key < 3);
  }
  CHECK(window.keys() == 100);
  CHECK(window.let_through() == 3);
}

TEST_CASE("the oldest keys are forgotten by halves, and no key is in both") {
  constexpr uint64_t kHalf = 1000;
  KeyWindow window(kHalf);
  for (uint64_t key = 0; key < kHalf; key++) window.take(hash_of(key), true);
  CHECK(window.keys() == kHalf);
  // Half of the older half comes again, beside as many new ones.
  for (uint64_t key = kHalf / 2; key < kHalf + kHalf / 2 - 1; key++) window.take(hash_of(key), key < kHalf);
  CHECK(window.keys() == kHalf + kHalf / 2 - 1);
  CHECK(window.let_through() == kHalf);
  window.take(hash_of(5000), false);  // the younger half is full: what did not come again is gone
  CHECK(window.keys() == kHalf);
  CHECK(window.let_through() == kHalf / 2);
  for (uint64_t key = 10000; key < 10000 + 5 * kHalf; key++) window.take(hash_of(key), false);
  CHECK(window.let_through() == 0);
  CHECK(window.keys() <= 2 * kHalf);
}

TEST_CASE("old keys go, also when nothing comes often") {
  KeyWindow window;
  window.age(1000);
  for (uint64_t key = 0; key < 10; key++) window.take(hash_of(key), true);
  window.age(1001);
  window.age(1000 + KeyWindow::kHalfSeconds);
  CHECK(window.keys() == 10);
  window.take(hash_of(100), false);
  window.age(1002 + KeyWindow::kHalfSeconds);
  CHECK(window.keys() == 11);
  window.age(1001 + 2 * KeyWindow::kHalfSeconds);
  window.age(1003 + 2 * KeyWindow::kHalfSeconds);
  CHECK(window.keys() == 1);  // the ten are too old
  CHECK(window.let_through() == 0);
}
