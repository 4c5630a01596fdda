// Random orders to a real Daemon: each call is answered once, and by the report of its own order.
//
//   test-orders [--orders N] [--seed S]     prints {"seed", "orders", "unanswered", "wrong"}; exit 1 when either is not
//   0
#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/log/log.h"
#include "control/daemon/daemon.h"
#include "control/policy/read/parsers.h"
#include "control/sources/fetch/transfer.h"
#include "tests/unit/control/support/enforcer.h"
#include "tests/unit/folder.h"

using namespace weir;
using namespace weir::control;

namespace {

using std::chrono::milliseconds;

constexpr uint64_t kFetchTimeout_s = 10;
// Turns of the loop after which an answer of a server has reached whoever waits for it. A turn takes 2 ms.
constexpr uint64_t kAnswerTurns = 500;
constexpr uint64_t kPatience = 20'000;  // turns without an answer that a call is given
constexpr const char* kNoAnswer = "no answer within";
constexpr const char* kNotAnswered = "is not answered";

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// "order 1" is not in "order 12".
bool names(const std::string& text, const std::string& name) {
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    if (end == text.size() || text[end] < '0' || text[end] > '9') return true;
  }
  return false;
}

// A server of feeds on loopback, which the test itself turns. A path of /held/ is answered when release() says so.
class FeedServer {
 public:
  FeedServer() {
    sockaddr_in any = {};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof any;
    if (bind(listener_.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) != 0 || listen(listener_.get(), 64) != 0 ||
        getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&any), &length) != 0) {
      perror("test-orders: a socket of loopback");
      exit(1);
    }
    base_ = fmt::format("http://127.0.0.1:{}", ntohs(any.sin_port));
  }
  std::string url(bool is_held, uint64_t number) const {
    return fmt::format("{}/{}/{}.", base_, is_held ? "held" : "now", number);
  }
  void turn() {
    turns_++;
    for (;;) {
      Fd client(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (client.get() < 0) break;
      clients_.push_back({std::move(client), ""});
    }
    std::erase_if(clients_, [&](Client& client) {
      char part[4096];
      const ssize_t got = recv(client.socket.get(), part, sizeof part, 0);
      if (got == 0) return true;
      if (got > 0) client.request.append(part, static_cast<size_t>(got));
      if (!holds(client.request, "\r\n\r\n")) return false;
      if (holds(client.request, "GET /held/") && !is_released_) return false;
      const std::string path = client.request.substr(4, client.request.find(' ', 4) - 4);
      const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nConnection: close\r\n\r\n198.18.7.77\n";
      (void)send(client.socket.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      answered_[base_ + path] = turns_;
      return true;
    });
    is_released_ = always_;
  }
  void release() { is_released_ = true; }
  void release_always(bool always) { always_ = is_released_ = always; }
  // The answer was sent that long ago, or this server was not even asked.
  bool has_answered(const std::string& url) const {
    for (const Client& client : clients_) {
      if (holds(client.request, url.substr(base_.size()))) return false;
    }
    const auto found = answered_.find(url);
    return found == answered_.end() || found->second + kAnswerTurns < turns_;
  }
  // A report tells of a server that did not answer, and all that it names have.
  bool is_slandered_by(const std::string& text) const {
    if (!holds(text, kNoAnswer)) return false;
    for (const Client& client : clients_) {
      if (!client.request.empty()) return false;
    }
    return std::all_of(answered_.begin(), answered_.end(),
                       [&](const auto& one) { return !holds(text, one.first) || has_answered(one.first); });
  }

 private:
  struct Client {
    Fd socket;
    std::string request;
  };
  const Fd listener_{::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  std::string base_;
  std::vector<Client> clients_;
  std::map<std::string, uint64_t> answered_;  // by url: the turn
  uint64_t turns_ = 0;
  bool is_released_ = false, always_ = false;
};

// A call and its answer. wrong: why the answer is not its own.
struct Call {
  std::string what;
  int answers = 0;
  std::string wrong;
};

// A policy file, or a candidate, has list v<number> when it is good, an entry nonsense<number> when it is bad.
struct Version {
  uint64_t number = 0;
  bool is_good = true;
  std::string text;
};

struct Counts {
  uint64_t orders = 0, unanswered = 0, wrong = 0;
};

// One life of a Daemon, from its start to stop().
class Life {
 public:
  enum class Targets { none, one, away };

  Life(std::mt19937_64& random, const confine::Helpers& parsers, Targets targets)
      : random_(random), targets_(targets), folder_(std::make_unique<Folder>()) {
    if (targets == Targets::one) enforcer_ = std::make_unique<Enforcer>(*folder_ / "target");
    write_fed();
    write_policy(true, false);
    Daemon::Options options;
    options.config = *folder_ / "weir.yaml";
    options.state_dir = *folder_ / "state";
    if (targets != Targets::none) options.targets.push_back(dataplane_target(*folder_ / "target"));
    options.times = {5, 20, 10'000, 20'000};
    options.times.switched = 20'000;
    options.acknowledge_ms = targets == Targets::away ? 1500 : 20'000;
    options.parsers = &parsers;
    options.watch_feeds = options.fetches = true;
    Result<std::unique_ptr<Daemon>> started = Daemon::start(loop_, options);
    if (!started) {
      fprintf(stderr, "test-orders: the daemon does not start: %s\n", started.error().c_str());
      exit(1);
    }
    daemon_ = std::move(*started);
    look();
  }

  void order() {
    using Order = void (Life::*)();
    struct Row {
      int weight;
      Order order;
    };
    static const Row kRows[] = {
        {12, &Life::write_any_policy}, {14, &Life::reload},        {8, &Life::reload_to_confirm},
        {8, &Life::confirm},           {8, &Life::plan},           {8, &Life::plan_of_url},
        {8, &Life::begin_shadow},      {6, &Life::promote},        {8, &Life::roll_back},
        {14, &Life::change},           {4, &Life::accept_feed},    {4, &Life::rebuild},
        {6, &Life::write_fed},         {5, &Life::release_server}, {10, &Life::hurry}};
    int sum = 0;
    for (const Row& row : kRows) sum += row.weight;
    int drawn = below(sum);
    for (const Row& row : kRows) {
      drawn -= row.weight;
      if (drawn < 0) return (this->*row.order)();
    }
  }

  // Between two orders: nothing, some events, or until some or all are answered.
  void turn() {
    switch (below(8)) {
      case 0:
      case 1:
      case 2:
        return;
      case 3:
        for (int i = 0; i < 50 && waiting() != 0; i++) turn_once();
        return;
      case 4: {
        const size_t most = waiting() / 2;
        for (int i = 0; i < 200 && waiting() > most; i++) turn_once();
        return;
      }
      default:
        for (int i = below(6); i >= 0; i--) turn_once();
    }
  }

  // Nobody stops it: each call is answered all the same.
  void drain() {
    server_.release_always(true);
    for (uint64_t i = 0, before = waiting(); waiting() != 0 && i < kPatience; i++) {
      turn_once();
      if (waiting() != before) i = 0;
      before = waiting();
    }
    give_up_on_waiting("without a stop");
  }

  void stop() {
    daemon_->stop();
    // A thread that is still busy brings its result by a job of the loop.
    for (uint64_t idle = 0; waiting() != 0 && idle < 100;) {
      turn_once();
      idle = daemon_->is_busy() ? 0 : idle + 1;
    }
    give_up_on_waiting("after a stop");
    daemon_.reset();
  }

  void add_to(Counts& counts) const {
    for (const auto& call : calls_) {
      counts.orders++;
      const bool is_missed = call->answers == 0 || holds(call->wrong, kNotAnswered);
      counts.unanswered += is_missed ? 1 : 0;
      const std::string wrong = call->answers > 1 ? fmt::format("{} answers", call->answers) : call->wrong;
      if (!is_missed && !wrong.empty()) counts.wrong++;
      if (is_missed || !wrong.empty()) fprintf(stderr, "%s: %s\n", call->what.c_str(), wrong.c_str());
    }
  }

 private:
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  bool one_in(int n) { return below(n) == 0; }

  size_t waiting() const {
    return static_cast<size_t>(std::count_if(
        calls_.begin(), calls_.end(), [](const auto& call) { return call->answers == 0 && call->wrong.empty(); }));
  }
  void give_up_on_waiting(const char* when) {
    for (const auto& call : calls_) {
      if (call->answers == 0 && call->wrong.empty()) call->wrong = fmt::format("{} {}", kNotAnswered, when);
    }
  }
  void turn_once() {
    server_.turn();
    const size_t before = waiting();
    const auto is_answered = [&] {
      look();
      return before != 0 && waiting() == 0;
    };
    loop_.run_until(is_answered, Clock::now() + milliseconds(2));
  }
  // The policies that run, by generation.
  void look() {
    const std::shared_ptr<const Running> running = daemon_->running();
    if (running == nullptr || running == seen_) return;
    seen_ = running;
    for (const ListDetails& list : running->lists) {
      if (list.name[0] == 'v') versions_[running->publication->generation.number] = std::stoull(list.name.substr(1));
    }
  }
  uint64_t version_of(uint64_t generation) const {
    const auto found = versions_.find(generation);
    return found == versions_.end() ? 0 : found->second;
  }

  Version make_version(bool is_good, bool has_url) {
    Version version;
    version.number = ++last_version_;
    version.is_good = is_good;
    version.text = fmt::format(
        "version: 1\n{}fetch: {{timeout: {}s}}\nlists:\n"
        "  - {{name: {}{}, action: drop, entries: [{}]}}\n"
        "  - {{name: jail, action: drop, dynamic: true}}\n"
        "  - {{name: fed, action: drop, file: fed.txt}}\n",
        targets_ == Targets::none ? "targets: []\n" : "", kFetchTimeout_s, is_good ? "v" : "bad", version.number,
        is_good ? "203.0.113.7" : fmt::format("nonsense{}", version.number));
    if (has_url) {
      version.text +=
          fmt::format("  - {{name: net, action: drop, url: \"{}\"}}\n", server_.url(!one_in(3), version.number));
    }
    return version;
  }
  void write_policy(bool is_good, bool has_url) {
    written_.push_back(make_version(is_good, has_url));
    put("weir.yaml", written_.back().text);
  }
  void write_any_policy() {
    const bool is_good = !one_in(3);
    write_policy(is_good, one_in(4));
  }
  void write_fed() {
    std::string text;
    for (int i = 1 + below(9); i > 0; i--) text += fmt::format("198.18.{}.{}\n", below(4), i);
    put("fed.txt", text);
  }
  void put(const std::string& name, const std::string& text) {
    std::filesystem::rename(folder_->write(name + ".new", text), *folder_ / name);
  }
  void release_server() { server_.release(); }
  // Orders that come while the one before them is made.
  void hurry() {
    if (one_in(2)) {
      reload(1);
      write_any_policy();
      reload(0);
      // The time to confirm ends while the target is waited for.
      for (int i = 0; targets_ == Targets::away && i < 1500 && waiting() != 0; i++) turn_once();
      return;
    }
    change();
    one_in(2) ? promote() : roll_back();
    one_in(2) ? rebuild() : reload(0);
  }

  std::shared_ptr<Call> begin(const std::string& what) {
    auto call = std::make_shared<Call>();
    call->what = fmt::format("order {}: {}", calls_.size() + 1, what);
    calls_.push_back(call);
    return call;
  }

  static std::string told(const ReloadAnswer& report) {
    return fmt::format("ok {}, cause '{}', error '{}', diagnostics '{}'", report.ok, report.cause, report.error,
                       format(report.diagnostics));
  }

  // A report of what did not begin: it has no cause, and says what came in between.
  static bool is_refusal(const ReloadAnswer& report) {
    if (report.ok || !report.cause.empty() || !report.diagnostics.ok()) return false;
    for (const char* reason :
         {"confirm", "stops", "roll", "back", "compiled now", "promot", "ask again", "last good"}) {
      if (holds(report.error, reason)) return true;
    }
    return false;
  }
  bool is_published(const ReloadAnswer& report) const {
    return report.ok || holds(report.error, "did not acknowledge") || holds(report.error, "not durable");
  }

  // asked: the newest version of the policy file at the call.
  std::string check_reload(const ReloadAnswer& report, const std::string& cause, uint64_t asked) {
    look();
    if (is_refusal(report)) return "";
    if (!names(report.cause, cause)) return "has the report of another order: " + told(report);
    const std::string text = report.error + format(report.diagnostics);
    if (server_.is_slandered_by(text)) return "a server has answered: " + told(report);
    if (is_published(report)) {
      const uint64_t version = version_of(report.generation.number);
      if (version != 0 && version < asked)
        return fmt::format("v{} runs, asked for v{}: {}", version, asked, told(report));
      return "";
    }
    if (holds(report.error, "stops") || holds(text, kNoAnswer)) return "";
    for (const Version& version : written_) {
      if (version.is_good || version.number < asked) continue;
      if (names(text, fmt::format("nonsense{}", version.number))) return "";
    }
    return "fails, and not for a policy that was there: " + told(report);
  }

  void reload(uint32_t confirm_s) {
    const uint64_t asked = written_.back().number;
    const auto call =
        begin(fmt::format("reload of version {}{}{}", asked, written_.back().is_good ? "" : ", which is bad",
                          confirm_s == 0 ? "" : fmt::format(", to be confirmed in {} s", confirm_s)));
    Wish wish;
    wish.confirm_s = confirm_s;
    wish.why = fmt::format("order {}", calls_.size());
    const std::string cause = wish.why;
    daemon_->reload(
        [this, call, asked, cause](const std::shared_ptr<const ReloadAnswer>& report) {
          call->answers++;
          call->wrong = check_reload(*report, cause, asked);
        },
        wish);
  }
  void reload() { reload(0); }
  void reload_to_confirm() { reload(one_in(2) ? 1 : 60); }

  void rebuild() {
    const auto call = begin("rebuild");
    daemon_->rebuild({}, [this, call](const std::shared_ptr<const ReloadAnswer>& report) {
      look();
      call->answers++;
      // Reloads that were asked for at the same time are the same one.
      const bool is_own = holds(report->cause, "rebuild") || holds(report->cause, "order ") ||
                          holds(report->cause, "accepted") || is_refusal(*report);
      if (!is_own) call->wrong = "has the report of another order: " + told(*report);
    });
  }

  void accept_feed() {
    const auto call = begin("accept the feed of fed");
    const Result<void> begun =
        daemon_->accept_feed("fed", {}, [call](const std::shared_ptr<const ReloadAnswer>& report) {
          call->answers++;
          const bool is_own = holds(report->cause, "the feed of list fed is accepted") || is_refusal(*report);
          if (!is_own) call->wrong = "has the report of another order: " + told(*report);
        });
    if (!begun) call->answers++;
  }

  void roll_back() {
    uint64_t number = 999'999;
    if (!one_in(8) && !versions_.empty()) {
      number = std::next(versions_.rbegin(), below(static_cast<int>(std::min<size_t>(versions_.size(), 6))))->first;
    }
    const auto call = begin(fmt::format("rollback to generation {}", number));
    daemon_->rollback(number, {}, [this, call, number](const std::shared_ptr<const ReloadAnswer>& report) {
      look();
      call->answers++;
      if (is_refusal(*report)) return;
      if (report->cause != fmt::format("rollback to generation {}", number)) {
        call->wrong = "has the report of another order: " + told(*report);
      } else if (is_published(*report)) {
        const uint64_t wanted = version_of(number), found = version_of(report->generation.number);
        if (found != 0 && wanted != found) call->wrong = fmt::format("v{} runs, and not v{}", found, wanted);
      } else if (report->error.empty() && report->diagnostics.ok()) {
        call->wrong = "fails without a reason: " + told(*report);
      }
    });
  }

  void promote() {
    const std::shared_ptr<const Shadowing> shadow = daemon_->shadow().latest();
    const std::string path = shadow == nullptr ? "" : shadow->path;
    const auto call = begin("promote " + path);
    daemon_->promote_shadow({}, [this, call, path](const std::shared_ptr<const ReloadAnswer>& report) {
      look();
      call->answers++;
      if (is_refusal(*report) || holds(report->error, "no shadow to promote")) return;
      if (report->cause != fmt::format("the shadow of {} promoted", path)) {
        call->wrong = "has the report of another order: " + told(*report);
      } else if (is_published(*report)) {
        const uint64_t found = version_of(report->generation.number);
        if (found != 0 && path != shadow_path(found)) call->wrong = fmt::format("v{} runs, and not {}", found, path);
      } else if (report->error.empty() && report->diagnostics.ok()) {
        call->wrong = "fails without a reason: " + told(*report);
      }
    });
  }

  std::string shadow_path(uint64_t version) const { return fmt::format("{}/shadow-{}.yaml", folder_->path(), version); }

  // The fault of a candidate's report, by its diagnostics or its error. Empty: it is right.
  std::string check_candidate(const Version& version, const std::string& error, const Diagnostics& diagnostics) {
    const std::string text = error + format(diagnostics);
    if (server_.is_slandered_by(text)) return "a server has answered: " + text;
    if (!error.empty() || holds(text, kNoAnswer)) return "";
    if (diagnostics.ok()) return version.is_good ? "" : fmt::format("version {} is bad, and was taken", version.number);
    const bool is_own = !version.is_good && names(text, fmt::format("nonsense{}", version.number));
    return is_own ? "" : "has the diagnostics of another policy: " + text;
  }

  void begin_shadow() {
    const Version version = make_version(!one_in(4), one_in(3));
    const auto call =
        begin(fmt::format("shadow of version {}{}", version.number, version.is_good ? "" : ", which is bad"));
    const std::string path = shadow_path(version.number);
    daemon_->shadow().begin({path, version.text},
                            [this, call, version](const std::shared_ptr<const Shadow::Report>& told) {
                              call->answers++;
                              call->wrong = check_candidate(version, told->error, told->diagnostics);
                              if (told->has_begun && !version.is_good) call->wrong = "a bad candidate judges";
                              if (!told->has_begun && told->error.empty() && told->diagnostics.ok())
                                call->wrong = "does not judge, and nothing says why";
                            });
  }

  void plan(std::map<std::string, std::string> fetched) {
    const Version version = make_version(!one_in(4), false);
    const auto call =
        begin(fmt::format("plan of version {}{}{}", version.number, version.is_good ? "" : ", which is bad",
                          fetched.empty() ? "" : ", with an url"));
    Daemon::Candidate candidate;
    candidate.text = version.text;
    candidate.path = *folder_ / "plan.yaml";
    candidate.fetched = std::move(fetched);
    daemon_->plan(std::move(candidate), [this, call, version](const PlanAnswer& report) {
      call->answers++;
      call->wrong = check_candidate(version, report.error, report.diagnostics);
      const std::string name = fmt::format("v{}", version.number);
      const bool is_own = std::any_of(report.preview.lists.begin(), report.preview.lists.end(),
                                      [&](const ListPreview& list) { return list.change.name == name; });
      if (report.error.empty() && report.diagnostics.ok() && !is_own) call->wrong = "has the plan of another candidate";
    });
  }
  void plan() { plan({}); }
  void plan_of_url() { plan({{"fed", server_.url(one_in(2), ++last_url_ + 1'000'000)}}); }

  void confirm() {
    const auto call = begin("confirm");
    daemon_->confirm([this, call](const Result<wire::Generation>& stays) {
      look();
      call->answers++;
      if (!stays && stays.error().empty()) call->wrong = "is refused without a reason";
      if (stays && version_of(stays->number) == 0) call->wrong = "keeps a generation that never ran";
    });
  }

  void change() {
    Change change;
    change.verb = one_in(3) ? Change::Verb::del : Change::Verb::add;
    change.list = "jail";
    const bool is_bad = one_in(8);
    change.entries = {is_bad ? fmt::format("nobody{}", calls_.size()) : fmt::format("192.0.2.{}", below(100))};
    const bool is_add = change.verb == Change::Verb::add;
    const std::string entry = change.entries[0];
    const auto call = begin(fmt::format("{} {}", is_add ? "add" : "del", entry));
    daemon_->change(std::move(change), [this, call, is_add, is_bad, entry](const ChangeAnswer& report) {
      look();
      call->answers++;
      if (!report.ok && report.error.empty()) call->wrong = "fails without a reason";
      if (report.ok && is_bad) call->wrong = "is taken";
      if (!report.ok || is_bad) {
        const bool is_own = !is_bad || holds(report.error, entry) || holds(report.error, "stops");
        if (!is_own) call->wrong = "has the error of another: " + report.error;
        return;
      }
      const ChangeCounts& counts = report.counts;
      const uint64_t touched = is_add ? counts.added + counts.renewed : counts.deleted + counts.missing;
      if (report.list != "jail" || touched != 1) call->wrong = fmt::format("has the counts of another: {}", touched);
    });
  }

  std::mt19937_64& random_;
  const Targets targets_;
  const std::unique_ptr<Folder> folder_;
  std::unique_ptr<Enforcer> enforcer_;
  FeedServer server_;
  std::vector<Version> written_;  // to the policy file
  uint64_t last_version_ = 0, last_url_ = 0;
  std::vector<std::shared_ptr<Call>> calls_;
  std::map<uint64_t, uint64_t> versions_;  // by generation
  std::shared_ptr<const Running> seen_;
  Loop loop_;
  std::unique_ptr<Daemon> daemon_;
};

Counts try_orders(uint64_t orders, uint64_t seed, const confine::Helpers& parsers) {
  std::mt19937_64 random(seed);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  Counts counts;
  for (uint64_t number = 1; counts.orders < orders; number++) {
    // One that is away is waited for by the clock: it comes seldom.
    Life life(random, parsers,
              number % 8 == 0   ? Life::Targets::away
              : number % 2 == 0 ? Life::Targets::one
                                : Life::Targets::none);
    for (int i = 10 + below(number % 8 == 0 ? 20 : 60); i > 0; i--) {
      life.order();
      life.turn();
    }
    if (below(2) == 0) life.drain();
    life.stop();
    life.add_to(counts);
  }
  return counts;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t orders = 300, seed = std::random_device{}();
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--orders") == 0) orders = std::stoull(argv[i + 1]);
    if (strcmp(argv[i], "--seed") == 0) seed = std::stoull(argv[i + 1]);
  }
  // While there are no threads.
  const Result<std::unique_ptr<confine::Helpers>> parsers = start_parsers({&kFetchJob});
  if (!parsers) {
    fprintf(stderr, "test-orders: %s\n", parsers.error().c_str());
    return 1;
  }
  const Counts counts = try_orders(orders, seed, **parsers);
  printf("{\"seed\": %llu, \"orders\": %llu, \"unanswered\": %llu, \"wrong\": %llu}\n",
         static_cast<unsigned long long>(seed), static_cast<unsigned long long>(counts.orders),
         static_cast<unsigned long long>(counts.unanswered), static_cast<unsigned long long>(counts.wrong));
  return counts.unanswered == 0 && counts.wrong == 0 ? 0 : 1;
}
