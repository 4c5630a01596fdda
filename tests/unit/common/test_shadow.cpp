// What is told of a shadow, on its way.
#include <cstring>

#include "common/shadow.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::wire;

namespace {

Shadow some_shadow(size_t n_lists, size_t n_samples) {
  Shadow shadow;
  shadow.body.on = 1;
  shadow.body.newly_passed = 7;
  shadow.lists.resize(n_lists);
  for (size_t i = 0; i < n_lists; i++) {
    set_text(shadow.lists[i].name, "list-" + std::to_string(i));
    shadow.lists[i].newly_dropped = i;
  }
  shadow.samples.resize(n_samples);
  for (size_t i = 0; i < n_samples; i++) {
    shadow.samples[i].frame_bytes = static_cast<uint32_t>(60 + i);
    shadow.samples[i].by_candidate.dropped = 1;
    set_text(shadow.samples[i].by_candidate.list, "fresh");
  }
  return shadow;
}

Message message_of(std::vector<std::byte> body) {
  Message message;
  message.body = std::move(body);
  return message;
}

}  // namespace

TEST_CASE("what is told of a shadow is read as it was written, and no part of it is") {
  const Shadow written = some_shadow(3, 5);
  const Message message = message_of(encode_shadow(written));
  const std::optional<Shadow> read = shadow_from(message);
  REQUIRE(read);
  CHECK(read->body.on == 1);
  CHECK(read->body.newly_passed == 7);
  REQUIRE(read->lists.size() == 3);
  REQUIRE(read->samples.size() == 5);
  for (size_t i = 0; i < 3; i++) CHECK(memcmp(&read->lists[i], &written.lists[i], sizeof(ShadowList)) == 0);
  for (size_t i = 0; i < 5; i++) CHECK(memcmp(&read->samples[i], &written.samples[i], sizeof(ShadowSample)) == 0);
  for (size_t cut = 1; cut < message.body.size(); cut++) {
    CHECK_FALSE(shadow_from(message_of({message.body.begin(), message.body.end() - static_cast<ptrdiff_t>(cut)})));
  }
}

TEST_CASE("counts and verdicts that lie are refused") {
  const auto is_refused = [](auto change) {
    Shadow wrong = some_shadow(1, 2);
    change(wrong);
    return !shadow_from(message_of(encode_shadow(wrong)));
  };
  CHECK_FALSE(is_refused([](Shadow&) {}));
  CHECK(is_refused([](Shadow& s) { s.samples[0].by_running.dropped = 1; }));  // both drop: that is no difference
  CHECK(is_refused([](Shadow& s) { s.samples[1].by_candidate.dropped = 2; }));
  CHECK(is_refused([](Shadow& s) { s.samples[1].by_running.by = DroppedBy(9); }));
  std::vector<std::byte> body = encode_shadow(some_shadow(0, 0));
  ShadowBody head;
  head.n_lists = UINT32_MAX;
  head.n_samples = UINT32_MAX;
  memcpy(body.data(), &head, sizeof head);
  CHECK_FALSE(shadow_from(message_of(body)));
}

TEST_CASE("what does not fit into one message is left out") {
  const std::vector<std::byte> body = encode_shadow(some_shadow(kMaxShadowLists + 5, 10'000));
  CHECK(sizeof(Header) + body.size() <= kMaxMessageBytes);
  const std::optional<Shadow> read = shadow_from(message_of(body));
  REQUIRE(read);
  CHECK(read->lists.size() == kMaxShadowLists);
  CHECK(read->samples.size() == most_shadow_samples(kMaxShadowLists));
}
