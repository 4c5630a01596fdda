// The XDP plane with the kernel's own BPF: what it refuses, what it keeps, where it counts. Exit code 77, with the
// reason, where programs cannot be loaded (plane.h). Verdicts: tests/agreement. Interfaces, crashes:
// tests/smoke/test_xdp_target.py.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "common/digest.h"
#include "common/files.h"
#include "tests/unit/bpf/plane.h"

using namespace weir;
using namespace weir::xdp;

namespace {

// The bytes of a publication, changed by `edit`, sealed as `seals` says, with a digest that fits.
template <class Edit>
wire::Message changed(const wire::Message& from, Edit edit,
                      int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) {
  auto body = *wire::body_as<wire::PublishBody>(from);
  std::vector<std::byte> bytes(body.size_bytes);
  REQUIRE(pread(from.fd.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  edit(bytes);
  wire::Message message;
  message.fd.reset(memfd_create("changed", MFD_ALLOW_SEALING | MFD_CLOEXEC));
  REQUIRE(write(message.fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  REQUIRE(add_seals(message.fd.get(), seals) == 0);
  const auto digest = digest_of(bytes);
  body.digest[0] = digest[0];
  body.digest[1] = digest[1];
  message.body.assign(wire::bytes_of(body).begin(), wire::bytes_of(body).end());
  return message;
}

template <class Field>
auto set_at(size_t offset, Field value) {
  return [=](std::vector<std::byte>& bytes) { memcpy(bytes.data() + offset, &value, sizeof value); };
}

}  // namespace

TEST_CASE("what cannot be enforced is refused by its step, and what enforced goes on") {
  Plane plane;
  const wire::Message first = publication(list("a", "198.18.0.1"), 1);
  CHECK_FALSE(drops(*plane.enforcer, 1));
  REQUIRE(plane.enforcer->publish(first).ok == 1);
  CHECK(drops(*plane.enforcer, 1));

  const wire::Message good = publication(list("b", "198.18.0.2"), 2);
  const auto nothing = [](std::vector<std::byte>&) {};
  const auto refused = [&](wire::Message message, wire::Step step, const std::string& reason) {
    const wire::PublishedBody answer = plane.enforcer->publish(message);
    INFO(answer.reason);
    CHECK(answer.ok == 0);
    CHECK(answer.failed_step == step);
    CHECK(std::string(answer.reason).find(reason) != std::string::npos);
    CHECK(answer.generation == wire::Generation{kEpoch, 1});
    CHECK(drops(*plane.enforcer, 1));
    CHECK_FALSE(drops(*plane.enforcer, 2));
  };
  wire::Message without = changed(good, nothing);
  without.fd.reset();
  refused(std::move(without), wire::Step::receive, "without a descriptor");
  wire::Message cut = changed(good, nothing);
  cut.body.pop_back();
  refused(std::move(cut), wire::Step::receive, "wrong length");
  refused(changed(good, nothing, F_SEAL_SHRINK), wire::Step::check, "lacks seals");
  refused(changed(good, set_at(0, uint64_t{1})), wire::Step::check, "magic");
  refused(changed(good, set_at(8, uint32_t{WEIR_SNAPSHOT_VERSION + 1})), wire::Step::check, "version");
  refused(changed(good, set_at(offsetof(weir_snapshot_header, n_rules), uint32_t{0x7fffffff})), wire::Step::validate,
          "");
  wire::Message damaged = changed(good, nothing);
  damaged.body[sizeof(wire::Generation)] ^= std::byte{1};
  refused(std::move(damaged), wire::Step::validate, "digest");
  refused(changed(good, set_at(offsetof(weir_snapshot_header, number), uint64_t{3})), wire::Step::validate,
          "generation");
  refused(changed(first, set_at(offsetof(weir_snapshot_header, built_unix_s), uint64_t{1})), wire::Step::check,
          "used once");

  REQUIRE(plane.enforcer->publish(good).ok == 1);
  CHECK(drops(*plane.enforcer, 2));
  CHECK_FALSE(drops(*plane.enforcer, 1));
}

// What is asked depends on how many packets were hit of late: gates, filter, or neither.
TEST_CASE("verdicts and counts do not depend on what came before") {
  constexpr uint8_t kMembers = 100, kStranger = 200;
  std::string entries = "198.18.0.1";
  for (unsigned last = 2; last <= kMembers; last++) entries += ", 198.18.0." + std::to_string(last);
  Plane plane;
  REQUIRE(plane.enforcer->publish(publication(list("a", entries), 1)).ok == 1);
  uint64_t hits = 0;
  for (const int hits_of_32 : {0, 2, 8, 16, 28, 32, 0}) {
    CAPTURE(hits_of_32);
    for (int i = 0; i < 64; i++) {
      if (hits_of_32 > 0) drops(*plane.enforcer, 1, hits_of_32);
      if (hits_of_32 < 32) drops(*plane.enforcer, kStranger, 32 - hits_of_32);
    }
    hits += 64 * static_cast<uint64_t>(hits_of_32);
    for (unsigned last = 1; last <= 250; last++) {
      CAPTURE(last);
      CHECK(drops(*plane.enforcer, static_cast<uint8_t>(last)) == (last <= kMembers));
      // Back to where it was before this one.
      drops(*plane.enforcer, last <= kMembers ? kStranger : 1);
    }
    hits += kMembers + (250 - kMembers);
    CHECK(matched_by(*plane.enforcer, "a") == hits);
  }
}

TEST_CASE("the same publication again changes nothing") {
  Plane plane;
  const wire::Message message = publication(list("a", "198.18.0.1"), 1);
  REQUIRE(plane.enforcer->publish(message).ok == 1);
  CHECK(plane.enforcer->publish(message).ok == 1);
  CHECK(drops(*plane.enforcer, 1));
}

TEST_CASE("what is pinned enforces alone, and is adopted with its counters") {
  const std::string folder = own_folder();
  auto opened = Enforcer::open({{}, Attach::any, folder});
  if (!opened) FAIL(opened.error());
  REQUIRE((*opened)->publish(publication(list("a", "198.18.0.1"), 1)).ok == 1);
  CHECK(drops(**opened, 1));
  const uint64_t start = (*opened)->status().start_time_unix;
  const Result<std::unique_ptr<Enforcer>> second = Enforcer::open({{}, Attach::any, folder});
  REQUIRE_FALSE(second);
  CHECK(second.error().find("another enforcer") != std::string::npos);

  opened->reset();
  const Plane again(folder);
  CHECK(drops(*again.enforcer, 1));
  CHECK(again.enforcer->status().generation == wire::Generation{kEpoch, 1});
  CHECK(again.enforcer->status().start_time_unix == start);
  CHECK(matched_by(*again.enforcer, "a") == 2);
  CHECK(again.enforcer->stats()->body.totals.packets == 2);
}

TEST_CASE("pins of another version are told, not touched") {
  const std::string folder = own_folder();
  {
    const Result<Program> program = Program::open(folder);
    if (!program) FAIL(program.error());
    program->state().version = WEIR_XDP_VERSION + 1;
  }
  const Result<std::unique_ptr<Enforcer>> opened = Enforcer::open({{}, Attach::any, folder});
  REQUIRE_FALSE(opened);
  CHECK(opened.error().find("is of version " + std::to_string(WEIR_XDP_VERSION + 1)) != std::string::npos);
  CHECK(access(pin_path(folder, "weir_state").c_str(), F_OK) == 0);
  REQUIRE(detach_pinned(folder, std::nullopt));
  rmdir(folder.c_str());
}

TEST_CASE("a folder that others made or may write is refused") {
  const std::string folder = own_folder();
  REQUIRE(mkdir(folder.c_str(), 0700) == 0);
  const auto refused = [&](const std::string& why) {
    const Result<Program> program = Program::open(folder);
    return !program && program.error().find("the folder " + folder + why) == 0 &&
           program.error().find("name another folder with --bpf-dir") != std::string::npos;
  };
  REQUIRE(chmod(folder.c_str(), 0777) == 0);
  CHECK(refused(" has mode 0777"));
  REQUIRE(chmod(folder.c_str(), 0700) == 0);
  REQUIRE(chown(folder.c_str(), 65534, 65534) == 0);
  CHECK(refused(" belongs to user"));
  rmdir(folder.c_str());
}

TEST_CASE("a folder outside of a BPF file system is refused, and not made") {
  const std::string folder = "/tmp/weir-unit-" + std::to_string(getpid());
  const Result<std::unique_ptr<Enforcer>> opened = Enforcer::open({{}, Attach::any, folder});
  REQUIRE_FALSE(opened);
  CHECK(opened.error().find("BPF file system") != std::string::npos);
  CHECK(access(folder.c_str(), F_OK) != 0);
}

TEST_CASE("counts are kept by name, and of former lists the oldest go first") {
  Plane plane;
  REQUIRE(plane.enforcer->publish(publication(list("kept", "198.18.0.1"), 1)).ok == 1);
  CHECK(drops(*plane.enforcer, 1));
  // Each generation has 255 new names: after five of them every slot was used, and some again.
  for (uint64_t number = 2; number <= 6; number++) {
    std::string lists = list("kept", "198.18.0.1");
    for (unsigned i = 1; i < WEIR_MAX_LISTS; i++) {
      lists += list("g" + std::to_string(number) + "-" + std::to_string(i), "198.18.0.2");
    }
    REQUIRE(plane.enforcer->publish(publication(lists, number)).ok == 1);
    CHECK(drops(*plane.enforcer, 1));
    CHECK(drops(*plane.enforcer, 2));
  }
  CHECK(matched_by(*plane.enforcer, "kept") == 6);
  CHECK(matched_by(*plane.enforcer, "g6-1") == 1);
  CHECK(matched_by(*plane.enforcer, "g6-255") == 1);
  CHECK(matched_by(*plane.enforcer, "g5-7") == 1);
  CHECK(matched_by(*plane.enforcer, "g2-1") == UINT64_MAX);
  CHECK(plane.enforcer->stats()->lists.size() == WEIR_LIST_SLOTS);
}

TEST_CASE("bypass lets everything through, and is counted") {
  Plane plane;
  REQUIRE(plane.enforcer->publish(publication(list("a", "198.18.0.1"), 1)).ok == 1);
  plane.enforcer->bypass(true);
  CHECK_FALSE(drops(*plane.enforcer, 1));
  CHECK(plane.enforcer->status().bypass == 1);
  plane.enforcer->bypass(false);
  CHECK(drops(*plane.enforcer, 1));
  CHECK(plane.enforcer->stats()->body.totals.bypassed == 1);
}

TEST_CASE("without a snapshot frames pass, or drop where that is asked for") {
  Plane plane;
  CHECK_FALSE(drops(*plane.enforcer, 1));
  plane.enforcer->drop_without_snapshot(true);
  CHECK(drops(*plane.enforcer, 1));
  const wire::Totals totals = plane.enforcer->stats()->body.totals;
  CHECK(totals.no_snapshot_passed == 1);
  CHECK(totals.no_snapshot_dropped == 1);
}

TEST_CASE("names with dots find pins without them") {
  CHECK(pin_path("/x", "weir_link_eth0.100") == "/x/weir_link_eth0%2e100");
  CHECK(pin_path("/x", "50%") == "/x/50%25");
}

int before_tests() {
  return can_load_programs();
}
