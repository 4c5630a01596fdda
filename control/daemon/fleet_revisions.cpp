// The way of a revision to a node: the head names it, its files come, it is reloaded or refused; or looked at only.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "common/clock.h"
#include "common/files.h"
#include "common/log/log.h"
#include "control/compile/preview/radius.h"
#include "control/daemon/daemon.h"
#include "control/daemon/fleet.h"

namespace weir::control {
namespace {

constexpr std::chrono::seconds kRetry{5};  // a revision whose bytes could not be had
// A revision that is compiled in vain again and again waits twice as long each time: 320 s at most.
constexpr unsigned kMostDoubled = 6;

// The share of packets that `after` drops, of the traffic that `before` was asked about.
std::optional<Share> expected_share(const std::shared_ptr<const Running>& before,
                                    const std::shared_ptr<const Running>& after,
                                    const std::shared_ptr<const SeenTraffic>& traffic) {
  if (before == nullptr || after == nullptr || traffic == nullptr || traffic->frames.empty()) return std::nullopt;
  const Result<Enforcing> was = enforcing_of(*before), is = enforcing_of(*after);
  if (!was || !is) return std::nullopt;
  const Radius radius = radius_of(*was, *is, traffic->frames, static_cast<uint64_t>(unix_now()));
  if (radius.samples == 0) return std::nullopt;
  return radius.dropped_after;
}

// The error of a reload or a plan; if that is empty, the first one of the policy. Empty: there is none.
template <class Answer>
std::string error_of(const Answer& answer) {
  return answer.error.empty() ? first_error_text(answer.diagnostics) : answer.error;
}

}  // namespace

void FleetNode::take_head(const std::string& text) {
  const Result<fleet::Head> head = fleet::read_head(text);
  if (!head) return trouble(head.error());
  switch (fleet::follows(*head, followed_.turn, followed_.head_id)) {
    case fleet::Follows::is_older:
      return trouble(
          fmt::format("etcd tells turn {} of the fleet, and this node has followed turn {}: it was restored "
                      "from an older backup? Push again: a push goes past every node's turn",
                      head->turn, followed_.turn));
    case fleet::Follows::is_another:
      return trouble(
          fmt::format("etcd tells another turn {} of the fleet than this node has followed: push again", head->turn));
    case fleet::Follows::is_not_possible:
      return trouble(fmt::format("the head's turn {} is not possible, because this node has followed turn {}: {}",
                                 head->turn, followed_.turn, fleet::kHowToRepair));
    case fleet::Follows::is_beyond:
      log::warning("fleet: the turn that this node has followed is not possible: it follows the head",
                   {{"followed", followed_.turn}, {"turn", head->turn}});
      break;
    case fleet::Follows::yes:
      break;
  }
  trouble("");  // a head that was not followed is repaired
  follow(*head);
}

void FleetNode::follow(const fleet::Head& head) {
  head_ = head;
  report_.turn = head.turn;
  report_.wanted = fleet::at_of(head, settings_.group).revision;
  if (head.turn != followed_.turn || followed_.head_id != head.id) {
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
    begin_with(asked_->revision);
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
  begin_with(report_.wanted);
  report_.state = "taking";
  report_.error.clear();
  ask_revision();
}

void FleetNode::begin_with(uint64_t number) {
  taking_.emplace();
  taking_->attempt = ++attempts_;
  taking_->number = number;
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
  worker_.submit([this, revision = taking_->revision, attempt = taking_->attempt] {
    std::vector<fleet::BlobFile> missing = disk_->files.missing(revision);
    mailbox_.post([this, attempt, missing = std::move(missing)] {
      if (!is_at(attempt)) return;
      taking_->missing.assign(missing.begin(), missing.end());
      ask_next_blob();
    });
  });
}

// A thread may answer for an attempt that ended, even one of the same revision.
bool FleetNode::is_at(uint64_t attempt) const {
  return taking_ && taking_->attempt == attempt;
}

bool FleetNode::is_at(uint64_t attempt, const std::string& digest) const {
  return is_at(attempt) && !taking_->missing.empty() && taking_->missing.front().digest == digest;
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
  worker_.submit([this, file, text = std::move(text), attempt = taking_->attempt, before = followed_.revision] {
    Result<fleet::Pieces> pieces = fleet::read_pieces(text, file.bytes);
    std::string error = pieces ? "" : file.path + ": " + pieces.error();
    std::shared_ptr<const FileTaken> taken;
    std::vector<bool> missing;
    if (pieces) {
      fleet::Older older(disk_->files.bytes_of(before, file.path), file.bytes);
      missing = older.missing(*pieces);
      taken = std::make_shared<const FileTaken>(FileTaken{std::move(*pieces), std::move(older)});
    }
    mailbox_.post([this, attempt, digest = file.digest, error, taken, missing] {
      if (!is_at(attempt, digest)) return;
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
  worker_.submit([this, file = taking_->missing.front(), helper, taken = taking_->file, attempt = taking_->attempt] {
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
    mailbox_.post([this, put, attempt, digest = file.digest] {
      if (!is_at(attempt, digest)) return;
      if (!put) return finish_taking(put.error(), false);
      taking_->missing.pop_front();
      ask_next_blob();
    });
  });
}

void FleetNode::lay_out() {
  // What is enforced lies there already, and is not touched.
  if (taking_->ask && taking_->number == followed_.revision) return plan(followed_.policy);
  worker_.submit([this, revision = taking_->revision, attempt = taking_->attempt] {
    Result<std::string> policy = disk_->files.lay_out(revision);
    mailbox_.post([this, policy = std::move(policy), attempt] {
      if (!is_at(attempt)) return;
      if (!policy) return finish_taking(policy.error(), false);
      if (taking_->ask) return plan(*policy);
      reload(*policy);
    });
  });
}

void FleetNode::reload(const std::string& policy) {
  Wish wish;
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
      [this, number, attempt = taking_->attempt, policy, before, traffic, disk_failed,
       alive = mailbox_.token()](const std::shared_ptr<const ReloadAnswer>& report) {
        if (!*alive || !is_at(attempt)) return;
        const bool is_published = std::any_of(report->phases.begin(), report->phases.end(),
                                              [](const PhaseTime& phase) { return phase.name == "publish"; });
        if (!is_published) {
          return finish_taking(error_of(*report), !*disk_failed && !report->may_pass);
        }
        const uint64_t previous = std::exchange(followed_.revision, number);
        followed_.policy = policy;
        report_.revision = number;
        report_.enforced_at = unix_now();
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
  const bool is_compiled = taking_->is_reloading;
  taking_.reset();
  report_.error = error;
  const bool is_taken = followed_.revision == number;
  if (!is_compiled || tried_ != number) failures_ = 0;
  tried_ = number;
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
    retry_ = loop_.timer(Clock::now() + kRetry * (1u << failures_), [this] { begin_taking(); });
    if (is_compiled) failures_ = std::min(failures_ + 1, kMostDoubled);
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
  if (std::abs(unix_now() - ask->at) > kMostAge_s) return;
  asked_ = std::move(*ask);
  begin_taking();
}

void FleetNode::plan(const std::string& policy) {
  taking_->is_reloading = true;
  constexpr size_t kMostPolicy = size_t{64} << 20;
  Result<std::string> text = read_file(policy, kMostPolicy);
  if (!text) return finish_taking(text.error(), true);
  Daemon::Candidate candidate = {std::move(*text), policy};
  daemon_.plan(std::move(candidate), [this, ask = *taking_->ask, attempt = taking_->attempt,
                                      alive = mailbox_.token()](const PlanAnswer& report) {
    if (!*alive || !is_at(attempt)) return;
    fleet::Told told;
    told.error = error_of(report);
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

}  // namespace weir::control
