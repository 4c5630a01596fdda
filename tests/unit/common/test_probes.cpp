#include "common/probes.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::wire;

namespace {

Message message_of(const std::vector<std::byte>& body) {
  Message message;
  message.body = body;
  return message;
}

}  // namespace

TEST_CASE("what filters were asked comes back as it was sent, and only when all of it is there and can be") {
  Probes probes;
  probes.body.generation = {7, 8};
  probes.body.digest[1] = 9;
  probes.body.base_digest[0] = 10;
  probes.shapes = {{2, 0, 1000, 20, 15, 700, 3}, {0, 1, 50, 2, 1, 40, 40}};
  const std::vector<std::byte> bytes = encode_probes(probes);
  const std::optional<Probes> again = probes_from(message_of(bytes));
  REQUIRE(again);
  CHECK(again->body.generation == probes.body.generation);
  CHECK(again->body.digest[1] == 9);
  CHECK(again->body.base_digest[0] == 10);
  REQUIRE(again->shapes.size() == 2);
  CHECK(again->shapes[0].shape == 2);
  CHECK(again->shapes[0].let_through == 20);
  CHECK(again->shapes[1].of_overlay == 1);
  CHECK(again->shapes[1].absent_let_through == 40);

  for (size_t length = 0; length < bytes.size(); length++) {
    CHECK_FALSE(probes_from(message_of({bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length)})));
  }
  std::vector<std::byte> more = bytes;
  more.push_back({});
  CHECK_FALSE(probes_from(message_of(more)));
  Probes lies = probes;
  lies.shapes[0].absent_let_through = lies.shapes[0].absent + 1;
  CHECK_FALSE(probes_from(message_of(encode_probes(lies))));
  lies = probes;
  lies.shapes[1].of_overlay = 2;
  CHECK_FALSE(probes_from(message_of(encode_probes(lies))));
  lies = probes;
  lies.shapes.resize(kMaxProbed + 1);
  CHECK_FALSE(probes_from(message_of(encode_probes(lies))));
  CHECK(probes_from(message_of(encode_probes({}))));
}
