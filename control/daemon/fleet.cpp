#include "control/daemon/fleet.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include "common/clock.h"
#include "common/files.h"
#include "common/log/log.h"
#include "control/daemon/daemon.h"
#include "control/daemon/tell.h"
#include "control/sources/fleet/follower.h"
#include "control/sources/fleet/names.h"

namespace weir::control {
namespace {

constexpr size_t kSharedBytes = fleet::kMostBlob;       // of the memory that blobs come in; sparse until they do
constexpr uint64_t kFollowerBytes = uint64_t{1} << 30;  // of its own memory
constexpr int kFirstPauseMs = 200, kMostPauseMs = 10'000;
constexpr std::chrono::milliseconds kReportPause{200};  // between reports of what changes
constexpr std::chrono::seconds kLook{2}, kReport{30};

Result<std::string> pem_of(const std::string& path) {
  constexpr size_t kMostPem = 256 << 10;
  return path.empty() ? Result<std::string>(std::string()) : read_file(path, kMostPem);
}

Result<fleet::Follow> follow_of(const FleetSettings& settings) {
  fleet::Follow follow;
  follow.fleet = settings.name;
  follow.node = settings.node;
  follow.endpoints = settings.endpoints;
  follow.user = settings.user;
  const std::pair<const std::string*, std::string*> files[] = {{&settings.ca_file, &follow.ca_pem},
                                                               {&settings.cert_file, &follow.cert_pem},
                                                               {&settings.key_file, &follow.key_pem},
                                                               {&settings.password_file, &follow.password}};
  for (const auto& [path, text] : files) {
    Result<std::string> read = pem_of(*path);
    if (!read) return Error{read.error()};
    *text = std::move(*read);
  }
  follow.password = follow.password.substr(0, follow.password.find('\n'));
  return follow;
}

}  // namespace

FleetNode::FleetNode(Loop& loop, Daemon& daemon, const confine::Helpers& helpers)
    : loop_(loop),
      daemon_(daemon),
      helpers_(helpers),
      settings_(*daemon.fleet()),
      disk_(std::make_shared<fleet::Disk>(daemon.state_dir() + "/fleet")),
      mailbox_(loop),
      pause_ms_(kFirstPauseMs),
      entries_(loop, daemon, [this] { report_soon(); }) {
  followed_ = disk_->read(settings_.name);
  report_.node = settings_.node;
  report_.group = settings_.group;
  report_.version = WEIR_VERSION;
  report_.turn = followed_.turn;
  report_.revision = followed_.revision;
  report_.state = followed_.revision == 0 ? "waiting" : "enforcing";
  start_follower();
  report_now_and_then();
}

FleetNode::~FleetNode() = default;

// --- the process that speaks to etcd ---

void FleetNode::start_follower() {
  again_.reset();
  const Result<fleet::Follow> follow = follow_of(settings_);
  Result<confine::Helper> helper = follow ? helpers_.make(fleet::kFollowJob, kSharedBytes, kFollowerBytes)
                                          : Result<confine::Helper>(Error{follow.error()});
  if (!helper) return lose_follower(helper.error());
  const std::string text = fleet::text_of(*follow);
  if (const Result<void> asked = confine::ask(*helper, std::as_bytes(std::span(text))); !asked) {
    return lose_follower(asked.error());
  }
  helper_ = std::make_shared<const confine::Helper>(std::move(*helper));
  is_reporting_ = false;
  heard_ = loop_.io(helper_->socket.get(), EPOLLIN, [this](uint32_t) { hear(); });
  if (!heard_) return lose_follower("the kernel has no room to watch one more socket");
  send_report();
}

void FleetNode::lose_follower(const std::string& why) {
  heard_.reset();
  helper_.reset();
  trouble(why);
  if (taking_ && !taking_->is_reloading) finish_taking(why, false);
  again_ = loop_.timer(Clock::now() + std::chrono::milliseconds(pause_ms_), [this] { start_follower(); });
  pause_ms_ = std::min(2 * pause_ms_, kMostPauseMs);
}

// One message a turn of the loop: whoever talks without an end holds nobody else.
void FleetNode::hear() {
  std::string text(fleet::kMostMessage, '\0');
  const ssize_t n = recv(helper_->socket.get(), text.data(), text.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return lose_follower("the process that speaks to etcd ended");
  Result<fleet::News> news = fleet::read_news(std::string_view(text).substr(0, static_cast<size_t>(n)));
  if (!news) return lose_follower("the process that speaks to etcd said what is not understood");
  take(*news);
}

bool FleetNode::order(const fleet::Order& order) {
  if (!helper_) return false;
  const std::string text = fleet::text_of(order);
  if (send(helper_->socket.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
  log::warning("fleet: the process that speaks to etcd does not keep up", {{"left_out", order.kind}});
  return false;
}

void FleetNode::take(fleet::News& news) {
  if (news.kind == "connected") {
    pause_ms_ = kFirstPauseMs;
    trouble("");
  } else if (news.kind == "lost") {
    trouble(news.error);
  } else if (news.kind == "head") {
    if (!news.text.empty()) take_head(news.text);
  } else if (news.kind == "ask") {
    take_ask(news.text);
  } else if (news.kind == "entries") {
    entries_.take(news);
  } else if (news.kind == "revision") {
    take_revision(news);
  } else if (news.kind == "pieces") {
    take_pieces(news);
  } else if (news.kind == "blob") {
    take_blob(news);
  } else if (news.kind == "reported") {
    is_reporting_ = false;
    if (!news.error.empty()) log::debug("fleet: a report was not taken", {{"error", news.error}});
  } else if (news.kind == "shared" && !news.error.empty()) {
    log::warning("fleet: an entry was not shared", {{"error", news.error}});
  }
}

void FleetNode::trouble(const std::string& text) {
  if (text == trouble_) return;
  trouble_ = text;
  tell_daemon();
  if (text.empty()) {
    log::info("fleet: etcd is heard", {{"fleet", settings_.name}, {"node", settings_.node}});
  } else {
    log::warning("fleet: what is enforced stays", {{"fleet", settings_.name}, {"error", text}});
  }
}

// --- what others are to know ---

void FleetNode::added_here(const Change& change, const std::string& list) {
  const auto& shared = settings_.shared_lists;
  if (change.uid == kFleetUser || std::find(shared.begin(), shared.end(), list) == shared.end()) return;
  if (Clock::now() - budget_.since > std::chrono::minutes(1)) budget_ = {Clock::now(), 0, false};
  for (size_t i = 0; i < change.entries.size(); i++) {
    if (budget_.used++ >= settings_.shared_per_minute) {
      if (!std::exchange(budget_.is_told, true)) {
        log::warning("fleet: more is added here than is shared in a minute: the rest stays on this node",
                     {{"list", list}, {"per_minute", settings_.shared_per_minute}});
      }
      return;
    }
    const uint64_t own_ttl_s = change.ttls.empty() ? 0 : change.ttls[i];
    const uint64_t ttl_s = own_ttl_s != 0 ? own_ttl_s : change.ttl_s.value_or(0);
    const std::string own_comment = change.comments.empty() ? "" : change.comments[i];
    fleet::Order share;
    share.kind = "share";
    share.list = list;
    share.entry = change.entries[i];
    share.comment = (own_comment.empty() ? change.comment : own_comment).substr(0, fleet::kMostComment);
    share.ttl_s = ttl_s == 0 ? settings_.shared_ttl_s : std::min(ttl_s, settings_.shared_ttl_s);
    (void)order(share);
  }
}

// --- reports ---

void FleetNode::report_soon() {
  if (std::exchange(is_report_due_, true)) return;
  const auto at = std::max(Clock::now(), last_report_ + kReportPause);
  report_due_ = loop_.timer(at, [this] {
    is_report_due_ = false;
    send_report();
  });
}

// What the enforcers count, every now and then; told when it is time, or the state is new.
void FleetNode::report_now_and_then() {
  look_due_ = loop_.timer(Clock::now() + kLook, [this] { report_now_and_then(); });
  entries_.look_at_clock();
  daemon_.refresh(Daemon::Counters::stats, Clock::now() + std::chrono::seconds(1),
                  [this, alive = mailbox_.token()](const Daemon::Refreshed& all) {
                    if (!*alive) return;
                    const StatsAnswer stats = stats_answer(daemon_, all);
                    const auto now = Clock::now();
                    const double seconds = std::chrono::duration<double>(now - last_look_).count();
                    const bool is_further =
                        stats.totals.packets >= last_packets_ && stats.totals.dropped >= last_dropped_;
                    if (last_look_ != Clock::time_point{} && is_further && seconds > 0) {
                      const uint64_t packets = stats.totals.packets - last_packets_;
                      report_.packets_per_s = static_cast<double>(packets) / seconds;
                      report_.dropped_share = packets == 0 ? 0
                                                           : static_cast<double>(stats.totals.dropped - last_dropped_) /
                                                                 static_cast<double>(packets);
                    }
                    last_look_ = now;
                    report_.packets = last_packets_ = stats.totals.packets;
                    report_.dropped = last_dropped_ = stats.totals.dropped;
                    report_.generation = daemon_.running()->publication->generation.number;
                    tell_daemon();
                    // After a revision was taken, whoever rolls it out wants to know what it does.
                    const bool is_fresh = report_.enforced_at != 0 && unix_now() - report_.enforced_at < 60;
                    if (state() != report_.state || now - last_report_ >= (is_fresh ? kLook : kReport)) send_report();
                  });
}

// A revision that controld has published is not enforced before its targets say so.
std::string FleetNode::state() const {
  // Refused was what the group had before; what it has now waits for what is taken first.
  const bool is_new =
      refused_.revision != report_.wanted || refused_.since != fleet::at_of(head_, settings_.group).since;
  if (report_.state == "refused" && is_new) return "taking";
  if (report_.state != "enforcing" && report_.state != "publishing") return report_.state;
  return daemon_.is_settled() ? "enforcing" : "publishing";
}

void FleetNode::tell_daemon() {
  daemon_.tell_fleet_standing({settings_.name, settings_.node, settings_.group, report_.turn, report_.revision,
                               report_.wanted, state(), report_.error, trouble_, entries_.counts().held});
}

void FleetNode::send_report() {
  tell_daemon();
  if (is_reporting_) return report_soon();  // etcd has not taken the one before
  last_report_ = Clock::now();
  report_.at = unix_now();
  report_.state = state();
  report_.entries = entries_.counts().held;
  report_.entries_refused = entries_.counts().refused;
  report_.entries_at = entries_.counts().at;
  fleet::Order told;
  told.kind = "report";
  told.text = fleet::text_of(report_);
  is_reporting_ = order(told);
}

}  // namespace weir::control
