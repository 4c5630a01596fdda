// What etcd's JSON gateway is asked, and what its answers mean, as etcd 3.4 writes them. It itself is asked in
// tests/smoke/test_fleet.py.
#include "control/sources/etcd/messages.h"
#include "tests/catch.h"

namespace weir::control::etcd {

TEST_CASE("bytes are base64 with padding, and nothing else is") {
  const std::pair<std::string, std::string> rows[] = {// RFC 4648, section 10
                                                      {"", ""},
                                                      {"f", "Zg=="},
                                                      {"fo", "Zm8="},
                                                      {"foo", "Zm9v"},
                                                      {"foob", "Zm9vYg=="},
                                                      {"fooba", "Zm9vYmE="},
                                                      {"foobar", "Zm9vYmFy"},
                                                      {std::string("\0\xff", 2), "AP8="}};
  for (const auto& [bytes, text] : rows) {
    CHECK(to_base64(bytes) == text);
    const Result<std::string> back = from_base64(text);
    REQUIRE(back);
    CHECK(*back == bytes);
  }
  for (const char* wrong : {"Zg", "Zg=", "Z===", "Zm9v!", "Zm 9", "====", "\xff\xff\xff\xff"})
    CHECK_FALSE(from_base64(wrong));
}

TEST_CASE("whole numbers are digits, and 0 is left out") {
  CHECK(*whole_of("") == 0);
  CHECK(*whole_of("-1") == -1);
  CHECK(*whole_of("9223372036854775807") == INT64_MAX);
  for (const char* wrong : {"9223372036854775808", "1.5", " 1", "1 ", "x"}) CHECK_FALSE(whole_of(wrong));
}

TEST_CASE("a prefix ends before the next key that does not begin with it") {
  CHECK(end_of_prefix("/weir/a/") == "/weir/a0");
  CHECK(end_of_prefix("a\xff") == "b");
  CHECK(end_of_prefix(std::string("\xff\xff")) == std::string(1, '\0'));
}

TEST_CASE("ranges") {
  CHECK(text_of(RangeRequest{"a", "b", 5, 7, true}) ==
        "{\"key\":\"YQ==\",\"range_end\":\"Yg==\",\"limit\":\"5\",\"revision\":\"7\",\"keys_only\":true}\n");
  CHECK(text_of(RangeRequest{"a", "", 0, 0, false}) == "{\"key\":\"YQ==\"}\n");
  const Result<RangeAnswer> answer = read_range(
      R"({"header":{"cluster_id":"324952591200643719","revision":"2"},"kvs":[{"key":"YQ==","create_revision":"2",)"
      R"("mod_revision":"3","version":"1","value":"MQ==","lease":"77"}],"more":true,"count":"2"})");
  REQUIRE(answer);
  REQUIRE(answer->pairs.size() == 1);
  const KeyValue& pair = answer->pairs[0];
  CHECK(pair.key == "a");
  CHECK(pair.value == "1");
  CHECK(pair.created_at == 2);
  CHECK(pair.changed_at == 3);
  CHECK(pair.lease == 77);
  CHECK(answer->revision == 2);
  CHECK(answer->has_more);
  REQUIRE(read_range(R"({"header":{"revision":"2"}})"));
  for (const char* wrong : {"", "[]", "{", R"({"kvs":[{"key":"!"}]})", R"({"kvs":[{"mod_revision":"x"}]})",
                            R"({"kvs":7})", R"({"header":{"revision":7}})"}) {
    CHECK_FALSE(read_range(wrong));
  }
}

TEST_CASE("transactions") {
  const Transaction transaction = {
      {{"a", 3}}, {{Step::Kind::put, "a", "1", "", 9}, {Step::Kind::erase, "b", "", "c"}}, {"a"}};
  CHECK(text_of(transaction) ==
        "{\"compare\":[{\"key\":\"YQ==\",\"target\":\"MOD\",\"result\":\"EQUAL\",\"mod_revision\":\"3\"}],\"success\":["
        "{\"request_put\":{\"key\":\"YQ==\",\"value\":\"MQ==\",\"lease\":\"9\"}},"
        "{\"request_delete_range\":{\"key\":\"Yg==\",\"range_end\":\"Yw==\"}}],"
        "\"failure\":[{\"request_range\":{\"key\":\"YQ==\"}}]}\n");
  const auto held =
      read_transaction(R"({"header":{"revision":"3"},"succeeded":true,"responses":[{"response_put":{}}]})");
  REQUIRE(held);
  CHECK(held->held);
  CHECK(held->revision == 3);
  const auto failed = read_transaction(
      R"({"header":{"revision":"3"},"responses":[{"response_range":{"kvs":[{"key":"YQ==","mod_revision":"2"}]}}]})");
  REQUIRE(failed);
  CHECK_FALSE(failed->held);
  REQUIRE(failed->read.size() == 1);
  CHECK(failed->read[0].changed_at == 2);
}

TEST_CASE("leases") {
  CHECK(grant_text(10) == "{\"TTL\":\"10\"}\n");
  CHECK(lease_text(7) == "{\"ID\":\"7\"}\n");
  CHECK(read_lease(R"({"ID":"7","TTL":"10"})")->left_s == 10);
  CHECK(read_lease(R"({"ID":"7","TTL":"-1"})")->left_s == -1);
  CHECK(read_keepalive(R"({"result":{"ID":"7","TTL":"15"}})")->left_s == 15);
  CHECK(read_keepalive(R"({"result":{"ID":"7"}})")->left_s == 0);  // it has ended
}

TEST_CASE("watches") {
  CHECK(watch_text("a", "b", 5) ==
        "{\"create_request\":{\"key\":\"YQ==\",\"range_end\":\"Yg==\",\"start_revision\":\"5\"}}\n");
  const auto events = read_watch(
      R"({"result":{"header":{"revision":"4"},"events":[{"kv":{"key":"YQ==","mod_revision":"4","value":"Mw=="}},)"
      R"({"type":"DELETE","kv":{"key":"Yg==","mod_revision":"4"}}]}})");
  REQUIRE(events);
  CHECK(events->revision == 4);
  REQUIRE(events->events.size() == 2);
  CHECK_FALSE(events->events[0].is_gone);
  CHECK(events->events[1].is_gone);
  CHECK(events->events[1].pair.key == "b");
  const auto compacted = read_watch(R"({"result":{"header":{},"canceled":true,"compact_revision":"4"}})");
  REQUIRE(compacted);
  CHECK(compacted->is_cancelled);
  CHECK(compacted->compacted_at == 4);
  const auto lost = read_watch(R"({"error":{"grpc_code":14,"message":"etcdserver: no leader"}})");
  REQUIRE(lost);
  CHECK(lost->is_cancelled);
  CHECK(lost->reason == "etcdserver: no leader");
}

TEST_CASE("what a member says of itself") {
  const auto well =
      read_status(R"({"header":{"revision":"14"},"version":"3.4.23","dbSize":"15437824","leader":"4634"})");
  REQUIRE(well);
  CHECK(well->database_bytes == 15437824);
  CHECK(well->revision == 14);
  CHECK(well->alarms.empty());
  const auto full = read_status(R"({"header":{"revision":"14"},"version":"3.4.23","dbSize":"1",
      "errors":["memberID:2958 alarm:NOSPACE ","memberID:77 alarm:NOSPACE ","etcdserver: no leader"]})");
  REQUIRE(full);
  CHECK(full->alarms == std::vector<std::string>{"NOSPACE", "etcdserver: no leader"});
  CHECK_FALSE(read_status(R"({"errors":"NOSPACE"})"));
}

TEST_CASE("failures") {
  const Failure failure = read_failure(R"({"error":"etcdserver: request is too large","message":"...","code":3})");
  CHECK(failure.message == "etcdserver: request is too large");
  CHECK(failure.code == 3);
  const Failure of_watch =
      read_failure(R"({"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader"}})");
  CHECK(of_watch.message == "etcdserver: no leader");
  CHECK(of_watch.code == 14);
  CHECK(read_failure("<html>").message.empty());
}

}  // namespace weir::control::etcd
