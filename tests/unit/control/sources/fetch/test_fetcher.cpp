// Who is asked when others are gone, or more may be asked at once.
#include <atomic>
#include <thread>

#include "control/sources/fetch/fetcher.h"
#include "tests/catch.h"
#include "tests/unit/folder.h"
#include "tests/unit/own_clocks.h"
#include "tests/unit/silent_server.h"

namespace weir::control {
namespace {

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
  SilentServer server;
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

TEST_CASE("whoever waits for a feed is let go by a stop, though the loop turns no more") {
  Fetching fetching;
  const OwnClocks clocks;  // its time limit does not pass
  std::atomic<bool> is_over = false;
  std::thread waits([&] {
    fetching.fetcher->fetch_first({}, {{"new", fetching.server.url + "new", 3600, fetching.folder / "feeds/new"}});
    is_over = true;
  });
  fetching.fetcher->stop();
  CHECK(eventually([&] { return is_over.load(); }));
  clocks.pass(std::chrono::hours(1));
  waits.join();
}

TEST_CASE("a feed that somebody waits for is fetched, though the policy that is set meanwhile does not name it") {
  Fetching fetching;
  FetchSettings settings;
  bool is_over = false;
  Fetcher::Errors errors;
  std::thread waits([&] {
    errors = fetching.fetcher->fetch_first(settings,
                                           {{"new", fetching.server.url + "new", 3600, fetching.folder / "feeds/new"}});
    fetching.loop.post([&] { is_over = true; });
  });
  REQUIRE(fetching.next(kLong) == "new");
  fetching.set({"other"}, 4);
  REQUIRE(fetching.next(kLong) == "other");
  CHECK(!is_over);
  fetching.server.connected[0].reset();  // the server ends the connection: that is the answer
  CHECK(fetching.loop.run_until([&] { return is_over; }, Clock::now() + kLong));
  waits.join();
  CHECK(errors.size() == 1);
  CHECK(errors.begin()->second.find("no answer within") == std::string::npos);
  CHECK(!errors.begin()->second.empty());
}

}  // namespace weir::control
