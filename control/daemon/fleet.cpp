#include "control/daemon/fleet.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <utility>

#include "common/files.h"
#include "common/log/log.h"
#include "control/daemon/daemon.h"
#include "control/daemon/tell.h"
#include "control/fleet/entry.h"
#include "control/fleet/follower.h"
#include "control/preview/radius.h"

namespace weir::control {
namespace {

constexpr size_t kSharedBytes = fleet::kMostBlob;       // of the memory that blobs come in; sparse until they do
constexpr uint64_t kFollowerBytes = uint64_t{1} << 30;  // of its own memory
constexpr int kFirstPauseMs = 200, kMostPauseMs = 10'000;
constexpr std::chrono::seconds kRetry{5};               // a revision whose bytes could not be had
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

// The share of packets that `after` drops, of the traffic that `before` was asked about.
std::optional<Share> expected_share(const std::shared_ptr<const Running>& before,
                                    const std::shared_ptr<const Running>& after,
                                    const std::shared_ptr<const SeenTraffic>& traffic) {
  if (before == nullptr || after == nullptr || traffic == nullptr || traffic->frames.empty()) return std::nullopt;
  const Result<Enforcing> was = enforcing_of(*before), is = enforcing_of(*after);
  if (!was || !is) return std::nullopt;
  const Radius radius = radius_of(*was, *is, traffic->frames, static_cast<uint64_t>(static_cast<int64_t>(unix_now())));
  if (radius.samples == 0) return std::nullopt;
  return radius.dropped_after;
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

// --- revisions ---

void FleetNode::take_head(const std::string& text) {
  const Result<fleet::Head> head = fleet::read_head(text);
  if (!head) return trouble(head.error());
  if (head->turn < followed_.turn) {
    return trouble(
        fmt::format("etcd tells turn {} of the fleet, and this node has followed turn {}: it was restored "
                    "from an older backup? Push again: a push goes past every node's turn",
                    head->turn, followed_.turn));
  }
  if (head->turn == followed_.turn && !followed_.head_id.empty() && head->id != followed_.head_id) {
    return trouble(
        fmt::format("etcd tells another turn {} of the fleet than this node has followed: push again", head->turn));
  }
  follow(*head);
}

void FleetNode::follow(const fleet::Head& head) {
  head_ = head;
  report_.turn = head.turn;
  report_.wanted = fleet::at_of(head, settings_.group).revision;
  if (head.turn != followed_.turn || followed_.head_id.empty()) {
    followed_.turn = head.turn;
    followed_.head_id = head.id;
    worker_.submit([this, turn = head.turn, id = head.id] {
      const Result<void> kept = disk_->keep_turn(turn, id);
      mailbox_.post([this, kept] {
        if (!kept) trouble("the turn of the fleet is not on disk: " + kept.error());
      });
    });
  }
  begin_taking();
  report_soon();
}

void FleetNode::begin_taking() {
  retry_.reset();
  if (taking_ || !helper_) return;  // a new helper tells the head again
  const bool is_wanted = report_.wanted != 0 && report_.wanted != followed_.revision;
  if (!is_wanted && asked_) {
    taking_.emplace();
    taking_->number = asked_->revision;
    taking_->ask = std::exchange(asked_, std::nullopt);
    return ask_revision();
  }
  if (report_.wanted == 0) return;
  if (!is_wanted) {
    refused_ = {};
    if (state() == "enforcing" || state() == "publishing")
      return;  // with what it has to say, a feed that is refused, say
    report_.state = "enforcing";
    report_.error.clear();
    return;
  }
  if (refused_.revision == report_.wanted && refused_.since == fleet::at_of(head_, settings_.group).since) return;
  taking_.emplace();
  taking_->number = report_.wanted;
  report_.state = "taking";
  report_.error.clear();
  ask_revision();
}

void FleetNode::ask_revision() {
  fleet::Order wanted;
  wanted.kind = "revision";
  wanted.number = taking_->number;
  if (!order(wanted)) finish_taking("the process that speaks to etcd takes no order", false);
}

void FleetNode::take_revision(const fleet::News& news) {
  if (!taking_ || news.number != taking_->number) return;
  if (!news.error.empty()) return finish_taking(news.error, false);
  const std::span<const std::byte> shared = helper_->shared.bytes();
  if (news.bytes > shared.size()) return finish_taking("its manifest is too long", true);
  const std::string text(reinterpret_cast<const char*>(shared.data()), news.bytes);
  Result<fleet::Revision> revision = fleet::read_revision(text);
  if (revision && revision->number != taking_->number) revision = Error{"its manifest is another revision's"};
  if (!revision) return finish_taking(revision.error(), true);
  taking_->revision = std::move(*revision);
  worker_.submit([this, revision = taking_->revision] {
    std::vector<fleet::BlobFile> missing = disk_->files.missing(revision);
    mailbox_.post([this, number = revision.number, missing = std::move(missing)] {
      if (!taking_ || taking_->number != number) return;
      taking_->missing.assign(missing.begin(), missing.end());
      ask_next_blob();
    });
  });
}

void FleetNode::ask_next_blob() {
  taking_->file.reset();
  if (taking_->missing.empty()) return lay_out();
  const fleet::BlobFile& file = taking_->missing.front();
  fleet::Order wanted;
  wanted.kind = file.url.empty() ? "pieces" : "blob";
  wanted.digest = file.digest;
  wanted.url = file.url;
  wanted.bytes = file.bytes;
  wanted.packed_bytes = file.packed_bytes;
  if (!order(wanted)) finish_taking("the process that speaks to etcd takes no order", false);
}

void FleetNode::take_pieces(const fleet::News& news) {
  if (!taking_ || taking_->missing.empty() || news.digest != taking_->missing.front().digest) return;
  const fleet::BlobFile file = taking_->missing.front();
  if (!news.error.empty()) return finish_taking(file.path + ": " + news.error, false);
  const std::span<const std::byte> shared = helper_->shared.bytes();
  if (news.bytes > fleet::kMostPiecesText) return finish_taking(file.path + " has too many pieces", true);
  std::string text(reinterpret_cast<const char*>(shared.data()), news.bytes);
  worker_.submit([this, file, text = std::move(text), number = taking_->number, before = followed_.revision] {
    Result<fleet::Pieces> pieces = fleet::read_pieces(text, file.bytes);
    std::string error = pieces ? "" : file.path + ": " + pieces.error();
    std::shared_ptr<const FileTaken> taken;
    std::vector<bool> missing;
    if (pieces) {
      fleet::Older older(disk_->files.bytes_of(before, file.path), file.bytes);
      missing = older.missing(*pieces);
      taken = std::make_shared<const FileTaken>(FileTaken{std::move(*pieces), std::move(older)});
    }
    mailbox_.post([this, number, error, taken, missing] {
      if (!taking_ || taking_->number != number) return;
      if (!error.empty()) return finish_taking(error, true);
      taking_->file = taken;
      ask_bytes(missing);
    });
  });
}

void FleetNode::ask_bytes(const std::vector<bool>& is_wanted) {
  const fleet::BlobFile& file = taking_->missing.front();
  if (std::find(is_wanted.begin(), is_wanted.end(), true) == is_wanted.end()) return keep_blob(nullptr);
  fleet::Order wanted;
  wanted.kind = "blob";
  wanted.digest = file.digest;
  wanted.bytes = file.bytes;
  for (const bool one : is_wanted) wanted.text += one ? '1' : '0';
  if (!order(wanted)) finish_taking("the process that speaks to etcd takes no order", false);
}

void FleetNode::take_blob(const fleet::News& news) {
  if (!taking_ || taking_->missing.empty() || news.digest != taking_->missing.front().digest) return;
  if (!news.error.empty()) return finish_taking(taking_->missing.front().path + ": " + news.error, false);
  keep_blob(helper_);
}

// helper: in whose memory the bytes are that came; null: all were here.
void FleetNode::keep_blob(const std::shared_ptr<const confine::Helper>& helper) {
  worker_.submit([this, file = taking_->missing.front(), helper, taken = taking_->file, number = taking_->number] {
    // A copy, whose digest is looked at: whoever took the process over may write into that memory at any time.
    std::vector<std::byte> bytes;
    if (helper != nullptr) {
      const std::span<const std::byte> shared = helper->shared.bytes().first(file.bytes);
      bytes.assign(shared.begin(), shared.end());
    } else {
      bytes.resize(file.bytes);
    }
    if (taken != nullptr) taken->older.fill(taken->pieces, bytes);
    const Result<void> put = disk_->files.put(file, bytes);
    mailbox_.post([this, put, number] {
      if (!taking_ || taking_->number != number) return;
      if (!put) return finish_taking(put.error(), false);
      taking_->missing.pop_front();
      ask_next_blob();
    });
  });
}

void FleetNode::lay_out() {
  // What is enforced lies there already, and is not touched.
  if (taking_->ask && taking_->number == followed_.revision) return plan(followed_.policy);
  worker_.submit([this, revision = taking_->revision] {
    Result<std::string> policy = disk_->files.lay_out(revision);
    mailbox_.post([this, policy = std::move(policy), number = revision.number] {
      if (!taking_ || taking_->number != number) return;
      if (!policy) return finish_taking(policy.error(), false);
      if (taking_->ask) return plan(*policy);
      reload(*policy);
    });
  });
}

void FleetNode::reload(const std::string& policy) {
  Daemon::Wish wish;
  const uint64_t number = taking_->number;
  wish.uid = kFleetUser;
  wish.why = fmt::format("revision {} of fleet {}", number, settings_.name);
  wish.policy_file = policy;
  const auto disk_failed = std::make_shared<std::atomic<bool>>(false);
  wish.compiled = [disk = disk_, number, policy, disk_failed] {
    Result<void> kept = disk->keep_revision(number, policy);
    *disk_failed = !kept;
    return kept;
  };
  taking_->is_reloading = true;
  const auto before = daemon_.running();
  const auto traffic = daemon_.recent_traffic();
  daemon_.reload(
      [this, number, policy, before, traffic, disk_failed,
       alive = mailbox_.token()](const std::shared_ptr<const ReloadReport>& report) {
        if (!*alive || !taking_ || taking_->number != number) return;
        const bool is_published = std::any_of(report->phases.begin(), report->phases.end(), [](const PhaseTime& phase) {
          return std::string_view(phase.name) == "publish";
        });
        if (!is_published) {
          std::string error = report->error;
          for (const Diagnostic& one : report->diagnostics.kept()) {
            if (!error.empty() || one.severity != Severity::error) continue;
            error = fmt::format("{}:{}:{}: {}", one.where.file, one.where.line, one.where.column, one.message);
          }
          return finish_taking(error, !*disk_failed);
        }
        const uint64_t previous = std::exchange(followed_.revision, number);
        followed_.policy = policy;
        report_.revision = number;
        report_.enforced_at = static_cast<int64_t>(unix_now());
        report_.expected_share.reset();
        report_.expected_high.reset();
        worker_.submit([this, number, previous, before, after = daemon_.running(), traffic] {
          const std::optional<Share> expected = expected_share(before, after, traffic);
          disk_->files.keep_only({number, previous});  // a fleet that is rolled back goes there
          mailbox_.post([this, number, expected] {
            if (report_.revision != number || !expected) return;
            report_.expected_share = expected->value;
            report_.expected_high = expected->high;
            report_soon();
          });
        });
        std::string trouble = daemon_.disk_error();
        for (const RefusedFeed& feed : report->refused) {
          trouble +=
              fmt::format("{}list {} keeps what it had: {}", trouble.empty() ? "" : "; ", feed.list, feed.reason);
        }
        finish_taking(trouble, true);
      },
      std::move(wish));
}

// error: empty: the revision is enforced. is_final: it is not tried again before the group is given it anew.
void FleetNode::finish_taking(const std::string& error, bool is_final) {
  const uint64_t number = taking_->number;
  if (taking_->ask) {
    fleet::Told told;
    told.error = error;
    return tell(*taking_->ask, std::move(told));
  }
  taking_.reset();
  report_.error = error;
  const bool is_taken = followed_.revision == number;
  if (is_taken) {
    report_.state = "enforcing";
    log::change("fleet: a revision is enforced",
                {{"fleet", settings_.name}, {"revision", number}, {"turn", head_.turn}});
  } else if (is_final) {
    refused_ = fleet::at_of(head_, settings_.group);
    refused_.revision = number;
    report_.state = "refused";
    log::error("fleet: a revision is refused: what runs stays",
               {{"fleet", settings_.name}, {"revision", number}, {"error", error}});
  } else {
    report_.state = "taking";
    log::warning("fleet: a revision could not be had yet: what runs stays",
                 {{"fleet", settings_.name}, {"revision", number}, {"error", error}});
    retry_ = loop_.timer(Clock::now() + kRetry, [this] { begin_taking(); });
  }
  report_soon();
  if (is_taken) entries_.lists_changed();
  if (is_taken || is_final) begin_taking();  // the head may have moved meanwhile
}

// --- questions ---

void FleetNode::take_ask(const std::string& text) {
  Result<fleet::Ask> ask = fleet::read_ask(text);
  constexpr int64_t kMostAge_s = 3600;  // by this node's clock, which may be another
  if (!ask || ask->id == told_ || (taking_ && taking_->ask && taking_->ask->id == ask->id)) return;
  if (std::abs(static_cast<int64_t>(unix_now()) - ask->at) > kMostAge_s) return;
  asked_ = std::move(*ask);
  begin_taking();
}

void FleetNode::plan(const std::string& policy) {
  taking_->is_reloading = true;
  constexpr size_t kMostPolicy = size_t{64} << 20;
  Result<std::string> text = read_file(policy, kMostPolicy);
  if (!text) return finish_taking(text.error(), true);
  Daemon::Candidate candidate = {std::move(*text), policy};
  daemon_.plan(std::move(candidate), [this, ask = *taking_->ask, alive = mailbox_.token()](const PlanReport& report) {
    if (!*alive) return;
    fleet::Told told;
    told.error = report.error;
    if (!report.diagnostics.ok() && told.error.empty()) {
      for (const Diagnostic& one : report.diagnostics.kept()) {
        if (!told.error.empty() || one.severity != Severity::error) continue;
        told.error = fmt::format("{}:{}: {}", one.where.file, one.where.line, one.message);
      }
    }
    for (const OverLimit& over : report.over_limits) {
      told.over_limits += (told.over_limits.empty() ? "" : "; ") + over.text();
    }
    told.why_no_radius = report.why_no_radius;
    if (report.radius) {
      const auto share = [](const Share& one) { return fleet::ToldShare{one.value, one.low, one.high}; };
      told.newly_dropped = share(report.radius->newly_dropped);
      told.newly_passed = share(report.radius->newly_passed);
      told.dropped_before = share(report.radius->dropped_before);
      told.dropped_after = share(report.radius->dropped_after);
      told.samples = report.radius->samples;
    }
    told.entries = report.after.entries;
    told.snapshot_bytes = report.after.snapshot_bytes;
    tell(ask, std::move(told));
  });
}

void FleetNode::tell(const fleet::Ask& ask, fleet::Told told) {
  told_ = ask.id;
  told.node = settings_.node;
  told.group = settings_.group;
  told.packets_per_s = report_.packets_per_s;
  fleet::Order order;
  order.kind = "told";
  order.digest = ask.id;
  order.text = fleet::text_of(told);
  (void)this->order(order);
  taking_.reset();
  begin_taking();
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
  daemon_.refresh(
      Daemon::Counters::stats, Clock::now() + std::chrono::seconds(1),
      [this, alive = mailbox_.token()](const Daemon::Refreshed& all) {
        if (!*alive) return;
        const StatsAnswer stats = stats_answer(daemon_, all);
        const auto now = Clock::now();
        const double seconds = std::chrono::duration<double>(now - last_look_).count();
        const bool is_further = stats.totals.packets >= last_packets_ && stats.totals.dropped >= last_dropped_;
        if (last_look_ != Clock::time_point{} && is_further && seconds > 0) {
          const uint64_t packets = stats.totals.packets - last_packets_;
          report_.packets_per_s = static_cast<double>(packets) / seconds;
          report_.dropped_share =
              packets == 0 ? 0
                           : static_cast<double>(stats.totals.dropped - last_dropped_) / static_cast<double>(packets);
        }
        last_look_ = now;
        report_.packets = last_packets_ = stats.totals.packets;
        report_.dropped = last_dropped_ = stats.totals.dropped;
        report_.generation = daemon_.running()->publication->generation.number;
        tell_daemon();
        // After a revision was taken, whoever rolls it out wants to know what it does.
        const bool is_fresh = report_.enforced_at != 0 && static_cast<int64_t>(unix_now()) - report_.enforced_at < 60;
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
  report_.at = static_cast<int64_t>(unix_now());
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
