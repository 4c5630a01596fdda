// Clients of every kind, and what a data plane remembers and leaves behind for the next one.
#include <sys/socket.h>

#include <fstream>

#include "tests/unit/dataplane/plane.h"
#include "tests/unit/folder.h"
#include "tests/unit/stale_socket.h"

using namespace weir;
using namespace weir::dataplane;
using namespace weir::test;

TEST_CASE("hostile messages are refused in words, and the next client is served") {
  const Folder folder;
  const Plane plane(folder.path());
  const auto refusal = [&](std::span<const std::byte> packet) {
    const Fd socket = plane.client();
    REQUIRE(send(socket.get(), packet.data(), packet.size(), 0) == static_cast<ssize_t>(packet.size()));
    const Result<wire::Message> answer = wire::receive(socket.get());
    REQUIRE(answer);
    CHECK(answer->header.type == static_cast<uint16_t>(wire::Type::refused));
    return wire::get_text(wire::body_as<wire::TextBody>(*answer)->text);
  };
  std::vector<std::byte> status = wire::encode(wire::Type::status, 1, {});
  const std::vector<std::byte> too_long(wire::kMaxMessageBytes + 1);
  CHECK_THAT(refusal(std::span(status).first(5)), Catch::Matchers::ContainsSubstring("shorter than its header"));
  CHECK_THAT(refusal(too_long), Catch::Matchers::ContainsSubstring("longer than the limit"));
  CHECK_THAT(refusal(wire::encode(wire::Type::status, 1, std::span(status))),
             Catch::Matchers::ContainsSubstring("no body"));
  CHECK_THAT(refusal(wire::encode(wire::Type::bypass, 1, {})), Catch::Matchers::ContainsSubstring("0 or 1"));
  CHECK_THAT(refusal(wire::encode(wire::Type::refused, 1, {})), Catch::Matchers::ContainsSubstring("no request"));
  status[4] = std::byte{9};
  CHECK_THAT(refusal(status), Catch::Matchers::ContainsSubstring("version 9"));
  CHECK(plane.status().workers == 0);
}

TEST_CASE("silent clients do not keep others out") {
  const Folder folder;
  const Plane plane(folder.path());
  std::vector<Fd> silent;
  for (size_t i = 0; i < kMaxClients; i++) silent.push_back(plane.client());
  CHECK(plane.status().ports == 2);
  const Result<wire::Message> told = wire::receive(silent.front().get());
  REQUIRE(told);
  CHECK(told->header.type == static_cast<uint16_t>(wire::Type::refused));
  const Result<wire::Message> other = wire::call(silent.back().get(), wire::Type::status);
  CHECK(other);
}

TEST_CASE("bypass is switched and remembered") {
  const Folder folder;
  {
    const Plane plane(folder.path());
    const Fd socket = plane.client();
    const wire::BypassBody on = {1, 0};
    const Result<wire::Message> answer = wire::call(socket.get(), wire::Type::bypass, wire::bytes_of(on));
    REQUIRE(answer);
    CHECK(wire::body_as<wire::StatusBody>(*answer)->bypass == 1);
  }
  const Result<StateDir> state = StateDir::open(folder.path() + "/state");
  REQUIRE(state);
  REQUIRE(state->load_bypass());
  CHECK(*state->load_bypass());
  std::ofstream(folder.path() + "/state/bypass") << "maybe";
  CHECK_FALSE(state->load_bypass());
}

TEST_CASE("one data plane per socket and per state folder; a dead one's socket is replaced") {
  const Folder folder;
  const std::string path = folder.path() + "/run/socket";
  {
    const Plane plane(folder.path());
    const Result<unix_socket::Listener> second = listen_on(path, false);
    REQUIRE_FALSE(second);
    CHECK_THAT(second.error(), Catch::Matchers::ContainsSubstring("another program answers"));
    const Result<StateDir> state = StateDir::open(folder.path() + "/state");
    REQUIRE_FALSE(state);
    CHECK_THAT(state.error(), Catch::Matchers::ContainsSubstring("in use by another data plane"));
  }
  CHECK_FALSE(std::filesystem::exists(path));  // a clean stop leaves none behind
  leave_socket(path, SOCK_SEQPACKET);
  CHECK(listen_on(path, false));
  std::ofstream(path) << "not a socket";
  CHECK_FALSE(listen_on(path, false));
}
