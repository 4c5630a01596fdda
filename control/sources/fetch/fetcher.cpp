#include "control/sources/fetch/fetcher.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <mutex>
#include <set>

#include "common/clock.h"
#include "common/files.h"
#include "common/log/log.h"
#include "common/own_folder.h"
#include "common/wait_for.h"
#include "control/sources/fetch/state.h"

namespace weir::control {
namespace {

using std::chrono::seconds;

constexpr size_t kMostStateBytes = 64 * 1024, kMostCertificates = size_t{16} << 20;
constexpr uint64_t kMostFetcherMemory = uint64_t{256} << 20;  // beside the content
constexpr seconds kMoreTime{10};                              // than libcurl has, for a process that was taken over
constexpr int64_t kKeepOld_s = 7 * 86400;

std::string state_path(const std::string& path) {
  return path + ".state";
}

uint64_t size_of(const std::string& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
}

bool holds(const std::string& path, std::span<const std::byte> bytes) {
  if (size_of(path) != bytes.size()) return false;
  const Result<std::string> text = read_file(path, bytes.size() + 1);
  return text && text->size() == bytes.size() && memcmp(text->data(), bytes.data(), bytes.size()) == 0;
}

// A text that another process gave: up to its NUL, and nothing that a header or a log could not hold.
template <size_t size>
std::string text_of(const char (&text)[size]) {
  std::string result(text, strnlen(text, size - 1));
  for (char& c : result) {
    if (c < ' ' || c > '~') c = '?';
  }
  return result;
}

template <size_t size>
void copy_text(const std::string& from, char (&to)[size]) {
  memset(to, 0, size);
  from.copy(to, size - 1);
}

TransferRequest request_of(const FetchedFeed& feed, const FetchSettings& settings, const FetchState& state) {
  TransferRequest request = {};
  copy_text(feed.url, request.url);
  copy_text(settings.proxy, request.proxy);
  copy_text(settings.user_agent, request.user_agent);
  copy_text(state.etag, request.etag);
  copy_text(state.last_modified, request.last_modified);
  request.timeout_s = settings.timeout_s;
  request.max_bytes = settings.max_bytes;
  request.may_be_private = settings.may_be_private ? 1 : 0;
  return request;
}

// On the disk's thread: a process that was asked.
Result<confine::Helper> ask_helper(const confine::Helpers& helpers, const FetchSettings& settings,
                                   TransferRequest request) {
  std::string certificates;
  if (!settings.ca_file.empty()) {
    Result<std::string> read = read_file(settings.ca_file, kMostCertificates);
    if (!read) return Error{"fetch: ca_file: " + read.error()};
    if (read->empty()) return Error{"fetch: ca_file: " + settings.ca_file + " is empty"};
    certificates = std::move(*read);
  }
  const size_t shared = std::max<size_t>(settings.max_bytes, certificates.size());
  Result<confine::Helper> helper = helpers.make(kFetchJob, shared, kMostFetcherMemory);
  if (!helper) return helper;
  certificates.copy(reinterpret_cast<char*>(helper->shared.bytes().data()), certificates.size());
  request.certificate_bytes = certificates.size();
  if (const Result<void> asked = confine::ask(*helper, std::as_bytes(std::span(&request, 1))); !asked) {
    return Error{asked.error()};
  }
  return helper;
}

}  // namespace

// Somebody who waits for the first attempts.
struct Fetcher::First {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_over = false;
  GivenUp is_given_up;
  Errors errors;
  std::set<std::string> left;  // the loop's
};

struct Fetcher::Outcome {
  std::string error;  // empty: it worked
  bool is_changed = false;
  std::string etag, last_modified;
  uint64_t bytes = 0, retry_after_s = 0;
};

Fetcher::Fetcher(Loop& loop, const confine::Helpers* helpers, std::string folder)
    : loop_(loop), helpers_(helpers), folder_(std::move(folder)), mailbox_(loop) {}

Fetcher::~Fetcher() {
  stop();
}

void Fetcher::stop() {
  is_stopped_ = true;
  const auto feeds = std::exchange(feeds_, {});
  for (const auto& [path, feed] : feeds) {
    for (const Done& done : feed->asking) done("controld stops");
  }
  for (const auto& first : std::exchange(firsts_, {})) end_first(*first);
  {
    const std::lock_guard lock(unseen_mutex_);
    is_closed_ = true;
    for (const auto& first : std::exchange(unseen_, {})) end_first(*first);
  }
  disk_.stop();
}

Fetcher::Feed* Fetcher::find(const std::string& path) {
  const auto found = feeds_.find(path);
  return found == feeds_.end() ? nullptr : found->second.get();
}

const FetchState* Fetcher::state_of(const std::string& path) const {
  const auto found = feeds_.find(path);
  return found == feeds_.end() || !found->second->is_known ? nullptr : &found->second->state;
}

void Fetcher::set(const FetchSettings& settings, const std::vector<FetchedFeed>& feeds) {
  if (is_stopped_ || helpers_ == nullptr) return;
  most_running_ = settings.concurrent;
  const size_t before = feeds_.size();
  std::set<std::string> wanted;
  for (const FetchedFeed& spec : feeds) {
    wanted.insert(spec.path);
    add(settings, spec);
  }
  for (const auto& first : firsts_) wanted.insert(first->left.begin(), first->left.end());  // somebody waits for these
  for (auto it = feeds_.begin(); it != feeds_.end();) {
    const auto here = it++;
    if (wanted.contains(here->first)) continue;
    const std::unique_ptr<Feed> gone = std::move(here->second);
    feeds_.erase(here);
    if (gone->is_running) running_--;
    for (const Done& done : gone->asking) done("the policy does not name it any more");
  }
  if (feeds_.size() != before) remove_old();
  std::erase_if(waiting_, [&](const std::string& path) { return !feeds_.contains(path); });
  begin_waiting();  // in the place of those that are gone, or because more may run
}

void Fetcher::add(const FetchSettings& settings, const FetchedFeed& spec) {
  if (Feed* known = find(spec.path)) {
    const bool is_sooner = spec.every_s < known->spec.every_s;
    known->spec = spec;
    known->settings = settings;
    if (is_sooner && known->is_known && !known->is_running && known->state.failures == 0) {
      ask_at(*known, std::min(known->state.next_at, next_after_success(unix_now(), spec.every_s, random())));
    }
    return;
  }
  auto feed = std::make_unique<Feed>();
  feed->spec = spec;
  feed->settings = settings;
  feeds_[spec.path] = std::move(feed);
  disk_.submit([this, spec] {
    const Result<std::string> text = read_file(state_path(spec.path), kMostStateBytes);
    Result<FetchState> state = text ? read_fetch_state(*text) : Result<FetchState>(FetchState());
    if (!state)
      log::warning("the state of a feed cannot be read: it is asked for anew",
                   {{"list", spec.list}, {"file", state_path(spec.path)}, {"error", state.error()}});
    const bool is_whole = state && state->url == shown_url(spec.url) && access(spec.path.c_str(), R_OK) == 0;
    mailbox_.post([this, path = spec.path, state = is_whole ? *state : FetchState()] {
      Feed* here = find(path);
      if (here == nullptr) return;
      here->is_known = true;
      here->state = state;
      if (here->is_wanted) return ask(path);
      ask_at(*here, next_of(state, unix_now(), here->spec.every_s));
    });
  });
}

void Fetcher::ask_at(Feed& feed, int64_t at) {
  feed.state.next_at = at;
  const seconds wait(std::max<int64_t>(0, at - unix_now()));
  feed.due = loop_.timer(Clock::now() + wait, [this, path = feed.spec.path] { ask(path); });
}

Result<void> Fetcher::ask_now(const std::string& path, Done done) {
  Feed* feed = find(path);
  if (feed == nullptr) return Error{"it is not fetched"};
  feed->asking.push_back(std::move(done));
  ask(path);
  return {};
}

// Now, or as soon as others are done.
void Fetcher::ask(const std::string& path) {
  Feed* feed = find(path);
  if (feed == nullptr || feed->is_running) return;
  feed->is_wanted = true;
  if (!feed->is_known) return;
  if (running_ < most_running_) return begin(*feed);
  if (std::find(waiting_.begin(), waiting_.end(), path) == waiting_.end()) waiting_.push_back(path);
}

void Fetcher::begin(Feed& feed) {
  running_++;
  feed.is_running = true;
  feed.is_wanted = false;
  feed.due.reset();
  feed.state.tried_at = unix_now();
  disk_.submit([this, spec = feed.spec, settings = feed.settings, state = feed.state]() mutable {
    // A file that somebody took away or changed is asked for whole.
    if (access(spec.path.c_str(), R_OK) != 0 || size_of(spec.path) != state.bytes)
      state.etag = state.last_modified = "";
    auto helper =
        std::make_shared<Result<confine::Helper>>(ask_helper(*helpers_, settings, request_of(spec, settings, state)));
    mailbox_.post([this, path = spec.path, helper] { take_helper(path, std::move(*helper)); });
  });
}

void Fetcher::take_helper(const std::string& path, Result<confine::Helper> helper) {
  Feed* feed = find(path);
  if (feed == nullptr || !feed->is_running) return;
  if (!helper) return fail(path, helper.error());
  feed->helper = std::move(*helper);
  feed->answered = loop_.io(feed->helper.socket.get(), EPOLLIN, [this, path](uint32_t) { take_answer(path); });
  if (!feed->answered) return fail(path, errno_error("cannot wait for the process that fetches it").message);
  const seconds most = seconds(feed->settings.timeout_s * kMostTimeouts) + kMoreTime;
  feed->deadline =
      loop_.timer(Clock::now() + most, [this, path] { fail(path, "the process that fetches it does not answer"); });
}

void Fetcher::take_answer(const std::string& path) {
  Feed* feed = find(path);
  if (feed == nullptr) return;
  TransferAnswer answer = {};
  const ssize_t got = recv(feed->helper.socket.get(), &answer, sizeof answer, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  feed->answered.reset();
  feed->deadline.reset();
  if (got != sizeof answer || answer.bytes > feed->helper.shared.bytes().size()) {
    return fail(path, "the process that fetches it ended");
  }
  if (answer.result == TransferResult::taken) return keep(*feed, answer);
  Outcome outcome;
  outcome.retry_after_s = answer.retry_after_s;
  if (answer.result == TransferResult::failed) outcome.error = text_of(answer.error);
  if (answer.result == TransferResult::failed && outcome.error.empty()) outcome.error = "nobody says why";
  outcome.etag = feed->state.etag;
  outcome.last_modified = feed->state.last_modified;
  outcome.bytes = feed->state.bytes;
  end(path, outcome);
}

// The content, in place of the file, unless it is the same.
void Fetcher::keep(Feed& feed, const TransferAnswer& answer) {
  Outcome outcome;
  outcome.etag = text_of(answer.etag);
  outcome.last_modified = text_of(answer.last_modified);
  outcome.bytes = answer.bytes;
  disk_.submit([this, path = feed.spec.path, outcome,
                helper = std::make_shared<confine::Helper>(std::move(feed.helper))]() mutable {
    const std::span<const std::byte> bytes = helper->shared.bytes().first(outcome.bytes);
    if (!holds(path, bytes)) {
      outcome.is_changed = true;
      Result<void> written = make_directories(folder_, 0700);
      if (written) written = write_file_durably(path, {bytes}, 0600);
      if (!written) outcome.error = written.error();
    }
    mailbox_.post([this, path, outcome] { end(path, outcome); });
  });
}

void Fetcher::fail(const std::string& path, const std::string& error) {
  Outcome outcome;
  outcome.error = error;
  end(path, outcome);
}

void Fetcher::end(const std::string& path, const Outcome& outcome) {
  Feed* feed = find(path);
  if (feed == nullptr || !feed->is_running) return;
  feed->is_running = false;
  feed->helper = {};
  feed->answered.reset();
  feed->deadline.reset();
  running_--;
  const FetchState before = feed->state;
  FetchState& state = feed->state;
  const int64_t now = unix_now();
  state.url = shown_url(feed->spec.url);
  state.error = outcome.error;
  if (outcome.error.empty()) {
    state.failures = 0;
    state.fetched_at = now;
    if (outcome.is_changed || state.changed_at == 0) state.changed_at = now;
    state.etag = outcome.etag;
    state.last_modified = outcome.last_modified;
    state.bytes = outcome.bytes;
    ask_at(*feed, next_after_success(now, feed->spec.every_s, random()));
  } else {
    state.failures++;
    ask_at(*feed, next_after_failure(now, feed->spec.every_s, state.failures, outcome.retry_after_s, random()));
  }
  tell_of(*feed, before);
  disk_.submit([this, path, text = write_fetch_state(state)] {
    Result<void> written = make_directories(folder_, 0700);
    if (written) written = write_file_durably(state_path(path), {std::as_bytes(std::span(text))}, 0600);
    if (!written)
      log::error("the state of a fetch is not kept", {{"file", state_path(path)}, {"error", written.error()}});
  });
  finish_first(path, outcome.error);
  for (const Done& done : std::exchange(feed->asking, {})) done(outcome.error);
  begin_waiting();
}

void Fetcher::begin_waiting() {
  while (running_ < most_running_ && !waiting_.empty()) {
    const std::string next = waiting_.front();
    waiting_.pop_front();
    ask(next);
  }
}

// Not each time that the same goes wrong, but as often as it doubles.
void Fetcher::tell_of(const Feed& feed, const FetchState& before) const {
  const FetchState& state = feed.state;
  const std::string url = shown_url(feed.spec.url);
  if (state.error.empty()) {
    if (state.changed_at != before.changed_at) {
      log::info("feed fetched", {{"list", feed.spec.list}, {"bytes", state.bytes}, {"url", url}});
    } else if (before.failures != 0) {
      log::info("feed answers again, and did not change", {{"list", feed.spec.list}, {"url", url}});
    }
  } else if (state.error != before.error || (state.failures & (state.failures - 1)) == 0) {
    log::warning("feed not fetched", {{"list", feed.spec.list},
                                      {"url", url},
                                      {"error", state.error},
                                      {"failures", state.failures},
                                      {"again_in_s", state.next_at - unix_now()}});
  }
}

void Fetcher::end_first(First& first) {
  const std::lock_guard lock(first.mutex);
  first.is_over = true;
  first.changed.notify_all();
}

void Fetcher::give_up_first(const GivenUp& is_given_up) {
  *is_given_up = true;
  std::erase_if(firsts_, [&](const std::shared_ptr<First>& first) {
    if (first->is_given_up != is_given_up) return false;
    end_first(*first);
    return true;
  });
}

Fetcher::Errors Fetcher::fetch_first(const FetchSettings& settings, const std::vector<FetchedFeed>& feeds,
                                     GivenUp is_given_up) {
  const auto first = std::make_shared<First>();
  first->is_given_up = std::move(is_given_up);
  {
    const std::lock_guard lock(unseen_mutex_);
    if (is_closed_) return {};
    unseen_.insert(first);
  }
  mailbox_.post([this, settings, feeds, first] {
    {
      const std::lock_guard seen(unseen_mutex_);
      unseen_.erase(first);
    }
    if (first->is_given_up && *first->is_given_up) return end_first(*first);
    for (const FetchedFeed& spec : feeds) {
      add(settings, spec);
      first->left.insert(spec.path);
      first->errors[spec.path] = fmt::format("no answer within {} s", settings.timeout_s);
    }
    if (is_stopped_ || helpers_ == nullptr) first->left.clear();
    firsts_.push_back(first);
    if (first->left.empty()) return finish_first("", "");
    for (const FetchedFeed& spec : feeds) ask(spec.path);
  });
  std::unique_lock lock(first->mutex);
  wait_for(first->changed, lock, seconds(settings.timeout_s), [&] { return first->is_over; });
  if (!first->is_over) {
    mailbox_.post([this, first] { std::erase(firsts_, first); });
  }
  return first->errors;
}

void Fetcher::finish_first(const std::string& path, const std::string& error) {
  std::erase_if(firsts_, [&](const std::shared_ptr<First>& first) {
    const std::lock_guard lock(first->mutex);
    if (first->left.erase(path) != 0) first->errors[path] = error;
    first->is_over = first->left.empty();
    if (first->is_over) first->changed.notify_all();
    return first->is_over;
  });
}

// Files of feeds that no policy names any more, after a week: an old policy may come back.
void Fetcher::remove_old() {
  std::set<std::string> kept;
  for (const auto& [path, feed] : feeds_) {
    kept.insert(path);
    kept.insert(state_path(path));
  }
  disk_.submit([folder = folder_, kept] {
    const Result<std::vector<std::string>> names = names_in(folder);
    if (!names) return;
    for (const std::string& name : *names) {
      struct stat status = {};
      const std::string path = folder + "/" + name;
      if (kept.contains(path) || stat(path.c_str(), &status) != 0) continue;
      if (S_ISREG(status.st_mode) && status.st_mtime < unix_now() - kKeepOld_s) unlink(path.c_str());
    }
  });
}

}  // namespace weir::control
