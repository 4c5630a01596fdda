#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/confine/helpers.h"
#include "control/base/loop/loop.h"
#include "control/base/loop/worker.h"
#include "control/policy/model/fetch.h"
#include "control/sources/fetch/transfer.h"

namespace weir::control {

// Keeps the files of fetched feeds as their servers have them: asks each when it is due, by a process without rights
// (transfer.h), and puts what came into place in one step, for whoever watches files. What is there stays until
// something whole has come. How each stands is on disk beside its file. Belongs to the loop, which never waits for a
// network or a disk here.
class Fetcher {
 public:
  // helpers: that kFetchJob was given to; null: nothing is ever asked. folder: of the files; made when it is needed.
  Fetcher(Loop& loop, const confine::Helpers* helpers, std::string folder);
  ~Fetcher();
  Fetcher(const Fetcher&) = delete;

  // These from now on, and no others but those that fetch_first() waits for.
  void set(const FetchSettings& settings, const std::vector<FetchedFeed>& feeds);
  // Asks for these at once, and waits until each has been asked, or for the time limit of `settings`. By a thread that
  // is not the loop's; what set() does not name after it is forgotten. Returns what went wrong, by path; at once when
  // it is given up.
  using Errors = std::map<std::string, std::string>;
  using GivenUp = std::shared_ptr<std::atomic<bool>>;
  Errors fetch_first(const FetchSettings& settings, const std::vector<FetchedFeed>& feeds, GivenUp is_given_up = {});
  void give_up_first(const GivenUp& is_given_up);
  // Asks for it now, and tells what went wrong; empty: nothing. Error: it is not one of set()'s.
  using Done = std::function<void(const std::string& error)>;
  Result<void> ask_now(const std::string& path, Done done);
  // Null: it is not known yet.
  const FetchState* state_of(const std::string& path) const;
  // Nothing is asked any more, and nobody waits.
  void stop();

 private:
  struct Feed {
    FetchedFeed spec;
    FetchSettings settings;
    FetchState state;
    bool is_known = false;    // the state was read
    bool is_wanted = false;   // as soon as it is
    bool is_running = false;  // from begin() to end()
    confine::Helper helper;
    Loop::Source due, answered, deadline;
    std::vector<Done> asking;  // whoever asked for it now
  };
  struct First;
  struct Outcome;

  Feed* find(const std::string& path);
  void add(const FetchSettings& settings, const FetchedFeed& spec);
  void ask_at(Feed& feed, int64_t at);
  void ask(const std::string& path);
  void begin(Feed& feed);
  void begin_waiting();  // as many as may run
  void take_helper(const std::string& path, Result<confine::Helper> helper);
  void take_answer(const std::string& path);
  void keep(Feed& feed, const TransferAnswer& answer);
  void fail(const std::string& path, const std::string& error);
  void end(const std::string& path, const Outcome& outcome);
  void tell_of(const Feed& feed, const FetchState& before) const;
  void finish_first(const std::string& path, const std::string& error);
  static void end_first(First& first);
  void remove_old();
  double random() { return std::uniform_real_distribution<double>(0, 1)(random_); }

  Loop& loop_;
  const confine::Helpers* const helpers_;
  const std::string folder_;
  std::map<std::string, std::unique_ptr<Feed>> feeds_;  // by path
  uint32_t running_ = 0, most_running_ = FetchSettings().concurrent;
  std::deque<std::string> waiting_;
  std::vector<std::shared_ptr<First>> firsts_;
  std::mutex unseen_mutex_;                  // guards what follows
  std::set<std::shared_ptr<First>> unseen_;  // that the loop has not begun yet
  bool is_closed_ = false;                   // stop() came
  bool is_stopped_ = false;
  std::minstd_rand random_{std::random_device{}()};
  Mailbox mailbox_;
  Worker disk_;  // last: ends before what it uses
};

}  // namespace weir::control
