// What the server of the XDP plane does with whatever it is sent, without an enforcer: it never comes to that here.
// With one, and the kernel: tests/smoke/test_xdp_target.py.
#include <poll.h>
#include <sys/socket.h>

#include "bpf/enforce/server.h"
#include "common/telemetry.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::xdp;

namespace {

std::unique_ptr<Server> serving_nothing() {
  return std::make_unique<Server>(nullptr, "/nowhere", std::chrono::hours(1));
}

std::string refusal(int socket) {
  const Result<wire::Message> answer = wire::receive(socket);
  REQUIRE(answer);
  CHECK(answer->header.type == static_cast<uint16_t>(wire::Type::refused));
  const std::optional<wire::TextBody> text = wire::body_as<wire::TextBody>(*answer);
  REQUIRE(text);
  return wire::get_text(text->text);
}

bool is_closed(int socket) {
  const Result<wire::Message> answer = wire::receive(socket);
  return !answer && answer.error() == "closed by the peer";
}

}  // namespace

TEST_CASE("what XDP has not is refused in words, and the connection goes on") {
  const std::unique_ptr<Server> server = serving_nothing();
  const Result<Fd> client = server->connect();
  REQUIRE(client);
  for (int round = 0; round < 2; round++) {
    REQUIRE(wire::send(client->get(), wire::Type::telemetry, 7, wire::bytes_of(wire::TelemetryRequest{})));
    CHECK(refusal(client->get()).find("no workers") != std::string::npos);
    REQUIRE(wire::send(client->get(), wire::Type::samples, 7, wire::bytes_of(wire::SamplingBody{1, 1, 513, 0})));
    CHECK(refusal(client->get()).find("wrong size") != std::string::npos);
  }
  const std::vector<std::byte> odd(7);
  for (const wire::Type type : {wire::Type::publish, wire::Type::bypass, wire::Type::samples, wire::Type::traffic,
                                wire::Type::detach, wire::Type::shadow}) {
    for (const std::span<const std::byte> body : {std::span<const std::byte>(), std::span<const std::byte>(odd)}) {
      REQUIRE(wire::send(client->get(), type, 7, body));
      CHECK(refusal(client->get()).find("wrong size") != std::string::npos);
    }
  }
  REQUIRE(wire::send(client->get(), wire::Type::refused, 7, {}));
  CHECK_FALSE(refusal(client->get()).empty());
}

TEST_CASE("what is no message ends its connection, and no other") {
  const std::unique_ptr<Server> server = serving_nothing();
  const Result<Fd> good = server->connect();
  REQUIRE(good);
  const std::vector<std::byte> valid = wire::encode(wire::Type::status, 1, {});
  std::vector<std::vector<std::byte>> bad = {std::vector<std::byte>(1), std::vector<std::byte>(16),
                                             std::vector<std::byte>(wire::kMaxMessageBytes + 1)};
  for (const size_t at : {0, 4, 6, 8}) {  // magic, version, type, length
    bad.push_back(valid);
    bad.back()[at] = std::byte{0xee};
  }
  for (const std::vector<std::byte>& packet : bad) {
    const Result<Fd> client = server->connect();
    REQUIRE(client);
    REQUIRE(send(client->get(), packet.data(), packet.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(packet.size()));
    CHECK_FALSE(refusal(client->get()).empty());
    CHECK(is_closed(client->get()));
  }
  REQUIRE(wire::send(good->get(), wire::Type::telemetry, 7, wire::bytes_of(wire::TelemetryRequest{})));
  CHECK_FALSE(refusal(good->get()).empty());
}

TEST_CASE("a client that does not read is closed, and holds nobody") {
  const std::unique_ptr<Server> server = serving_nothing();
  const Result<Fd> silent = server->connect(), other = server->connect();
  REQUIRE(silent);
  REQUIRE(other);
  const wire::TelemetryRequest request;
  while (wire::send(silent->get(), wire::Type::telemetry, 7, wire::bytes_of(request))) {
  }
  REQUIRE(wire::send(other->get(), wire::Type::telemetry, 7, wire::bytes_of(request)));
  CHECK_FALSE(refusal(other->get()).empty());
}

TEST_CASE("the end of the server is the end of its connections") {
  std::unique_ptr<Server> server = serving_nothing();
  const Result<Fd> client = server->connect();
  REQUIRE(client);
  REQUIRE(wire::send(client->get(), wire::Type::telemetry, 7, wire::bytes_of(wire::TelemetryRequest{})));
  CHECK_FALSE(refusal(client->get()).empty());
  const Result<Fd> late = server->connect();
  REQUIRE(late);
  server.reset();
  CHECK(is_closed(client->get()));
  CHECK(is_closed(late->get()));
}
