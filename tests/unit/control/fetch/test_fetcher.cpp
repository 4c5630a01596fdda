// Who is asked when others are gone, or more may be asked at once.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "control/fetch/fetcher.h"
#include "tests/catch.h"
#include "tests/unit/folder.h"

namespace weir::control {
namespace {

// A server that lets anybody connect, and never answers.
struct Silent {
  Silent() {
    sockaddr_in any = {};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof any;
    REQUIRE(bind(socket.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) == 0);
    REQUIRE(listen(socket.get(), 16) == 0);
    REQUIRE(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&any), &length) == 0);
    url = "http://127.0.0.1:" + std::to_string(ntohs(any.sin_port)) + "/";
  }
  // The path that somebody asks for who has connected meanwhile; empty: nobody has.
  std::string asked() {
    Fd one(accept4(socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (one.get() < 0) return "";
    pollfd poll_one = {one.get(), POLLIN, 0};
    char text[100] = {};
    if (poll(&poll_one, 1, 10'000) != 1 || recv(one.get(), text, sizeof text - 1, 0) <= 0) return "";
    connected.push_back(std::move(one));
    const std::string request = text;
    return request.substr(4, request.find(' ', 4) - 4);
  }

  Fd socket{::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  std::string url;
  std::vector<Fd> connected;
};

struct Fetching {
  Fetching() {
    Result<std::unique_ptr<confine::Helpers>> started = confine::Helpers::start({&kFetchJob});
    REQUIRE(started);
    helpers = std::move(*started);
    fetcher = std::make_unique<Fetcher>(loop, helpers.get(), folder / "feeds");
  }
  void set(const std::vector<std::string>& names, uint32_t concurrent) {
    FetchSettings settings;
    settings.concurrent = concurrent;
    std::vector<FetchedFeed> feeds;
    for (const std::string& name : names) feeds.push_back({name, server.url + name, 3600, folder / ("feeds/" + name)});
    fetcher->set(settings, feeds);
  }
  // Who is asked for next, within so long; empty: nobody.
  std::string next(std::chrono::milliseconds most) {
    std::string path;
    const auto deadline = Clock::now() + most;
    while (path.empty() && Clock::now() < deadline) {
      loop.run_until([] { return false; }, Clock::now() + std::chrono::milliseconds(5));
      path = server.asked();
    }
    return path.empty() ? "" : path.substr(1);
  }

  const Folder folder;
  Silent server;
  Loop loop;
  std::unique_ptr<confine::Helpers> helpers;
  std::unique_ptr<Fetcher> fetcher;
};

constexpr std::chrono::seconds kLong{20};
constexpr std::chrono::milliseconds kShort{200};

}  // namespace

TEST_CASE("a feed that waits is asked for when the one before it is gone from the policy") {
  Fetching fetching;
  fetching.set({"a", "b"}, 1);
  const std::string first = fetching.next(kLong), second = first == "a" ? "b" : "a";
  REQUIRE(!first.empty());
  CHECK(fetching.next(kShort).empty());
  fetching.set({second}, 1);
  CHECK(fetching.next(kLong) == second);
}

TEST_CASE("feeds that wait are asked for when more may be fetched at once") {
  Fetching fetching;
  fetching.set({"a", "b", "c"}, 1);
  REQUIRE(!fetching.next(kLong).empty());
  CHECK(fetching.next(kShort).empty());
  fetching.set({"a", "b", "c"}, 2);
  CHECK(!fetching.next(kLong).empty());
  CHECK(fetching.next(kShort).empty());
}

TEST_CASE("a feed that somebody waits for is fetched, though the policy that is set meanwhile does not name it") {
  Fetching fetching;
  FetchSettings settings;
  std::atomic<bool> is_over = false;
  Fetcher::Errors errors;
  std::thread waits([&] {
    errors = fetching.fetcher->fetch_first(settings,
                                           {{"new", fetching.server.url + "new", 3600, fetching.folder / "feeds/new"}});
    is_over = true;
  });
  REQUIRE(fetching.next(kLong) == "new");
  fetching.set({"other"}, 4);
  REQUIRE(fetching.next(kLong) == "other");
  CHECK(!is_over);
  fetching.server.connected[0].reset();  // the server ends the connection: that is the answer
  CHECK(fetching.loop.run_until([&] { return is_over.load(); }, Clock::now() + kLong));
  waits.join();
  CHECK(errors.size() == 1);
  CHECK(errors.begin()->second.find("no answer within") == std::string::npos);
  CHECK(!errors.begin()->second.empty());
}

}  // namespace weir::control
