#include "control/daemon/shadow.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "common/clock.h"
#include "common/log/log.h"
#include "common/memory.h"
#include "control/daemon/daemon.h"
#include "control/policy/read/policy.h"
#include "control/tell/answer/text.h"

// A shadow: a candidate is read and compiled beside what runs, targets judge live packets by it, and it is promoted or
// ends. Nothing here changes what is enforced, but a promotion, which is a reload.
namespace weir::control {

namespace {

constexpr uint64_t kNsPerSecond = 1'000'000'000;

}  // namespace

// The planner reads it, the maker gives it a number, and the builder compiles it.
struct Daemon::ShadowPolicy {
  ShadowWish wish;
  ShadowBegun done;
  std::shared_ptr<ShadowReport> report = std::make_shared<ShadowReport>();
  std::optional<Policy> read;
  std::shared_ptr<const Policy> policy;  // with the journal's entries
  wire::Generation number;
  std::shared_ptr<const Base> base;
};

void ShadowFlows::add(const wire::Shadow& told) {
  for (const wire::ShadowSample& sample : told.samples) {
    ShadowFlowRow row;
    weir_packet packet;
    static_assert(sizeof packet == sizeof sample.packet);
    memcpy(&packet, sample.packet, sizeof packet);
    if (packet.family == 4 || packet.family == 6) row.packet = packet_text(packet);
    row.running = credit_text(sample.by_running);
    row.candidate = credit_text(sample.by_candidate);
    row.at = static_cast<int64_t>(sample.time_unix_ns / kNsPerSecond);
    const std::string key = fmt::format("{}\n{}\n{}", row.packet, row.running, row.candidate);
    if (rows_.size() >= kMost && !rows_.contains(key)) {
      rows_.erase(std::min_element(rows_.begin(), rows_.end(),
                                   [](const auto& a, const auto& b) { return a.second.at < b.second.at; }));
    }
    ShadowFlowRow& known = rows_.try_emplace(key, row).first->second;
    known.frames++;
    known.at = std::max(known.at, row.at);
  }
}

std::vector<ShadowFlowRow> ShadowFlows::rows() const {
  std::vector<ShadowFlowRow> rows;
  for (const auto& [key, row] : rows_) rows.push_back(row);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const ShadowFlowRow& a, const ShadowFlowRow& b) { return a.frames > b.frames; });
  return rows;
}

void Daemon::begin_shadow(ShadowWish wish, ShadowBegun done) {
  auto asked = std::make_shared<ShadowPolicy>();
  asked->wish = std::move(wish);
  asked->done = std::move(done);
  if (shadow_asked_ != nullptr) {
    return fail_shadow(asked, "another candidate is being compiled: ask again when it is done");
  }
  shadow_asked_ = asked;
  read_shadow(asked);
}

void Daemon::fail_shadow(const std::shared_ptr<ShadowPolicy>& made, std::string error) {
  made->report->error = std::move(error);
  made->done(made->report);
}

// Feeds that have not changed are taken from what runs.
void Daemon::read_shadow(const std::shared_ptr<ShadowPolicy>& asked) {
  log::info("a candidate is read", {{"file", asked->wish.path}, {"user", asked->wish.uid}});
  planner_.submit([this, asked, old = running_] {
    const Result<void> had_memory = with_memory([&] {
      FeedHistory history = history_of(old->book.get(), !old->from_last_good);
      if (options_.fetches) {
        history.fetch_first = [this](const FetchSettings& settings, const std::vector<FetchedFeed>& feeds) {
          return fetcher_.fetch_first(settings, feeds);
        };
      }
      asked->read =
          read_policy_text(asked->wish.path, asked->wish.text, asked->report->diagnostics, unix_now(), history);
    });
    if (!had_memory) asked->report->error = had_memory.error();
    mailbox_.post([this, asked, is_read = had_memory && asked->read] {
      if (is_stopping()) return;
      if (is_read) return number_shadow(asked);
      shadow_asked_ = nullptr;
      asked->done(asked->report);
    });
  });
}

// With the lists as the journal has them now, in the turn of what publishes.
void Daemon::number_shadow(const std::shared_ptr<ShadowPolicy>& read) {
  maker_thread_.submit([this, read, old = running_] {
    const Result<void> had_memory = with_memory(
        [&] { std::tie(read->policy, read->number) = maker_.number_candidate(std::move(*read->read), *old->book); });
    read->read.reset();
    if (!had_memory) {
      read->policy = nullptr;
      read->report->error = had_memory.error();
    }
    mailbox_.post([this, read] { build_shadow(read); });
  });
}

void Daemon::build_shadow(const std::shared_ptr<ShadowPolicy>& read) {
  if (is_stopping()) return;
  if (read->policy == nullptr) {
    shadow_asked_ = nullptr;
    return read->done(read->report);
  }
  builder_.submit([this, read] {
    const Result<void> had_memory = with_memory([&] {
      Result<Compiled> compiled = compile(*read->policy, read->number, options_.build_threads);
      if (compiled) {
        read->base = whole_of(*compiled, read->policy);
        (void)read->base->snapshot->view();  // which walks all of it: here, so that nobody waits for it later
      } else {
        read->report->error = compiled.error();
      }
    });
    malloc_trim(0);
    if (!had_memory) read->report->error = had_memory.error();
    mailbox_.post([this, read] { take_shadow(read); });
  });
}

// On the loop: to the targets. Answered when each has said what it makes of it.
void Daemon::take_shadow(const std::shared_ptr<ShadowPolicy>& made) {
  if (is_stopping()) return;
  shadow_asked_ = nullptr;
  if (made->base == nullptr) return made->done(made->report);
  auto shadowing = std::make_shared<Shadowing>();
  shadowing->path = made->wish.path;
  shadowing->text = made->policy->text;
  shadowing->one_in = made->wish.one_in;
  shadowing->at = unix_now();
  shadowing->base = made->base;
  shadowing->beside = running_->publication->generation;
  shadowing->diagnostics = made->report->diagnostics;
  shadow_ = shadowing;
  shadow_flows_.clear();
  shadow_ended_.clear();
  candidate_ = std::make_shared<const ShadowCandidate>(ShadowCandidate{made->base->publication, made->wish.one_in});
  for (const auto& link : targets_) link->shadow(candidate_);
  made->report->has_begun = true;
  log::change("a shadow begins", {{"file", shadowing->path},
                                  {"candidate", made->base->publication->generation.number},
                                  {"beside", shadowing->beside.number},
                                  {"one_in", shadowing->one_in},
                                  {"user", made->wish.uid}});
  const auto is_settled = [this] {
    return std::all_of(targets_.begin(), targets_.end(), [](const auto& link) {
      return link->is_shadow_settled() || (!link->state().connected && link->state().is_tried);
    });
  };
  waits_.add(is_settled, Clock::now() + std::chrono::milliseconds(options_.acknowledge_ms),
             [made] { made->done(made->report); });
}

void Daemon::end_shadow(const std::string& why, std::function<void()> done) {
  if (candidate_ != nullptr) {
    log::change("the shadow ends", {{"candidate", candidate_->publication->generation.number}, {"cause", why}});
    shadow_ended_ = why;
  }
  candidate_ = nullptr;
  for (const auto& link : targets_) link->shadow(nullptr);
  if (!done) return;
  const auto is_settled = [this] {
    return std::all_of(targets_.begin(), targets_.end(),
                       [](const auto& link) { return link->is_shadow_settled() || !link->state().connected; });
  };
  waits_.add(is_settled, Clock::now() + std::chrono::milliseconds(options_.acknowledge_ms), std::move(done));
}

void Daemon::refresh_shadow(Clock::time_point deadline, std::function<void()> done) {
  struct Asked {
    std::shared_ptr<TargetLink> link;
    uint64_t ticket;
  };
  auto asked = std::make_shared<std::vector<Asked>>();
  if (candidate_ != nullptr) {
    for (const auto& link : targets_) {
      if (link->state().connected && link->judges_by_shadow()) asked->push_back({link, link->ask_shadow()});
    }
  }
  const auto is_over = [](const Asked& one) {
    return one.link->has_shadow(one.ticket) || !one.link->state().connected;
  };
  waits_.add([asked, is_over] { return std::all_of(asked->begin(), asked->end(), is_over); }, deadline,
             std::move(done));
}

void Daemon::promote_shadow(const Wish& wish, Reloaded done) {
  if (candidate_ == nullptr) {
    return done(intents_.refused("there is no shadow to promote\nhint: `controlctl shadow FILE` begins one"));
  }
  intents_.promote(shadow_, wish, std::move(done));
}

}  // namespace weir::control
