#include "control/sources/crowdsec/ledger.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>

#include "common/printable.h"

namespace weir::control::crowdsec {
namespace {

constexpr size_t kMostReasons = 16;  // of decisions that are skipped
constexpr size_t kMostReason = 32;   // bytes

bool is_same(const std::string& text, const char* other) {
  return strcasecmp(text.c_str(), other) == 0;
}

bool is_local(const std::string& origin) {
  return origin == "crowdsec" || origin.starts_with("cscli");
}

// `captcha`
std::string name_of(const std::string& text) {
  return text.empty() ? "(none)" : shortened(text, kMostReason);
}

// A decision is known by both: two about different entries may have the same number.
std::string claim_id(const Decision& decision, const std::string& entry) {
  return fmt::format("{} {}", decision.id, entry);
}

}  // namespace

void Ledger::skip(const std::string& what) {
  const bool is_known = skipped_.count(what) != 0 || skipped_.size() < kMostReasons;
  skipped_[is_known ? what : "others"]++;
}

bool Ledger::takes_type(const std::string& type) const {
  return std::any_of(types_.begin(), types_.end(), [&](const std::string& one) { return is_same(type, one.c_str()); });
}

void Ledger::take_added(const Decision& decision, int64_t now_ms) {
  if (!is_same(decision.scope, "ip") && !is_same(decision.scope, "range")) {
    return skip("scope " + name_of(decision.scope));
  }
  if (!takes_type(decision.type)) return skip("type " + name_of(decision.type));
  const std::optional<std::string> entry = entry_of(decision.value);
  if (!entry) return skip("bad value");
  const std::optional<int64_t> left_ms = duration_ms(decision.duration);
  if (!left_ms) return skip("bad duration");
  if (*left_ms <= 0) return;
  // An answer tells how long is left, in milliseconds. They are rounded up to seconds; the list keeps an entry for
  // kMostMs at most.
  const int64_t until = std::min((now_ms + *left_ms + 999) / 1000, (now_ms + kMostMs) / 1000);
  list_.claim(claim_id(decision, *entry),
              {{*entry}, static_cast<uint64_t>(until), comment_of(decision), is_local(decision.origin)});
}

void Ledger::take_all(const Decisions& decisions, int64_t now_ms) {
  list_.release_all();
  skipped_.clear();
  take_news(decisions, now_ms);
}

void Ledger::take_news(const Decisions& decisions, int64_t now_ms) {
  for (const Decision& decision : decisions.added) take_added(decision, now_ms);
  for (const Decision& decision : decisions.deleted) {
    const std::optional<std::string> entry = entry_of(decision.value);
    if (entry) list_.release(claim_id(decision, *entry));
  }
}

}  // namespace weir::control::crowdsec
