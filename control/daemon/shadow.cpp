#include "control/daemon/shadow.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "common/clock.h"
#include "common/log/log.h"
#include "common/memory.h"
#include "control/base/loop/loop.h"
#include "control/base/loop/waits.h"
#include "control/base/loop/worker.h"
#include "control/daemon/maker.h"
#include "control/daemon/running.h"
#include "control/enforce/targets/target.h"
#include "control/policy/read/policy.h"
#include "control/tell/answer/text.h"

namespace weir::control {

namespace {

constexpr uint64_t kNsPerSecond = 1'000'000'000;

}  // namespace

// The planner reads it, the maker gives it a number, and the builder compiles it.
struct Shadow::Asked {
  Wish wish;
  Begun done;
  std::shared_ptr<Report> report = std::make_shared<Report>();
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

void Shadow::begin(Wish wish, Begun done) {
  auto asked = std::make_shared<Asked>();
  asked->wish = std::move(wish);
  asked->done = std::move(done);
  if (asked_ != nullptr) {
    asked->report->error = "another candidate is being compiled: ask again when it is done";
    return asked->done(asked->report);
  }
  asked_ = asked;
  read(asked);
}

// Feeds that have not changed are taken from what runs.
void Shadow::read(const std::shared_ptr<Asked>& asked) {
  log::info("a candidate is read", {{"file", asked->wish.path}, {"user", asked->wish.uid}});
  uses_.planner.submit([this, asked, old = uses_.running] {
    const Result<void> had_memory = with_memory([&] {
      asked->read = read_policy_text(asked->wish.path, asked->wish.text, asked->report->diagnostics, unix_now(),
                                     uses_.history(*old));
    });
    if (!had_memory) asked->report->error = had_memory.error();
    uses_.mailbox.post([this, asked, is_read = had_memory && asked->read] {
      if (is_stopped_) return;
      is_read ? number(asked) : answer(asked);
    });
  });
}

// With the lists as the journal has them now, in the turn of what publishes.
void Shadow::number(const std::shared_ptr<Asked>& asked) {
  uses_.maker_thread.submit([this, asked, old = uses_.running] {
    const Result<void> had_memory = with_memory([&] {
      std::tie(asked->policy, asked->number) = uses_.maker.number_candidate(std::move(*asked->read), *old->book);
    });
    asked->read.reset();
    if (!had_memory) {
      asked->policy = nullptr;
      asked->report->error = had_memory.error();
    }
    uses_.mailbox.post([this, asked] {
      if (is_stopped_) return;
      asked->policy != nullptr ? build(asked) : answer(asked);
    });
  });
}

void Shadow::build(const std::shared_ptr<Asked>& asked) {
  uses_.builder.submit([this, asked] {
    const Result<void> had_memory = with_memory([&] {
      Result<Compiled> compiled = compile(*asked->policy, asked->number, uses_.build_threads);
      if (compiled) {
        asked->base = whole_of(*compiled, asked->policy);
        (void)asked->base->snapshot->view();  // which walks all of it: here, so that nobody waits for it later
      } else {
        asked->report->error = compiled.error();
      }
    });
    malloc_trim(0);
    if (!had_memory) asked->report->error = had_memory.error();
    uses_.mailbox.post([this, asked] {
      if (is_stopped_) return;
      asked->base != nullptr ? judge(asked) : answer(asked);
    });
  });
}

// To the targets. Answered when each has said what it makes of it.
void Shadow::judge(const std::shared_ptr<Asked>& asked) {
  auto shadowing = std::make_shared<Shadowing>();
  shadowing->path = asked->wish.path;
  shadowing->text = asked->policy->text;
  shadowing->one_in = asked->wish.one_in;
  shadowing->at = unix_now();
  shadowing->base = asked->base;
  shadowing->beside = uses_.running->publication->generation;
  shadowing->diagnostics = asked->report->diagnostics;
  latest_ = shadowing;
  flows_.clear();
  why_ended_.clear();
  candidate_ = std::make_shared<const ShadowCandidate>(ShadowCandidate{asked->base->publication, asked->wish.one_in});
  tell_targets();
  asked->report->has_begun = true;
  log::change("a shadow begins", {{"file", shadowing->path},
                                  {"candidate", asked->base->publication->generation.number},
                                  {"beside", shadowing->beside.number},
                                  {"one_in", shadowing->one_in},
                                  {"user", asked->wish.uid}});
  asked_ = nullptr;
  const auto is_settled = [this] {
    return std::all_of(uses_.targets.begin(), uses_.targets.end(), [](const auto& link) {
      return link->is_shadow_settled() || (!link->state().connected && link->state().is_tried);
    });
  };
  uses_.waits.add(is_settled, Clock::now() + uses_.patience, [asked] { asked->done(asked->report); });
}

void Shadow::answer(const std::shared_ptr<Asked>& asked) {
  asked_ = nullptr;
  asked->done(asked->report);
}

void Shadow::stop() {
  is_stopped_ = true;
  if (asked_ == nullptr) return;
  // Its job may still write into the report.
  auto report = std::make_shared<Report>();
  report->error = "controld stops";
  std::exchange(asked_, nullptr)->done(report);
}

void Shadow::tell_targets() const {
  for (const auto& link : uses_.targets) link->shadow(candidate_);
}

void Shadow::end(const std::string& why, std::function<void()> done) {
  if (candidate_ != nullptr) {
    log::change("the shadow ends", {{"candidate", candidate_->publication->generation.number}, {"cause", why}});
    why_ended_ = why;
  }
  candidate_ = nullptr;
  tell_targets();
  if (!done) return;
  const auto is_settled = [this] {
    return std::all_of(uses_.targets.begin(), uses_.targets.end(),
                       [](const auto& link) { return link->is_shadow_settled() || !link->state().connected; });
  };
  uses_.waits.add(is_settled, Clock::now() + uses_.patience, std::move(done));
}

void Shadow::refresh(Clock::time_point deadline, std::function<void()> done) {
  struct Ticket {
    std::shared_ptr<TargetLink> link;
    uint64_t number;
  };
  auto tickets = std::make_shared<std::vector<Ticket>>();
  if (candidate_ != nullptr) {
    for (const auto& link : uses_.targets) {
      if (link->state().connected && link->judges_by_shadow()) tickets->push_back({link, link->ask_shadow()});
    }
  }
  const auto is_over = [](const Ticket& one) {
    return one.link->has_shadow(one.number) || !one.link->state().connected;
  };
  uses_.waits.add([tickets, is_over] { return std::all_of(tickets->begin(), tickets->end(), is_over); }, deadline,
                  std::move(done));
}

}  // namespace weir::control
