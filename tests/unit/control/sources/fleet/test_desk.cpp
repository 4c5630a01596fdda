// People change a fleet by the desk, with a fake etcd that also errs.
#include <algorithm>
#include <atomic>
#include <thread>

#include "control/sources/fleet/desk.h"
#include "control/sources/fleet/pieces.h"
#include "tests/catch.h"
#include "tests/unit/fake_etcd.h"
#include "tests/unit/own_clocks.h"

namespace weir::control::fleet {
namespace {

using Catch::Matchers::ContainsSubstring;

const Names kOfFleet("edge");

Desk desk_of(const FakeEtcd& etcd) {
  return {etcd.access(), "edge", "ops"};
}

Push push_of(const std::string& policy, const std::string& comment = "") {
  Push push;
  push.policy = "weir.yaml";
  push.files = {{"weir.yaml", policy}};
  push.comment = comment;
  return push;
}

// A file that is cut into several pieces.
std::string long_text(const std::string& prefix) {
  std::string text;
  for (int line = 0; line < 20'000; line++) text += prefix + std::to_string(line) + "\n";
  return text;
}

void put_node(etcd::Client& client, const std::string& name, uint64_t turn, uint64_t revision, bool is_alive) {
  Report report;
  report.node = name;
  report.group = "rest";
  report.turn = turn;
  report.revision = revision;
  report.state = "enforcing";
  REQUIRE(client.put(kOfFleet.node(name), text_of(report)));
  if (is_alive) REQUIRE(client.put(kOfFleet.alive(name), "", client.grant(15)->id));
}

std::vector<std::string> keys_below(etcd::Client& client, const std::string& prefix) {
  const Result<etcd::RangeAnswer> all = client.all(prefix, true);
  REQUIRE(all);
  std::vector<std::string> keys;
  for (const etcd::KeyValue& pair : all->pairs) keys.push_back(pair.key.substr(prefix.size()));
  return keys;
}

// Empty: there is none.
std::string error_of(const Result<std::string>& bytes) {
  return bytes ? "" : bytes.error();
}

std::vector<uint64_t> numbers_of(Desk& desk) {
  const Result<std::vector<Revision>> all = desk.revisions();
  REQUIRE(all);
  std::vector<uint64_t> numbers;
  for (const Revision& one : *all) numbers.push_back(one.number);
  return numbers;
}

}  // namespace

TEST_CASE("a fleet has no head until something is pushed, and nothing can be changed before") {
  FakeEtcd etcd;
  Desk desk = desk_of(etcd);
  REQUIRE(desk.head());
  CHECK(desk.head()->head.turn == 0);
  CHECK(desk.head()->changed_at == 0);
  CHECK(desk.revisions()->empty());
  CHECK(desk.nodes()->empty());
  const Result<Head> changed = desk.change("pause", [](Head&) { return Result<void>(); });
  REQUIRE_FALSE(changed);
  CHECK(changed.error() == "nothing was pushed to fleet edge yet");
  CHECK(desk.revision(1).error() == "fleet edge has no revision 1");
}

TEST_CASE("a revision that is pushed is the head's of every group, can be read, and is in the log") {
  FakeEtcd etcd;
  Desk desk = desk_of(etcd);
  Push push = push_of("version: 1\n", "because");
  push.files.push_back({"feed.txt", long_text("198.51.")});
  const Result<Pushed> pushed = desk.push(push);
  REQUIRE(pushed);
  CHECK(pushed->revision.number == 1);
  CHECK(pushed->files_sent == 2);
  CHECK(pushed->bytes_sent > 0);
  const Result<HeadAt> head = desk.head();
  REQUIRE(head);
  CHECK(head->changed_at > 0);
  CHECK(text_of(head->head) == text_of(pushed->head));
  CHECK(head->head.turn == 1);
  CHECK(is_everywhere(head->head, 1));
  CHECK(head->head.what == "pushed revision 1: because");
  CHECK(head->head.by == "ops");
  CHECK(text_of(*desk.revision(1)) == text_of(pushed->revision));
  for (size_t n = 0; n < push.files.size(); n++) {
    const Result<std::string> bytes = desk.file(pushed->revision.files[n]);
    REQUIRE(bytes);
    CHECK(*bytes == push.files[n].bytes);
  }
  REQUIRE(desk.log(10)->size() == 1);
  CHECK(desk.log(10)->at(0).turn == 1);
}

TEST_CASE("bytes that etcd has are not sent again, and of a file that changes in one place little is") {
  FakeEtcd etcd;
  Desk desk = desk_of(etcd);
  Push push = push_of("version: 1\n");
  push.files.push_back({"feed.txt", long_text("198.51.")});
  const Result<Pushed> first = desk.push(push);
  REQUIRE(first);
  const Result<Pushed> same = desk.push(push);
  REQUIRE(same);
  CHECK(same->revision.number == 2);
  CHECK(same->files_sent == 0);
  CHECK(same->bytes_sent == 0);
  push.files[1].bytes += "203.0.113.1\n";
  const Result<Pushed> longer = desk.push(push);
  REQUIRE(longer);
  CHECK(longer->files_sent == 1);
  CHECK(longer->bytes_sent > 0);
  CHECK(longer->bytes_sent < first->bytes_sent / 2);
  CHECK(*desk.file(longer->revision.files[1]) == push.files[1].bytes);
}

TEST_CASE("a staged revision is enforced by nobody") {
  FakeEtcd etcd;
  Desk desk = desk_of(etcd);
  REQUIRE(desk.push(push_of("version: 1\n")));
  Push push = push_of("version: 1 # 2\n");
  push.is_staged = true;
  const Result<Pushed> staged = desk.push(push);
  REQUIRE(staged);
  CHECK(staged->head.staged == 2);
  CHECK(staged->head.turn == 2);
  CHECK(is_everywhere(desk.head()->head, 1));
}

TEST_CASE("large files go to the store, packed, and a store that fails ends the push") {
  FakeEtcd etcd;
  Desk desk = desk_of(etcd);
  Push push = push_of("version: 1\n");
  const std::string bytes = long_text("198.51.");
  push.files.push_back({"feed.txt", bytes});
  push.most_in_etcd = 1000;
  std::string digest, packed;
  push.store = [&](const std::string& of, std::string_view what) {
    digest = of;
    packed = what;
    return Result<std::string>("https://files.example/" + of);
  };
  const Result<Pushed> pushed = desk.push(push);
  REQUIRE(pushed);
  CHECK(pushed->files_sent == 1);
  const BlobFile& file = pushed->revision.files[1];
  CHECK(digest == sha256_of(std::as_bytes(std::span(bytes))));
  CHECK(file.url == "https://files.example/" + digest);
  CHECK(file.packed_bytes == packed.size());
  std::string unpacked(bytes.size(), '\0');
  CHECK(unpack(packed, std::as_writable_bytes(std::span(unpacked))));
  CHECK(unpacked == bytes);
  CHECK_THAT(error_of(desk.file(file)), ContainsSubstring("is kept at https://files.example/"));

  push.files[1].bytes += "1";
  push.store = [](const std::string&, std::string_view) { return Result<std::string>(Error{"no room"}); };
  const Result<Pushed> refused = desk.push(push);
  REQUIRE_FALSE(refused);
  CHECK(refused.error() == "no room");
  CHECK(desk.head()->head.revision == 1);
}

TEST_CASE("of two who push or change at once one is told to do it again, and changes nothing") {
  FakeEtcd etcd;
  Desk slow = desk_of(etcd), quick = desk_of(etcd);
  REQUIRE(slow.push(push_of("version: 1\n")));
  Push push = push_of("version: 1 # slow\n");
  push.most_in_etcd = 0;
  push.store = [&](const std::string& digest, std::string_view) {
    must(bool(quick.push(push_of("version: 1 # quick\n"))));
    return Result<std::string>("https://files.example/" + digest);
  };
  const Result<Pushed> late = slow.push(push);
  REQUIRE_FALSE(late);
  CHECK_THAT(late.error(), ContainsSubstring("somebody else changed the fleet meanwhile"));
  CHECK(quick.head()->head.turn == 2);
  CHECK(numbers_of(quick) == std::vector<uint64_t>{2, 1});

  const Result<Head> changed = slow.change("paused", [&](Head& head) {
    must(bool(quick.change("paused", [](Head&) { return Result<void>(); })));
    head.is_paused = true;
    return Result<void>();
  });
  REQUIRE_FALSE(changed);
  CHECK_THAT(changed.error(), ContainsSubstring("somebody else changed the fleet meanwhile"));
  CHECK_FALSE(quick.head()->head.is_paused);
}

TEST_CASE("a push during which old bytes were swept is done again") {
  FakeEtcd etcd;
  etcd::Client client = etcd.client();
  Desk desk = desk_of(etcd);
  Push push = push_of("version: 1\n");
  push.most_in_etcd = 0;
  push.store = [&](const std::string& digest, std::string_view) {
    must(bool(client.put(kOfFleet.swept(), "by another")));
    return Result<std::string>("https://files.example/" + digest);
  };
  const Result<Pushed> late = desk.push(push);
  REQUIRE_FALSE(late);
  CHECK_THAT(late.error(), ContainsSubstring("somebody else"));
}

TEST_CASE("a change of the head has the next turn and its reason; one that is refused changes nothing") {
  FakeEtcd etcd;
  Desk desk = desk_of(etcd);
  const Result<Pushed> pushed = desk.push(push_of("version: 1\n"));
  REQUIRE(pushed);
  const Result<Head> paused = desk.change("paused", [](Head& head) {
    head.is_paused = true;
    return Result<void>();
  });
  REQUIRE(paused);
  CHECK(paused->turn == 2);
  CHECK(paused->id != pushed->head.id);
  CHECK(paused->what == "paused");
  CHECK(desk.head()->head.is_paused);
  const Result<Head> refused = desk.change("no", [](Head&) { return Result<void>(Error{"not now"}); });
  REQUIRE_FALSE(refused);
  CHECK(refused.error() == "not now");
  CHECK(desk.head()->head.turn == 2);
  const Result<std::vector<Head>> log = desk.log(10);
  REQUIRE(log->size() == 2);
  CHECK(log->at(0).what == "paused");
  CHECK(log->at(1).turn == 1);
  CHECK(desk.log(1)->size() == 1);
}

TEST_CASE("turns and numbers go past those that nodes have") {
  FakeEtcd etcd;
  etcd::Client client = etcd.client();
  Desk desk = desk_of(etcd);
  put_node(client, "n1", 7, 30, true);
  const Result<Pushed> pushed = desk.push(push_of("version: 1\n"));
  REQUIRE(pushed);
  CHECK(pushed->head.turn == 8);
  CHECK(pushed->revision.number == 31);
  put_node(client, "n2", 20, 31, false);
  CHECK(desk.change("go past", [](Head&) { return Result<void>(); })->turn == 21);
}

TEST_CASE("a head that no node follows is repaired by a push alone") {
  FakeEtcd etcd;
  etcd::Client client = etcd.client();
  Desk desk = desk_of(etcd);
  REQUIRE(client.put(kOfFleet.head(), "no JSON"));
  CHECK_FALSE(desk.head());
  CHECK_FALSE(desk.change("paused", [](Head&) { return Result<void>(); }));
  const Result<Pushed> pushed = desk.push(push_of("version: 1\n"));
  REQUIRE(pushed);
  CHECK(desk.head()->head.revision == pushed->revision.number);
}

TEST_CASE("nodes say how they stand, and are alive as long as their lease") {
  FakeEtcd etcd;
  etcd::Client client = etcd.client();
  Desk desk = desk_of(etcd);
  put_node(client, "n1", 1, 1, true);
  put_node(client, "n2", 1, 1, false);
  REQUIRE(client.put(kOfFleet.node("n3"), "no JSON"));
  const auto alive = [&] {
    std::vector<std::pair<std::string, bool>> found;
    const Result<std::vector<Node>> nodes = desk.nodes();
    REQUIRE(nodes);
    for (const Node& node : *nodes) found.emplace_back(node.report.node, node.is_alive);
    return found;
  };
  CHECK(alive() == std::vector<std::pair<std::string, bool>>{{"n1", true}, {"n2", false}});
  etcd.pass(15);
  CHECK(alive() == std::vector<std::pair<std::string, bool>>{{"n1", false}, {"n2", false}});
}

TEST_CASE("a file whose bytes are not in etcd as they were pushed is an error that names it") {
  FakeEtcd etcd;
  etcd::Client client = etcd.client();
  Desk desk = desk_of(etcd);
  const Result<Pushed> pushed = desk.push(push_of("version: 1\n"));
  REQUIRE(pushed);
  const BlobFile& file = pushed->revision.files[0];
  const std::string piece = kOfFleet.pieces() + keys_below(client, kOfFleet.pieces()).at(0);
  REQUIRE(client.put(piece, pack("version: 2\n")));
  CHECK(error_of(desk.file(file)) == "weir.yaml has another digest in etcd");
  REQUIRE(client.put(piece, "not packed"));
  CHECK_THAT(error_of(desk.file(file)), ContainsSubstring("weir.yaml: "));
  REQUIRE(client.commit({{}, {{etcd::Step::Kind::erase, piece, ""}}, {}}));
  CHECK(error_of(desk.file(file)) == "weir.yaml: etcd does not have all pieces of it");
  REQUIRE(client.commit({{}, {{etcd::Step::Kind::erase, kOfFleet.blob(file.digest), ""}}, {}}));
  CHECK(error_of(desk.file(file)) == "weir.yaml: etcd does not have it");
}

TEST_CASE("old revisions and their bytes go, those of the head stay") {
  FakeEtcd etcd;
  etcd::Client client = etcd.client();
  Desk desk = desk_of(etcd);
  constexpr uint64_t kKept = 20;
  Push staged = push_of("version: 1 # staged\n");
  staged.is_staged = true;
  const Result<Pushed> first = desk.push(push_of("version: 1 # first\n"));
  REQUIRE(first);
  for (uint64_t n = 0; n < kKept; n++) {
    staged.files[0].bytes = "version: 1 # " + std::to_string(n) + "\n";
    REQUIRE(desk.push(staged));
  }
  // The head's own one is older than twenty others.
  CHECK(numbers_of(desk).size() == kKept + 1);
  CHECK(numbers_of(desk).back() == 1);
  CHECK(keys_below(client, kOfFleet.swept()).empty());

  staged.files[0].bytes = "version: 1 # last\n";
  REQUIRE(desk.push(staged));
  const std::vector<uint64_t> numbers = numbers_of(desk);
  CHECK(numbers.size() == kKept + 1);
  CHECK(std::find(numbers.begin(), numbers.end(), 2) == numbers.end());
  CHECK(numbers.back() == 1);
  const Result<std::string> kept = desk.file(first->revision.files[0]);
  REQUIRE(kept);
  CHECK(*kept == "version: 1 # first\n");
  CHECK(keys_below(client, kOfFleet.blobs()).size() == kKept + 1);
  CHECK(keys_below(client, kOfFleet.pieces()).size() == kKept + 1);
  CHECK(keys_below(client, kOfFleet.swept()).size() == 1);
}

TEST_CASE("the log has 200 turns") {
  FakeEtcd etcd;
  etcd::Client client = etcd.client();
  Desk desk = desk_of(etcd);
  Head head;
  head.turn = 300;
  head.id = "test";
  head.by = "test";
  for (const uint64_t turn : {uint64_t{99}, uint64_t{100}, uint64_t{101}}) REQUIRE(client.put(kOfFleet.log(turn), "x"));
  REQUIRE(client.put(kOfFleet.head(), text_of(head)));
  REQUIRE(desk.push(push_of("version: 1\n")));
  const std::vector<std::string> turns = keys_below(client, kOfFleet.log());
  REQUIRE(turns.size() == 2);
  CHECK(kOfFleet.log() + turns[0] == kOfFleet.log(101));
  CHECK(kOfFleet.log() + turns[1] == kOfFleet.log(301));
}

TEST_CASE("entries are added with one lease, and deleted where they are there") {
  FakeEtcd etcd;
  etcd::Client client = etcd.client();
  Desk desk = desk_of(etcd);
  std::vector<Desk::NewEntry> entries;
  for (int n = 0; n < 150; n++) entries.push_back({"jail", "192.0.2." + std::to_string(n)});
  const Result<int64_t> at = desk.add(entries, 600, "why");
  REQUIRE(at);
  CHECK(client.get(kOfFleet.entry("jail", "192.0.2.149"))->pairs.at(0).changed_at == *at);
  REQUIRE(desk.add({{"other", "198.51.100.1"}}, 0, ""));
  const Result<std::vector<Desk::Entry>> jail = desk.entries("jail");
  REQUIRE(jail);
  CHECK(jail->size() == 150);
  CHECK(desk.entries("")->size() == 151);
  for (const Desk::Entry& one : *jail) {
    REQUIRE(one.lease != 0);
    CHECK(one.lease == jail->front().lease);
    CHECK(one.added.ttl_s == 600);
    CHECK(one.added.by == "ops");
    CHECK(one.added.comment == "why");
  }
  const Result<Desk::Deleted> deleted =
      desk.del({{"jail", "192.0.2.7"}, {"jail", "203.0.113.1"}, {"other", "198.51.100.1"}});
  REQUIRE(deleted);
  CHECK(deleted->deleted == 2);
  CHECK(deleted->missing == 1);
  CHECK(deleted->at == client.get(kOfFleet.entry("jail", "192.0.2.7"))->revision);
  CHECK(desk.del({{"jail", "203.0.113.1"}})->at == 0);
  CHECK(desk.entries("")->size() == 149);
  etcd.pass(600);
  CHECK(desk.entries("")->empty());
}

TEST_CASE("a full etcd is an error of what would be added, and adds nothing") {
  FakeEtcd etcd;
  Desk desk = desk_of(etcd);
  REQUIRE(desk.push(push_of("version: 1\n")));
  etcd.set({{"is_full", true}});
  CHECK_THAT(desk.push(push_of("version: 1 # 2\n")).error(), ContainsSubstring("database space exceeded"));
  CHECK_FALSE(desk.add({{"jail", "192.0.2.1"}}, 0, ""));
  CHECK_FALSE(desk.add({{"jail", "192.0.2.1"}}, 60, ""));
  CHECK(desk.head()->head.turn == 1);
  CHECK(desk.entries("")->empty());
}

TEST_CASE("every question of a desk without etcd is answered by an error") {
  FakeEtcd etcd;
  etcd.leave();
  Desk desk = desk_of(etcd);
  CHECK_FALSE(desk.head());
  CHECK_FALSE(desk.revisions());
  CHECK_FALSE(desk.revision(1));
  CHECK_FALSE(desk.nodes());
  CHECK_FALSE(desk.log(1));
  CHECK_FALSE(desk.push(push_of("version: 1\n")));
  CHECK_FALSE(desk.change("no", [](Head&) { return Result<void>(); }));
  CHECK_FALSE(desk.plan(1, 1));
  CHECK_FALSE(desk.add({{"jail", "192.0.2.1"}}, 0, ""));
  CHECK_FALSE(desk.del({{"jail", "192.0.2.1"}}));
  CHECK_FALSE(desk.entries(""));
}

TEST_CASE("a plan ends when every node that is alive has answered, or its time is over, and leaves no question") {
  FakeEtcd etcd;
  etcd::Client client = etcd.client();
  Desk desk = desk_of(etcd);
  put_node(client, "n1", 1, 1, true);
  put_node(client, "n2", 1, 1, false);
  for (const bool is_answered : {true, false}) {
    INFO(is_answered);
    const OwnClocks clocks;
    Result<std::vector<Told>> told = Error{"it has not ended"};
    std::atomic<bool> is_over = false;
    std::thread asks([&] {
      told = desk.plan(5, 30);
      is_over = true;
    });
    Result<Ask> ask = Error{"nothing is asked"};
    const bool is_asked = eventually([&] {
      const Result<etcd::RangeAnswer> found = client.get(kOfFleet.ask());
      if (found && !found->pairs.empty()) ask = read_ask(found->pairs[0].value);
      return bool(ask);
    });
    bool is_early = is_over;
    if (ask && is_answered) {
      Told one;
      one.node = "n1";
      one.entries = 3;
      (void)client.put(kOfFleet.told(ask->id) + "n1", text_of(one));
    } else {
      clocks.pass(std::chrono::seconds(29));
      // The desk looks again, and goes on waiting.
      const size_t looked = etcd.times("kv/range");
      (void)eventually([&] { return etcd.times("kv/range") >= looked + 9; });
      is_early = is_over;
      clocks.pass(std::chrono::seconds(2));
    }
    const bool has_ended = eventually([&] { return is_over.load(); });
    if (!has_ended) etcd.leave();  // which ends it
    asks.join();
    REQUIRE(is_asked);
    REQUIRE(has_ended);
    CHECK_FALSE(is_early);
    CHECK(ask->revision == 5);
    CHECK(ask->by == "ops");
    REQUIRE(told);
    CHECK(told->size() == (is_answered ? 1 : 0));
    CHECK(client.get(kOfFleet.ask())->pairs.empty());
  }
}

}  // namespace weir::control::fleet
