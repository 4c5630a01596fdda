// The process that speaks to etcd for a node, here as a thread, with a fake etcd that also errs.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <thread>

#include "common/clock.h"
#include "control/sources/fleet/channel.h"
#include "control/sources/fleet/desk.h"
#include "control/sources/fleet/follower.h"
#include "control/sources/fleet/pieces.h"
#include "tests/catch.h"
#include "tests/unit/fake_etcd.h"
#include "tests/unit/own_clocks.h"

namespace weir::control::fleet {
namespace {

using Catch::Matchers::ContainsSubstring;
using etcd::Step;

const Names kNames("edge");

std::string head_text(uint64_t turn, uint64_t revision) {
  Head head;
  head.turn = turn;
  head.id = "head" + std::to_string(turn);
  head.revision = revision;
  head.since = turn;
  head.by = "test";
  return text_of(head);
}

std::string added_text(uint64_t ttl_s = 0, const std::string& comment = "") {
  return text_of(Added{"ops", "", comment, ttl_s, 1});
}

// controld's end of the socket. The clocks stand still.
class Following {
 public:
  explicit Following(FakeEtcd& etcd, const std::string& user = "", const std::string& password = "") {
    int ends[2];
    must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    ours_ = Fd(ends[0]);
    theirs_ = Fd(ends[1]);
    Follow follow;
    follow.fleet = "edge";
    follow.node = "n1";
    follow.endpoints = etcd.urls();
    follow.user = user;
    follow.password = password;
    tell(text_of(follow));
    thread_ = std::thread([this] { fleet::follow(theirs_.get(), shared_); });
  }
  ~Following() {
    ours_.reset();
    thread_.join();
  }

  // The next news, of whatever kind. None comes: its kind is empty.
  News next() {
    News news;
    const bool has_come = eventually([&] {
      std::string text(kMostMessage, '\0');
      const ssize_t n = recv(ours_.get(), text.data(), text.size(), MSG_DONTWAIT);
      if (n <= 0) return false;
      const Result<News> read = read_news(std::string_view(text).substr(0, static_cast<size_t>(n)));
      must(bool(read));
      news = *read;
      return true;
    });
    if (!has_come) news = {};
    return news;
  }
  // The next news of this kind; others are left out.
  News next(const std::string& kind) {
    while (true) {
      const News news = next();
      if (news.kind == kind || news.kind.empty()) return news;
    }
  }
  // As next(), while time passes.
  News next_after_pauses(const std::string& kind) {
    News news;
    (void)clocks.pass_until(std::chrono::milliseconds(100), [&] {
      pollfd ready = {ours_.get(), POLLIN, 0};
      if (poll(&ready, 1, 0) == 1) news = next();
      return news.kind == kind;
    });
    return news;
  }
  void order(const Order& order) const { tell(text_of(order)); }
  // The answer to an order.
  News ask(const Order& order, const std::string& kind) {
    this->order(order);
    const News answer = next(kind);
    REQUIRE(answer.kind == kind);
    return answer;
  }
  std::string shared(size_t bytes) const { return {reinterpret_cast<const char*>(shared_.data()), bytes}; }

  // The news of the fleet as it is, up to the last message of its entries.
  News next_whole() {
    REQUIRE(next().kind == "connected");
    const News head = next();
    REQUIRE(head.kind == "head");
    News entries = next();
    REQUIRE(entries.kind == "entries");
    CHECK(entries.is_whole);
    return entries;
  }
  // Until the watch has begun.
  void begin(FakeEtcd& etcd) {
    (void)next_whole();
    REQUIRE(eventually([&] { return etcd.watches() == 1; }));
  }

  const OwnClocks clocks;

 private:
  void tell(const std::string& text) const {
    must(send(ours_.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  }

  Fd ours_, theirs_;
  std::vector<std::byte> shared_ = std::vector<std::byte>(size_t{4} << 20);
  std::thread thread_;
};

Order order_of(const std::string& kind) {
  Order order;
  order.kind = kind;
  return order;
}

// How often the whole fleet was read.
size_t times_read(FakeEtcd& etcd) {
  const std::vector<FakeEtcd::Asked> all = etcd.asked();
  return static_cast<size_t>(std::count_if(all.begin(), all.end(), [](const FakeEtcd::Asked& one) {
    return one.path == "kv/range" && one.body.contains("range_end");
  }));
}

bool is_alive(etcd::Client& client) {
  return client.get(kNames.alive("n1"))->pairs.size() == 1;
}

}  // namespace

TEST_CASE("a follower tells the head and the entries as they are, then each change") {
  FakeEtcd etcd;
  etcd::Client client = etcd.client();
  REQUIRE(client.put(kNames.head(), head_text(1, 7)));
  const int64_t at = client.put(kNames.entry("jail", "192.0.2.1"), added_text(0, "why"))->revision;
  REQUIRE(client.put("/weir/other/live/head", head_text(9, 9)));
  Following node(etcd);

  const News connected = node.next();
  CHECK(connected.kind == "connected");
  CHECK(connected.at > at);  // that the node is alive may have been put, too
  const News head = node.next();
  CHECK(head.kind == "head");
  CHECK(head.text == head_text(1, 7));
  CHECK(head.at == connected.at);
  const News whole = node.next();
  CHECK(whole.kind == "entries");
  CHECK(whole.is_whole);
  CHECK(whole.is_last);
  REQUIRE(whole.entries.size() == 1);
  CHECK(whole.entries[0].list == "jail");
  CHECK(whole.entries[0].entry == "192.0.2.1");
  CHECK(whole.entries[0].comment == "fleet: why (ops)");
  CHECK(whole.entries[0].ttl_s == 0);

  const int64_t moved_at = client.put(kNames.head(), head_text(2, 8))->revision;
  const News moved = node.next();
  CHECK(moved.kind == "head");
  CHECK(moved.text == head_text(2, 8));
  CHECK(moved.at == moved_at);
  CHECK(node.next().kind == "entries");  // none, up to this revision

  REQUIRE(client.put(kNames.entry("jail", "192.0.2.2"), text_of(Added{"", "n2", "", 0, 1})));
  const int64_t gone_at =
      client.commit({{}, {{Step::Kind::erase, kNames.entry("jail", "192.0.2.1"), ""}}, {}})->revision;
  const News added = node.next(), gone = node.next();
  REQUIRE(added.entries.size() == 1);
  CHECK_FALSE(added.is_whole);
  CHECK_FALSE(added.entries[0].is_gone);
  CHECK(added.entries[0].entry == "192.0.2.2");
  CHECK(added.entries[0].comment == "fleet: node n2");
  REQUIRE(gone.entries.size() == 1);
  CHECK(gone.entries[0].is_gone);
  CHECK(gone.entries[0].entry == "192.0.2.1");
  CHECK(gone.at == gone_at);
}

TEST_CASE("a follower tells a fleet without a head so, and of a head that is removed") {
  FakeEtcd etcd;
  etcd::Client client = etcd.client();
  Following node(etcd);
  CHECK(node.next().kind == "connected");
  const News none = node.next("head");
  CHECK(none.kind == "head");
  CHECK(none.text.empty());
  REQUIRE(client.put(kNames.head(), head_text(1, 7)));
  CHECK(node.next("head").text == head_text(1, 7));
  REQUIRE(client.commit({{}, {{Step::Kind::erase, kNames.head(), ""}}, {}}));
  const News gone = node.next("head");
  CHECK(gone.kind == "head");
  CHECK(gone.text.empty());
}

TEST_CASE("a follower whose watch is cut waits by the clock, then tells what has become of the fleet meanwhile") {
  FakeEtcd etcd;
  etcd::Client client = etcd.client();
  REQUIRE(client.put(kNames.entry("jail", "192.0.2.1"), added_text()));
  Following node(etcd);
  node.begin(etcd);
  etcd.cut();
  const News lost = node.next();
  CHECK(lost.kind == "lost");
  CHECK_THAT(lost.error, ContainsSubstring(etcd.urls()[0]));
  REQUIRE(client.commit({{},
                         {{Step::Kind::erase, kNames.entry("jail", "192.0.2.1"), ""},
                          {Step::Kind::put, kNames.entry("jail", "192.0.2.2"), added_text()},
                          {Step::Kind::put, kNames.head(), head_text(2, 8)}},
                         {}}));
  // An order is carried out meanwhile, and nothing else is told before its answer.
  node.order(order_of("report"));
  CHECK(node.next().kind == "reported");
  CHECK(times_read(etcd) == 1);

  node.clocks.pass(std::chrono::milliseconds(100));
  CHECK(node.next().kind == "connected");
  CHECK(node.next("head").text == head_text(2, 8));
  const News whole = node.next("entries");
  CHECK(whole.is_whole);
  REQUIRE(whole.entries.size() == 1);
  CHECK(whole.entries[0].entry == "192.0.2.2");
  REQUIRE(client.put(kNames.entry("jail", "192.0.2.3"), added_text()));
  const News next = node.next("entries");
  CHECK_FALSE(next.is_whole);
  CHECK(next.entries.size() == 1);
}

TEST_CASE("a change between what is read and the watch is told by the watch") {
  FakeEtcd etcd;
  etcd::Client client = etcd.client();
  const int64_t at = client.put(kNames.head(), head_text(1, 7))->revision;
  Following node(etcd);
  REQUIRE(eventually([&] { return etcd.watches() == 1; }));
  const std::vector<FakeEtcd::Asked> all = etcd.asked();
  const auto watch = std::find_if(all.begin(), all.end(), [](const auto& one) { return one.path == "watch"; });
  REQUIRE(watch != all.end());
  // The alive key may have been put before.
  const int64_t from = std::stoll(watch->body.at("start_revision").get<std::string>());
  CHECK(from == node.next("connected").at + 1);
  CHECK(from > at);
}

TEST_CASE("a follower tries again for ever, at most every 5 s, and soon after a watch that lasted") {
  FakeEtcd etcd;
  etcd.leave();
  Following node(etcd);
  // A pause is a half to the whole of 100, 200, ... 5000 ms.
  for (int turn = 0; turn < 7; turn++) {
    INFO(turn);
    CHECK(node.next().kind == "lost");
    node.clocks.pass(std::chrono::milliseconds(100 << turn));
  }
  for (int turn = 0; turn < 3; turn++) {
    INFO(turn);
    REQUIRE(node.next().kind == "lost");
    const size_t before = times_read(etcd);
    node.clocks.pass(std::chrono::milliseconds(2400));
    (void)node.ask(order_of("report"), "reported");
    CHECK(times_read(etcd) == before);
    node.clocks.pass(std::chrono::milliseconds(2600));
  }
  REQUIRE(node.next().kind == "lost");
  etcd.come_back();
  node.clocks.pass(std::chrono::seconds(5));
  node.begin(etcd);
  node.clocks.pass(std::chrono::milliseconds(5001));
  etcd.cut();
  REQUIRE(node.next("lost").kind == "lost");
  node.clocks.pass(std::chrono::milliseconds(100));
  CHECK(node.next().kind == "connected");
}

TEST_CASE("a follower goes on at another member when its own has no leader any more") {
  FakeEtcd etcd(2);
  etcd::Client client = etcd.client();
  Following node(etcd);
  node.begin(etcd);
  etcd.set({{"has_leader", false}}, 0);
  const News lost = node.next();
  CHECK(lost.kind == "lost");
  CHECK_THAT(lost.error, ContainsSubstring("no leader"));
  REQUIRE(node.next_after_pauses("connected").kind == "connected");
  CHECK(eventually([&] { return etcd.watches(1) == 1; }));
}

TEST_CASE("a follower logs in again when its token ends") {
  FakeEtcd etcd;
  etcd.set_users({{"u", {"p", "/weir/"}}});
  Following node(etcd, "u", "p");
  node.begin(etcd);
  etcd.end_tokens();
  etcd.cut();
  CHECK(node.next_after_pauses("connected").kind == "connected");
  CHECK(node.ask(order_of("report"), "reported").error.empty());
}

TEST_CASE("entries that end are told with the time that is left of them, asked for once for each lease") {
  FakeEtcd etcd;
  etcd::Client client = etcd.client();
  const int64_t lease = client.grant(100)->id;
  for (const char* entry : {"192.0.2.1", "192.0.2.2"}) {
    REQUIRE(client.put(kNames.entry("jail", entry), added_text(100), lease));
  }
  etcd.pass(40);
  Following node(etcd);
  const News whole = node.next("entries");
  REQUIRE(whole.entries.size() == 2);
  for (const EntryNews& one : whole.entries) {
    CHECK(one.ttl_s > 50);
    CHECK(one.ttl_s <= 60);
  }
  CHECK(etcd.times("lease/timetolive") == 1);
  REQUIRE(eventually([&] { return etcd.watches() == 1; }));

  const int64_t later = client.grant(200)->id;
  REQUIRE(client.put(kNames.entry("jail", "192.0.2.3"), added_text(200), later));
  const News added = node.next("entries");
  REQUIRE(added.entries.size() == 1);
  CHECK(added.entries[0].ttl_s == 200);
  CHECK(etcd.times("lease/timetolive") == 1);

  etcd.pass(60);
  const News gone = node.next("entries");
  REQUIRE(gone.entries.size() == 2);
  for (const EntryNews& one : gone.entries) CHECK(one.is_gone);
}

TEST_CASE("many entries come in messages of at most 100, of which the last says so") {
  FakeEtcd etcd;
  etcd::Client client = etcd.client();
  const auto put = [&](const std::string& prefix, int n) {
    etcd::Transaction some;
    for (int i = 0; i < n; i++) {
      some.steps.push_back({Step::Kind::put, kNames.entry("jail", prefix + std::to_string(i)), added_text()});
    }
    REQUIRE(client.commit(some));
  };
  put("192.0.2.", 120);
  put("198.51.100.", 120);
  Following node(etcd);
  const auto sizes = [&](bool is_whole) {
    std::vector<size_t> found;
    News news;
    do {
      news = node.next("entries");
      CHECK(news.is_whole == is_whole);
      found.push_back(news.entries.size());
    } while (!news.is_last && !news.kind.empty());
    return found;
  };
  CHECK(sizes(true) == std::vector<size_t>{100, 100, 40});
  REQUIRE(eventually([&] { return etcd.watches() == 1; }));
  put("203.0.113.", 128);
  CHECK(sizes(false) == std::vector<size_t>{100, 28});
}

TEST_CASE("what is no entry of a fleet is left out") {
  FakeEtcd etcd;
  etcd::Client client = etcd.client();
  REQUIRE(client.put(kNames.entry("jail", "192.0.2.1"), "no JSON"));
  REQUIRE(client.put(kNames.entries() + "no-list", added_text()));
  REQUIRE(client.put(kNames.entry("jail", std::string(kMostEntry + 1, '1')), added_text()));
  Following node(etcd);
  CHECK(node.next("entries").entries.empty());
}

TEST_CASE("a question is told when it is there, and when it is asked, not when it ends") {
  FakeEtcd etcd;
  etcd::Client client = etcd.client();
  const int64_t lease = client.grant(30)->id;
  REQUIRE(client.put(kNames.ask(), "first", lease));
  Following node(etcd);
  CHECK(node.next("ask").text == "first");
  REQUIRE(eventually([&] { return etcd.watches() == 1; }));
  REQUIRE(client.put(kNames.ask(), "second", lease));
  CHECK(node.next("ask").text == "second");
  REQUIRE(client.revoke(lease));
  REQUIRE(client.put(kNames.ask(), "third"));
  CHECK(node.next("ask").text == "third");
}

TEST_CASE("a node is alive as long as its follower, which gives no order to it") {
  FakeEtcd etcd;
  etcd::Client client = etcd.client();
  {
    Following node(etcd);
    REQUIRE(eventually([&] { return is_alive(client); }));
    for (int turn = 0; turn < 4; turn++) {
      const size_t kept = etcd.times("lease/keepalive");
      etcd.pass(5);
      node.clocks.pass(std::chrono::seconds(5));
      REQUIRE(eventually([&] { return etcd.times("lease/keepalive") == kept + 1; }));
    }
    CHECK(is_alive(client));
    CHECK(etcd.times("lease/grant") == 1);
  }
  etcd.pass(15);
  CHECK_FALSE(is_alive(client));
}

TEST_CASE("a follower keeps its lease when etcd was away, and takes another when it ended") {
  FakeEtcd etcd;
  etcd::Client client = etcd.client();
  Following node(etcd);
  REQUIRE(eventually([&] { return is_alive(client); }));
  etcd.set({{"drops", true}});
  node.clocks.pass(std::chrono::seconds(5));
  REQUIRE(eventually([&] { return etcd.times("lease/keepalive") >= 1; }));
  // The answer to an order comes when the follower has given up on etcd.
  CHECK_FALSE(node.ask(order_of("report"), "reported").error.empty());
  etcd.set({{"drops", false}});
  const size_t kept = etcd.times("lease/keepalive");
  node.clocks.pass(std::chrono::seconds(5));
  REQUIRE(eventually([&] { return etcd.times("lease/keepalive") == kept + 1; }));
  CHECK(node.ask(order_of("report"), "reported").error.empty());
  CHECK(etcd.times("lease/grant") == 1);

  etcd.pass(15);
  REQUIRE_FALSE(is_alive(client));
  node.clocks.pass(std::chrono::seconds(5));
  CHECK(eventually([&] { return is_alive(client); }));
  CHECK(etcd.times("lease/grant") == 2);
}

TEST_CASE("a report is put under the name of the node, and stays when the node is gone") {
  FakeEtcd etcd;
  etcd::Client client = etcd.client();
  {
    Following node(etcd);
    REQUIRE(eventually([&] { return is_alive(client); }));
    Order report = order_of("report");
    report.text = "of n1";
    CHECK(node.ask(report, "reported").error.empty());
  }
  etcd.pass(60);
  const Result<etcd::RangeAnswer> found = client.get(kNames.node("n1"));
  REQUIRE(found->pairs.size() == 1);
  CHECK(found->pairs[0].value == "of n1");
  CHECK(found->pairs[0].lease == 0);
}

TEST_CASE("orders are answered in their order, with the first line of what is wrong") {
  FakeEtcd etcd;
  etcd.set({{"is_full", true}});
  Following node(etcd);
  node.begin(etcd);
  Order revision = order_of("revision");
  revision.number = 4;
  node.order(order_of("report"));
  node.order(revision);
  node.order(order_of("report"));
  const News first = node.next(), second = node.next(), third = node.next();
  CHECK(first.kind == "reported");
  CHECK_THAT(first.error, ContainsSubstring("database space exceeded"));
  CHECK(first.error.find('\n') == std::string::npos);
  CHECK(second.kind == "revision");
  CHECK(second.number == 4);
  CHECK(second.error == "etcd does not have it");
  CHECK(third.kind == "reported");
}

TEST_CASE("a revision comes as its manifest, and its files as the pieces that are wanted") {
  FakeEtcd etcd;
  std::string bytes;
  for (int line = 0; line < 20'000; line++) bytes += "198.51." + std::to_string(line) + "\n";
  Desk desk(etcd.access(), "edge", "ops");
  Push push;
  push.policy = "weir.yaml";
  push.files = {{"weir.yaml", "version: 1\n"}, {"feed.txt", bytes}};
  const Result<Pushed> pushed = desk.push(push);
  REQUIRE(pushed);
  Following node(etcd);

  Order order = order_of("revision");
  order.number = pushed->revision.number;
  const News manifest = node.ask(order, "revision");
  REQUIRE(manifest.error.empty());
  CHECK(node.shared(manifest.bytes) == text_of(pushed->revision));

  const BlobFile& file = pushed->revision.files[1];
  order = order_of("pieces");
  order.digest = file.digest;
  order.bytes = file.bytes;
  const News told = node.ask(order, "pieces");
  REQUIRE(told.error.empty());
  const Result<Pieces> pieces = read_pieces(node.shared(told.bytes), file.bytes);
  REQUIRE(pieces);
  REQUIRE(pieces->all.size() > 2);

  order.kind = "blob";
  order.text = std::string(pieces->all.size(), '1');
  CHECK(node.ask(order, "blob").error.empty());
  CHECK(node.shared(bytes.size()) == bytes);

  order.text.pop_back();
  CHECK(node.ask(order, "blob").error == "these pieces were not told");
  order = order_of("pieces");
  order.digest = std::string(64, '0');
  CHECK(node.ask(order, "pieces").error == "etcd does not have it");
}

TEST_CASE("an entry is shared with a lease of its own, in the name of the node") {
  FakeEtcd etcd;
  Following node(etcd);
  node.begin(etcd);
  Order share = order_of("share");
  share.list = "jail";
  share.entry = "192.0.2.9";
  share.comment = "seen";
  share.ttl_s = 600;
  node.order(share);
  // It also comes back as any other's, before or after the answer.
  News shared = node.next(), news = node.next();
  if (shared.kind == "entries") std::swap(shared, news);
  CHECK(shared.kind == "shared");
  CHECK(shared.error.empty());
  REQUIRE(news.entries.size() == 1);
  CHECK(news.entries[0].entry == "192.0.2.9");
  CHECK(news.entries[0].ttl_s == 600);
  CHECK(news.entries[0].comment == "fleet: seen (node n1)");
  etcd.pass(600);
  CHECK(node.next("entries").entries.at(0).is_gone);
  etcd.set({{"is_full", true}});
  CHECK_FALSE(node.ask(share, "shared").error.empty());
}

TEST_CASE("an answer to a question is put under the question's id, for a while") {
  FakeEtcd etcd;
  etcd::Client client = etcd.client();
  Following node(etcd);
  Order told = order_of("told");
  told.digest = "q1";
  told.text = "of n1";
  node.order(told);
  told.digest = "../q2";
  node.order(told);
  CHECK(node.ask(order_of("report"), "reported").error.empty());
  const Result<etcd::RangeAnswer> found = client.all("/weir/edge/told/");
  REQUIRE(found->pairs.size() == 1);
  CHECK(found->pairs[0].key == kNames.told("q1") + "n1");
  CHECK(found->pairs[0].value == "of n1");
  etcd.pass(600);
  CHECK(client.all("/weir/edge/told/")->pairs.empty());
}

TEST_CASE("what is told to a follower and is no order is left out, and it ends without a Follow") {
  FakeEtcd etcd;
  {
    Following node(etcd);
    node.order(order_of("dance"));
    CHECK(node.ask(order_of("report"), "reported").error.empty());
  }
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  const Fd ours(ends[0]), theirs(ends[1]);
  REQUIRE(send(ours.get(), "hello", 5, 0) == 5);
  follow(theirs.get(), {});
}

}  // namespace weir::control::fleet
