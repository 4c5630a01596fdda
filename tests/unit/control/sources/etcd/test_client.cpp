// The client of etcd, with a fake etcd that also errs.
#include <sys/eventfd.h>

#include <atomic>
#include <thread>

#include "control/sources/etcd/client.h"
#include "tests/catch.h"
#include "tests/unit/eventually.h"
#include "tests/unit/fake_etcd.h"

namespace weir::control::etcd {
namespace {

using Catch::Matchers::ContainsSubstring;
using Json = FakeEtcd::Json;

Transaction puts(const std::string& prefix, int first, int n) {
  Transaction some;
  for (int i = first; i < first + n; i++) {
    some.steps.push_back({Step::Kind::put, prefix + std::to_string(100'000 + i), "x"});
  }
  return some;
}

std::vector<std::string> keys_of(const std::vector<KeyValue>& pairs) {
  std::vector<std::string> keys;
  keys.reserve(pairs.size());
  for (const KeyValue& pair : pairs) keys.push_back(pair.key);
  return keys;
}

// The members that were asked, in their order. libcurl asks again where a connection that it kept ends, so that the
// same one counts once.
std::vector<size_t> members_asked(FakeEtcd& etcd, const std::string& path) {
  std::vector<size_t> members;
  for (const FakeEtcd::Asked& one : etcd.asked()) {
    if (one.path == path && (members.empty() || members.back() != one.member)) members.push_back(one.member);
  }
  return members;
}

// A watch in a thread of its own, until it ends or end() is called.
class Watching {
 public:
  Watching(Access access, int64_t from) : client_(std::move(access)), stop_(eventfd(0, EFD_CLOEXEC)) {
    thread_ = std::thread([this, from] {
      result_ = client_.watch("w/", from,
                              [this](WatchAnswer& answer) {
                                const std::lock_guard lock(mutex_);
                                answers_.push_back(answer);
                                return true;
                              },
                              {[] { return false; }, stop_.get()});
      is_over_ = true;
    });
  }
  ~Watching() { (void)end(); }
  bool is_over() const { return is_over_; }
  Result<void> end() {
    const uint64_t one = 1;
    if (thread_.joinable()) {
      must(write(stop_.get(), &one, sizeof one) == sizeof one);
      thread_.join();
    }
    return result_;
  }
  std::vector<Event> events() {
    const std::lock_guard lock(mutex_);
    std::vector<Event> events;
    for (const WatchAnswer& answer : answers_) events.insert(events.end(), answer.events.begin(), answer.events.end());
    return events;
  }
  WatchAnswer last() {
    const std::lock_guard lock(mutex_);
    return answers_.empty() ? WatchAnswer{} : answers_.back();
  }

 private:
  Client client_;
  const Fd stop_;
  std::mutex mutex_;  // guards the next one
  std::vector<WatchAnswer> answers_;
  Result<void> result_;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

}  // namespace

TEST_CASE("a key that is not there has no pair, and one that is has its revisions and its lease") {
  FakeEtcd etcd;
  Client client = etcd.client();
  REQUIRE(client.get("a"));
  CHECK(client.get("a")->pairs.empty());
  const int64_t lease = client.grant(60)->id;
  REQUIRE(client.put("a", "1"));
  const int64_t created_at = client.get("a")->revision;
  const Result<TransactionAnswer> put = client.put("a", std::string("\0\xff", 2), lease);
  REQUIRE(put);
  const Result<RangeAnswer> found = client.get("a");
  REQUIRE(found);
  REQUIRE(found->pairs.size() == 1);
  CHECK(found->pairs[0].value == std::string("\0\xff", 2));
  CHECK(found->pairs[0].created_at == created_at);
  CHECK(found->pairs[0].changed_at == put->revision);
  CHECK(found->pairs[0].lease == lease);
  CHECK(found->revision == put->revision);
}

TEST_CASE(
    "a range has as many keys as were asked for, without values where these are not wanted, also as it was once") {
  FakeEtcd etcd;
  Client client = etcd.client();
  const Result<TransactionAnswer> before = client.commit(puts("a/", 0, 3));
  REQUIRE(before);
  REQUIRE(client.put("a/100001", "y"));
  const Result<RangeAnswer> two = client.range({"a/", end_of_prefix("a/"), 2, 0, true});
  REQUIRE(two);
  CHECK(keys_of(two->pairs) == std::vector<std::string>{"a/100000", "a/100001"});
  CHECK(two->has_more);
  CHECK(two->pairs[1].value.empty());
  const Result<RangeAnswer> old = client.range({"a/100001", "", 0, before->revision, false});
  REQUIRE(old);
  REQUIRE(old->pairs.size() == 1);
  CHECK(old->pairs[0].value == "x");
  const Result<RangeAnswer> future = client.range({"a/", "", 0, 99, false});
  REQUIRE_FALSE(future);
  CHECK_THAT(future.error(), ContainsSubstring("required revision is a future revision"));
}

TEST_CASE("more keys than an answer holds are as they were at one moment") {
  FakeEtcd etcd;
  Client client = etcd.client();
  std::vector<std::string> keys;
  for (int first = 0; first < 2100; first += 100) {
    const Transaction some = puts("many/", first, 100);
    for (const Step& step : some.steps) keys.push_back(step.key);
    REQUIRE(client.commit(some));
  }
  REQUIRE(client.put("manz", "is none of them"));
  const Result<RangeAnswer> all = client.all("many/");
  REQUIRE(all);
  CHECK(keys_of(all->pairs) == keys);
  std::vector<std::string> revisions;
  for (const FakeEtcd::Asked& one : etcd.asked()) {
    if (one.path == "kv/range") revisions.push_back(one.body.value("revision", "newest"));
  }
  const std::string first = std::to_string(all->revision);
  CHECK(revisions == std::vector<std::string>{"newest", first, first});
}

TEST_CASE("a transaction is made when its conditions hold, and else reads the keys that were named") {
  FakeEtcd etcd;
  Client client = etcd.client();
  const Result<TransactionAnswer> first = client.commit({{{"a", 0}}, {{Step::Kind::put, "a", "1"}}, {"a"}});
  REQUIRE(first);
  CHECK(first->held);
  const Result<TransactionAnswer> second = client.commit({{{"a", 0}}, {{Step::Kind::put, "a", "2"}}, {"a", "none"}});
  REQUIRE(second);
  CHECK_FALSE(second->held);
  CHECK(second->revision == first->revision);
  REQUIRE(second->read.size() == 1);
  CHECK(second->read[0].value == "1");
  const Transaction third = {
      {{"a", first->revision}},
      {{Step::Kind::range, "a", ""}, {Step::Kind::erase, "a", ""}, {Step::Kind::put, "b/1", "3"}},
      {}};
  const Result<TransactionAnswer> moved = client.commit(third);
  REQUIRE(moved);
  CHECK(moved->held);
  CHECK(moved->read.size() == 1);
  CHECK(client.get("a")->pairs.empty());
  REQUIRE(client.commit({{}, {{Step::Kind::erase, "b/", "", "b0"}}, {}}));
  CHECK(client.all("b/")->pairs.empty());
}

TEST_CASE("a lease ends when it is not kept alive, and its keys with it") {
  FakeEtcd etcd;
  Client client = etcd.client();
  const Result<LeaseAnswer> lease = client.grant(15);
  REQUIRE(lease);
  CHECK(lease->left_s == 15);
  REQUIRE(client.put("alive", "", lease->id));
  etcd.pass(10);
  CHECK(client.time_to_live(lease->id)->left_s < 5);
  CHECK(client.keep_alive(lease->id)->left_s == 15);
  etcd.pass(10);
  CHECK(client.get("alive")->pairs.size() == 1);
  etcd.pass(10);
  CHECK(client.get("alive")->pairs.empty());
  CHECK(client.keep_alive(lease->id)->left_s <= 0);
  CHECK(client.time_to_live(lease->id)->left_s <= 0);
  const Result<TransactionAnswer> late = client.put("alive", "", lease->id);
  REQUIRE_FALSE(late);
  CHECK_THAT(late.error(), ContainsSubstring("requested lease not found"));
}

TEST_CASE("the keys of a lease that is revoked are gone") {
  FakeEtcd etcd;
  Client client = etcd.client();
  const Result<LeaseAnswer> lease = client.grant(15);
  REQUIRE(client.put("a", "", lease->id));
  REQUIRE(client.revoke(lease->id));
  CHECK(client.get("a")->pairs.empty());
  CHECK_FALSE(client.revoke(lease->id));
}

TEST_CASE("a watch tells every change of its keys from its revision on, until it is stopped") {
  FakeEtcd etcd;
  Client client = etcd.client();
  REQUIRE(client.put("w/old", "1"));
  const int64_t from = client.put("w/a", "1")->revision;
  REQUIRE(client.put("v", "is none of them"));
  Watching watching(etcd.access(), from);
  REQUIRE(eventually([&] { return watching.events().size() == 1; }));
  REQUIRE(client.put("x", "is none of them"));
  REQUIRE(client.commit({{}, {{Step::Kind::erase, "w/a", ""}, {Step::Kind::put, "w/b", "2"}}, {}}));
  REQUIRE(eventually([&] { return watching.events().size() == 3; }));
  const std::vector<Event> events = watching.events();
  CHECK(events[0].pair.key == "w/a");
  CHECK(events[0].pair.value == "1");
  CHECK(events[0].pair.changed_at == from);
  CHECK(events[1].is_gone);
  CHECK(events[1].pair.key == "w/a");
  CHECK_FALSE(events[2].is_gone);
  CHECK(events[2].pair.key == "w/b");
  CHECK(watching.last().revision == client.get("w/b")->revision);
  CHECK(watching.end());
}

TEST_CASE("a watch ends without an error when nobody takes more, or when it is asked to") {
  FakeEtcd etcd;
  Client client = etcd.client();
  const int64_t from = client.put("w/a", "1")->revision;
  REQUIRE(client.put("w/a", "2"));
  size_t lines = 0;
  int patience = 300;  // questions, one every 100 ms
  CHECK(client.watch("w/", from,
                     [&](WatchAnswer& answer) {
                       lines++;
                       return answer.events.empty();
                     },
                     {[&] { return --patience == 0; }, -1}));
  CHECK(lines == 2);  // the first says that it has begun
  CHECK(patience > 0);
  CHECK(client.watch("w/", from, [](WatchAnswer&) { return true; }, {[] { return true; }, -1}));
}

TEST_CASE("a watch of what was compacted is told so") {
  FakeEtcd etcd;
  Client client = etcd.client();
  for (const char* value : {"1", "2", "3"}) REQUIRE(client.put("w/a", value));
  etcd.compact(3);
  Watching watching(etcd.access(), 2);
  REQUIRE(eventually([&] { return watching.is_over(); }));
  CHECK(watching.last().is_cancelled);
  CHECK(watching.last().compacted_at == 3);
  const Result<void> ended = watching.end();
  REQUIRE_FALSE(ended);
  CHECK_THAT(ended.error(), ContainsSubstring(etcd.urls()[0]));
}

TEST_CASE("a watch that is cut is an error, and the next one goes to another member") {
  FakeEtcd etcd(2);
  Client client = etcd.client();
  for (const size_t member : {size_t{0}, size_t{1}}) {
    Result<void> ended;
    std::atomic<bool> is_over = false, is_given_up = false;
    std::thread thread([&] {
      ended = client.watch("w/", 1, [](WatchAnswer&) { return true; }, {[&] { return is_given_up.load(); }, -1});
      is_over = true;
    });
    const bool has_begun = eventually([&] { return etcd.watches(member) == 1; });
    etcd.cut(member);
    is_given_up = !has_begun || !eventually([&] { return is_over.load(); });
    thread.join();
    CHECK(has_begun);
    REQUIRE_FALSE(ended);
    CHECK_THAT(ended.error(), ContainsSubstring(etcd.urls()[member]));
  }
}

TEST_CASE("a watch at a member without a leader ends, and says why") {
  FakeEtcd etcd;
  Watching before(etcd.access(), 1);
  REQUIRE(eventually([&] { return etcd.watches() == 1; }));
  etcd.set({{"has_leader", false}});
  REQUIRE(eventually([&] { return before.is_over(); }));
  CHECK(before.end().error() == etcd.urls()[0] + ": etcdserver: no leader");
  Watching after(etcd.access(), 1);
  REQUIRE(eventually([&] { return after.is_over(); }));
  CHECK(after.end().error() == etcd.urls()[0] + ": etcdserver: no leader");
}

TEST_CASE("where an endpoint ends connections the next one is asked, and stays the first choice") {
  FakeEtcd etcd(3);
  Client client = etcd.client();
  REQUIRE(client.put("a", "1"));
  etcd.set({{"drops", true}}, 0);
  CHECK(client.get("a"));
  etcd.set({{"drops", false}}, 0);
  CHECK(client.get("a"));
  etcd.set({{"drops", true}}, 1);
  CHECK(client.get("a"));
  etcd.set({{"drops", true}}, 2);
  CHECK(client.get("a"));
  CHECK(members_asked(etcd, "kv/range") == std::vector<size_t>{0, 1, 2, 0});
}

TEST_CASE("where an endpoint does not answer in time, or has no leader, the next one is asked") {
  FakeEtcd etcd(2);
  REQUIRE(etcd.client().put("a", "1"));
  Access access = etcd.access();
  access.timeout_ms = 200;
  for (const char* fault : {"is_silent", "has_leader"}) {
    const bool is_wrong = std::string(fault) == "is_silent";
    INFO(fault);
    etcd.set({{fault, is_wrong}}, 0);
    Client client(access);
    // A slow machine may not answer in time, either.
    bool is_answered = false;
    for (int turn = 0; turn < 50 && !is_answered; turn++) is_answered = bool(client.get("a"));
    CHECK(is_answered);
    const std::vector<size_t> members = members_asked(etcd, "kv/range");
    REQUIRE(members.size() >= 2);
    CHECK(members.back() == 1);
    etcd.set({{fault, !is_wrong}}, 0);
  }
}

TEST_CASE("an answer that every member would give is not asked for again, any other is") {
  FakeEtcd etcd(2);
  for (const auto& [status, code, is_final] : std::vector<std::tuple<int, int, bool>>{{400, 3, true},
                                                                                      {404, 5, true},
                                                                                      {403, 7, true},
                                                                                      {429, 8, true},
                                                                                      {412, 9, true},
                                                                                      {400, 11, true},
                                                                                      {503, 14, false},
                                                                                      {500, 13, false},
                                                                                      {500, 2, false}}) {
    INFO("code " << code);
    Client client = etcd.client();
    etcd.set({{"fails_with", {status, code, "etcdserver: some reason"}}});
    const Result<RangeAnswer> found = client.get("a");
    CHECK(bool(found) == !is_final);
    if (!found) CHECK(found.error() == etcd.urls()[0] + " answers: etcdserver: some reason");
  }
}

TEST_CASE("when no endpoint answers the error names each of them, and says how to look") {
  FakeEtcd etcd(2);
  etcd.set({{"drops", true}}, 0);
  etcd.set({{"fails_with", {503, 14, "etcdserver: request timed out"}}}, 1);
  const Result<RangeAnswer> found = etcd.client().get("a");
  REQUIRE_FALSE(found);
  CHECK_THAT(found.error(), ContainsSubstring(etcd.urls()[0] + "/v3/kv/range: "));
  CHECK_THAT(found.error(),
             ContainsSubstring("; " + etcd.urls()[1] + " answers: etcdserver: request timed out\nhint: "));
  CHECK_THAT(Client(Access{}).get("a").error(), ContainsSubstring("no endpoint"));
}

TEST_CASE("an etcd that is full says how to make room, and still deletes") {
  FakeEtcd etcd;
  Client client = etcd.client();
  REQUIRE(client.put("a", "1"));
  etcd.set({{"is_full", true}});
  const Result<TransactionAnswer> put = client.put("a", "2");
  REQUIRE_FALSE(put);
  CHECK_THAT(put.error(), ContainsSubstring(std::string("database space exceeded\nhint: ") + kMakeRoom));
  CHECK_FALSE(client.grant(15));
  CHECK(client.commit({{}, {{Step::Kind::erase, "a", ""}}, {}}));
}

TEST_CASE("a user logs in once, and again when the token is not taken any more") {
  FakeEtcd etcd;
  etcd.set_users({{"u", {"p", "/weir/"}}});
  Access access = etcd.access();
  const Result<RangeAnswer> nobody = Client(access).get("/weir/a");
  REQUIRE_FALSE(nobody);
  CHECK_THAT(nobody.error(), ContainsSubstring("user name is empty"));
  access.user = "u";
  access.password = "p";
  Client client(access);
  CHECK(client.put("/weir/a", "1"));
  CHECK(client.get("/weir/a"));
  CHECK(etcd.times("auth/authenticate") == 1);
  etcd.end_tokens();
  CHECK(client.get("/weir/a"));
  CHECK(etcd.times("auth/authenticate") == 2);
  CHECK_THAT(client.get("/other").error(), ContainsSubstring("permission denied"));
  CHECK(etcd.times("auth/authenticate") == 2);
  access.password = "wrong";
  const Result<RangeAnswer> wrong = Client(access).get("/weir/a");
  REQUIRE_FALSE(wrong);
  CHECK_THAT(wrong.error(), ContainsSubstring("does not let user u in: etcdserver: authentication failed"));
}

TEST_CASE("a user logs in again when the token is older than the users of etcd") {
  FakeEtcd etcd;
  etcd.set_users({{"u", {"p", "/weir/"}}});
  Access access = etcd.access();
  access.user = "u";
  access.password = "p";
  Client client(access);
  REQUIRE(client.put("/weir/a", "1"));
  etcd.change_users();
  CHECK(client.get("/weir/a"));
  CHECK(etcd.times("auth/authenticate") == 2);
}

TEST_CASE("a user logs in for a watch, and again after one whose token was not taken") {
  FakeEtcd etcd;
  etcd.set_users({{"u", {"p", "w/"}}});
  Access access = etcd.access();
  access.user = "u";
  access.password = "p";
  Client client(access);
  const int64_t from = client.put("w/a", "1")->revision;
  etcd.end_tokens();
  size_t events = 0;
  int patience = 300;  // questions, one every 100 ms
  const auto watch = [&] {
    return client.watch("w/", from,
                        [&](WatchAnswer& answer) {
                          events += answer.events.size();
                          return events == 0;
                        },
                        {[&] { return --patience == 0; }, -1});
  };
  const Result<void> first = watch();
  REQUIRE_FALSE(first);
  CHECK_THAT(first.error(), ContainsSubstring("invalid auth token"));
  CHECK(watch());
  CHECK(events == 1);
}

TEST_CASE("each member says how it is, and why one does not answer") {
  FakeEtcd etcd(3);
  Client client = etcd.client();
  REQUIRE(client.put("a", "1"));
  etcd.set({{"drops", true}}, 1);
  etcd.set({{"has_leader", false}, {"is_full", true}}, 2);
  const std::vector<Client::Member> members = client.members();
  REQUIRE(members.size() == 3);
  for (size_t n = 0; n < 3; n++) CHECK(members[n].endpoint == etcd.urls()[n]);
  CHECK(members[0].error.empty());
  CHECK(members[0].status.leader == 1);
  CHECK(members[0].status.revision == client.get("a")->revision);
  CHECK(members[0].status.alarms.empty());
  CHECK_FALSE(members[1].error.empty());
  CHECK(members[2].error.empty());
  CHECK(members[2].status.leader == 0);
  CHECK(members[2].status.alarms == std::vector<std::string>{"NOSPACE", "etcdserver: no leader"});
}

}  // namespace weir::control::etcd
