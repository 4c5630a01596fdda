// Shadows at the socket of a data plane: begun, told of, ended, beside publications.
#include "common/shadow.h"
#include "tests/unit/dataplane/plane.h"
#include "tests/unit/eventually.h"
#include "tests/unit/folder.h"

using namespace weir;
using namespace weir::dataplane;
using namespace weir::test;

namespace {

wire::Shadow call(const Plane& plane, const wire::ShadowRequest& request, int fd = -1) {
  const Fd socket = plane.client();
  const Result<wire::Message> answer = wire::call(socket.get(), wire::Type::shadow, wire::bytes_of(request), fd);
  INFO((answer ? "" : answer.error()));
  REQUIRE(answer);
  std::optional<wire::Shadow> told = wire::shadow_from(*answer);
  REQUIRE(told);
  return std::move(*told);
}

wire::ShadowRequest begin_of(std::span<const std::byte> bytes, uint64_t number, uint32_t one_in = 1) {
  const wire::PublishBody body = body_for(bytes, {7, number});
  wire::ShadowRequest request;
  request.action = wire::ShadowAction::begin;
  request.one_in = one_in;
  request.candidate = body.generation;
  memcpy(request.digest, body.digest, sizeof request.digest);
  request.size_bytes = bytes.size();
  return request;
}

wire::Shadow begin(const Plane& plane, const SnapshotBytes& candidate, uint64_t number) {
  const Fd fd = memory_file(candidate.bytes(), kAllSeals);
  return call(plane, begin_of(candidate.bytes(), number), fd.get());
}

wire::Shadow ask(const Plane& plane) {
  return call(plane, {});
}

wire::Shadow end(const Plane& plane) {
  wire::ShadowRequest request;
  request.action = wire::ShadowAction::end;
  return call(plane, request);
}

// A snapshot of so many bytes, or a little more.
SnapshotBytes large(uint64_t number, size_t bytes) {
  filter::SnapshotInput input = empty_input(number);
  input.sets.push_back({{1}});
  input.rules.push_back({1, 0, 0, 0});
  filter::KeyTable& table = input.tables.emplace_back();
  table.shape = {4, 32, false};
  constexpr size_t kMostBytesAKey = 20, kStep = 8192;
  while (true) {
    const size_t n = table.rules.empty() ? bytes / kMostBytesAKey : table.rules.size() + kStep;
    while (table.rules.size() < n) {
      const auto host = static_cast<Ipv4>(0x0a000000 + table.rules.size());
      table.words[0].push_back(filter::make_key(table.shape, host).word[0]);
      table.rules.push_back(1);
    }
    SnapshotBytes snapshot = build(input);
    if (snapshot.size >= bytes) return snapshot;
  }
}

void check_refused(const wire::Shadow& told, wire::Step step, const std::string& words) {
  CHECK(told.body.ok == 0);
  CHECK(std::string(wire::step_name(told.body.failed_step)) == wire::step_name(step));
  CHECK_THAT(wire::get_text(told.body.reason), Catch::Matchers::ContainsSubstring(words));
}

}  // namespace

TEST_CASE("a shadow begins, is told of, goes on beside publications, and ends") {
  const Folder folder;
  const Plane plane(folder.path());
  CHECK(ask(plane).body.on == 0);
  CHECK(ask(plane).body.candidate == wire::Generation{});
  REQUIRE(plane.publish(build(empty_input(1)), 1).ok == 1);
  const SnapshotBytes candidate = build(empty_input(2));
  const wire::Shadow begun = begin(plane, candidate, 2);
  CHECK(wire::get_text(begun.body.reason) == "");
  CHECK(begun.body.ok == 1);
  const wire::ShadowBody body = ask(plane).body;
  CHECK(body.on == 1);
  CHECK(body.one_in == 1);
  CHECK(body.candidate == wire::Generation{7, 2});
  CHECK(body.beside == wire::Generation{7, 1});
  CHECK(body.size_bytes == candidate.size);
  const Digest digest = digest_of(candidate.bytes());
  CHECK(std::equal(digest.begin(), digest.end(), body.digest));

  // An overlay, and another base.
  const SnapshotBytes base = build(empty_input(3));
  REQUIRE(plane.publish(base, 3).ok == 1);
  REQUIRE(plane.publish(build(empty_input(4), &base), 4, base, Plane::Base::stays).ok == 1);
  CHECK(ask(plane).body.on == 1);
  CHECK(plane.status().generation == wire::Generation{7, 4});
  CHECK(plane.status().shadow == wire::Generation{7, 2});

  CHECK(end(plane).body.on == 0);
  CHECK(plane.status().shadow == wire::Generation{});
  CHECK(ask(plane).body.on == 0);
  CHECK(ask(plane).body.candidate == wire::Generation{7, 2});  // what it counted is told still
  CHECK(end(plane).body.ok == 1);                              // nothing to end is no failure
}

TEST_CASE("hostile shadows fail by name, and leave what is enforced, and the socket, as they are") {
  const Folder folder;
  const Plane plane(folder.path());
  const SnapshotBytes next = build(empty_input(2));
  const Fd whole = memory_file(next.bytes(), kAllSeals);
  check_refused(call(plane, begin_of(next.bytes(), 2), whole.get()), wire::Step::check, "nothing is enforced yet");
  const SnapshotBytes running = build(empty_input(1));
  REQUIRE(plane.publish(running, 1).ok == 1);

  for (const int missing : {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE, F_SEAL_SEAL}) {
    const Fd fd = memory_file(next.bytes(), kAllSeals & ~missing);
    check_refused(call(plane, begin_of(next.bytes(), 2), fd.get()), wire::Step::check, "lacks seals");
  }
  check_refused(call(plane, begin_of(next.bytes(), 2)), wire::Step::receive, "without a descriptor");
  wire::ShadowRequest damaged = begin_of(next.bytes(), 2);
  damaged.digest[0] ^= 1;
  check_refused(call(plane, damaged, whole.get()), wire::Step::validate, "digest");
  check_refused(call(plane, begin_of(next.bytes(), 3), whole.get()), wire::Step::validate, "generation");
  check_refused(call(plane, begin_of(next.bytes(), 2, 0), whole.get()), wire::Step::receive, "no share");
  const SnapshotBytes overlay = build(empty_input(5), &running);
  const Fd overlay_fd = memory_file(overlay.bytes(), kAllSeals);
  check_refused(call(plane, begin_of(overlay.bytes(), 5), overlay_fd.get()), wire::Step::validate, "overlay");
  auto* header = reinterpret_cast<weir_snapshot_header*>(next.memory.get());
  header->rules.offset = uint64_t{1} << 60;
  const Fd wild = memory_file(next.bytes(), kAllSeals);
  check_refused(call(plane, begin_of(next.bytes(), 2), wild.get()), wire::Step::validate, "");

  const Fd socket = plane.client();
  CHECK_FALSE(wire::call(socket.get(), wire::Type::shadow));  // no body
  wire::ShadowRequest unknown;
  unknown.action = static_cast<wire::ShadowAction>(77);
  CHECK_FALSE(wire::call(plane.client().get(), wire::Type::shadow, wire::bytes_of(unknown)));
  CHECK(ask(plane).body.on == 0);
  CHECK(plane.status().generation == wire::Generation{7, 1});
}

TEST_CASE("a candidate that has no room beside what is enforced is refused, with the numbers") {
  const Folder folder;
  const Plane plane(folder.path());
  REQUIRE(plane.publish(large(1, kMemory * 5 / 16), 1).ok == 1);
  check_refused(begin(plane, large(2, kMemory * 7 / 16), 2), wire::Step::check,
                "snapshot_memory (16777216) leaves room");
  CHECK(plane.status().shadow == wire::Generation{});
}

TEST_CASE("a shadow in the way of a publication ends, one that is not stays") {
  const Folder folder;
  const Plane plane(folder.path());
  const SnapshotBytes running = large(1, kMemory / 4), candidate = large(2, kMemory * 3 / 8);
  REQUIRE(plane.publish(running, 1).ok == 1);
  REQUIRE(candidate.size <= kMemory - 2 * running.size);
  CHECK(begin(plane, candidate, 2).body.ok == 1);
  REQUIRE(plane.publish(large(3, kMemory / 4), 3).ok == 1);
  CHECK(ask(plane).body.on == 1);
  const SnapshotBytes larger = large(4, kMemory * 7 / 16);
  REQUIRE(larger.size <= kMemory / 2);
  REQUIRE(larger.size + running.size + candidate.size > kMemory);
  REQUIRE(plane.publish(larger, 4).ok == 1);
  CHECK(plane.status().generation == wire::Generation{7, 4});
  const wire::ShadowBody ended = ask(plane).body;
  CHECK(ended.on == 0);
  CHECK_THAT(wire::get_text(ended.reason), Catch::Matchers::ContainsSubstring("no room"));
}

TEST_CASE("a candidate that is published is enforced with the bytes that were judged, and its shadow ends") {
  const Folder folder;
  const SnapshotBytes running = build(empty_input(1)), candidate = build(empty_input(2));
  const bool as_overlay = GENERATE(false, true);
  {
    const Plane plane(folder.path());
    REQUIRE(plane.publish(running, 1).ok == 1);
    REQUIRE(begin(plane, candidate, 2).body.ok == 1);
    if (as_overlay) {  // something was published meanwhile
      REQUIRE(plane.publish(build(empty_input(3), &running), 3, running, Plane::Base::stays).ok == 1);
      REQUIRE(plane.publish(build(empty_input(4), &candidate), 4, candidate, Plane::Base::comes_along).ok == 1);
    } else {
      REQUIRE(plane.publish(candidate, 2).ok == 1);
    }
    const wire::StatusBody status = plane.status();
    CHECK(status.base == wire::Generation{7, 2});
    const Digest digest = digest_of(candidate.bytes());
    CHECK(std::equal(digest.begin(), digest.end(), status.base_digest));
    const wire::ShadowBody ended = ask(plane).body;
    CHECK(ended.on == 0);
    CHECK(wire::get_text(ended.reason) == "it is enforced now");
  }
  const Plane again(folder.path());  // and it is on disk
  CHECK(again.status().generation == wire::Generation{7, as_overlay ? 4u : 2u});
  CHECK(again.status().base == wire::Generation{7, 2});
  CHECK(ask(again).body.on == 0);
}

TEST_CASE("a worker that is stuck keeps a shadow that ended in memory, and frees it later") {
  const Folder folder;
  Plane plane(folder.path(), kHasty);
  REQUIRE(plane.publish(build(empty_input(1)), 1).ok == 1);
  REQUIRE(begin(plane, build(empty_input(2)), 2).body.ok == 1);
  plane.begin_burst();
  CHECK(end(plane).body.on == 0);
  check_refused(begin(plane, build(empty_input(3)), 3), wire::Step::grace, "not let go");
  plane.end_burst();
  CHECK(eventually([&] { return begin(plane, build(empty_input(3)), 3).body.ok == 1; }));
}
