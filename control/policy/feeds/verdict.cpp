#include "control/policy/feeds/verdict.h"

#include <algorithm>
#include <string>
#include <vector>

#include "control/policy/feeds/words.h"

namespace weir::control::feeds {
namespace verdict {

using words::begins_with_one_of;
using words::holds_one_of;
using words::is_one_of;

bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// --- whole values ---

// These mean the same in any column.
constexpr std::string_view kPassWords[] = {
    "allow",       "allowed",      "allowlist",     "allowlisted",    "permit",      "permitted",   "whitelist",
    "whitelisted", "whitelisting", "passlist",      "safelist",       "safelisted",  "welcomelist", "welcomelisted",
    "trusted",     "trust",        "benign",        "harmless",       "nomatch",     "except",      "exception",
    "exempt",      "exempted",     "falsepositive", "falsepositives", "falsealarm",  "knowngood",   "legit",
    "legitimate",  "notmalicious", "notblocked",    "notbanned",      "notbad",      "notlisted",   "notathreat",
    "unblock",     "unblocked",    "unban",         "unbanned",       "bypass",      "bypassed",    "goodlist",
    "erlauben",    "erlaubt",      "zulassen",      "zugelassen",     "freigegeben", "freigeben",   "permitir",
    "permitido",   "autoriser",    "autorise",      "autorizar",      "consentire",  "consentito"};
// These mean it behind an address, and in a column that is there to say it.
constexpr std::string_view kMaybePassWords[] = {"ok",   "okay",   "pass",    "passed", "accept",  "accepted", "white",
                                                "good", "safe",   "clean",   "dunno",  "friend",  "friendly", "relay",
                                                "fp",   "ignore", "ignored", "skip",   "skipped", "return"};
constexpr std::string_view kOffWords[] = {"disabled", "disable",  "inactive", "deactivated", "expired",
                                          "deleted",  "removed",  "revoked",  "retired",     "withdrawn",
                                          "delisted", "unlisted", "negated",  "negate",      "nolongerlisted"};
constexpr std::string_view kMaybeOffWords[] = {"off", "none", "noaction", "log", "monitor", "simulated"};
constexpr std::string_view kBlockWords[] = {
    "block",      "blocked",    "blocklist",  "blocklisted", "blacklist", "blacklisted", "deny",        "denied",
    "denylist",   "denylisted", "drop",       "dropped",     "droplist",  "ban",         "banned",      "banlist",
    "reject",     "rejected",   "discard",    "refuse",      "refused",   "blackhole",   "unreachable", "prohibit",
    "malicious",  "disallow",   "disallowed", "untrusted",   "shun",      "kill",        "sperren",     "gesperrt",
    "blockieren", "blockiert",  "bloquear",   "bloquer",     "bloccare",  "denegar",     "ablehnen"};
constexpr std::string_view kMaybeBlockWords[] = {
    "bad", "black", "evil", "hostile", "abuse", "unsafe", "listed", "maliciousactivity", "compromised"};

// Longer texts are prose.
std::string letters_of(std::string_view text) {
  constexpr size_t kLongest = 40;
  return text.size() > kLongest ? std::string() : words::letters_of(text, kLongest);
}

Verdict sure_verdict(std::string_view word) {
  if (is_one_of(word, kPassWords)) return Verdict::pass;
  if (is_one_of(word, kOffWords)) return Verdict::off;
  return is_one_of(word, kBlockWords) ? Verdict::block : Verdict::none;
}

Verdict any_verdict(std::string_view word) {
  if (const Verdict verdict = sure_verdict(word); verdict != Verdict::none) return verdict;
  if (is_one_of(word, kMaybePassWords) || word.starts_with("white")) return Verdict::pass;
  return is_one_of(word, kMaybeBlockWords) ? Verdict::block : Verdict::none;
}

// --- columns and members ---

// They are there to say what is to be done, or what was found.
constexpr std::string_view kVerdictNames[] = {
    "action",      "verdict",    "status",         "state",    "type",     "list",       "listtype", "mode",
    "access",      "policy",     "effect",         "result",   "rule",     "target",     "decision", "kind",
    "disposition", "class",      "classification", "category", "rating",   "flag",       "label",    "tag",
    "reputation",  "permission", "judgement",      "judgment", "severity", "confidence", "aktion",   "estado",
    "statut",      "stato",      "accion",         "azione",   "liste",    "lista",      "regel",    "listname"};
// Yes says that the row does not count.
constexpr std::string_view kOffNames[] = {"disabled",  "deleted",    "removed",   "expired",   "revoked",
                                          "inactive",  "negated",    "delisted",  "retired",   "withdrawn",
                                          "simulated", "isdisabled", "isdeleted", "isexpired", "isrevoked"};
// No says that the row does not count.
constexpr std::string_view kOnNames[] = {
    "enabled",     "active",     "toids",     "ids",           "block",       "blocked", "blacklisted",
    "blocklisted", "listed",     "banned",    "malicious",     "ismalicious", "isbad",   "enable",
    "isactive",    "isenabled",  "isblocked", "isbanned",      "islisted",    "deny",    "denied",
    "drop",        "dropped",    "ban",       "isblacklisted", "valid",       "isvalid", "shouldblock",
    "blockable",   "actionable", "aktiv",     "activo",        "actif",       "attivo"};
constexpr std::string_view kYes[] = {"true", "1", "yes", "y", "on", "t", "ja", "oui", "si", "sim"};
constexpr std::string_view kNo[] = {"false", "0", "no", "n", "off", "f", "nein", "non", "nao"};

// --- names ---

constexpr std::string_view kPassStems[] = {"white",       "allow",    "permit",   "trust",     "accept", "exempt",
                                           "except",      "benign",   "friend",   "legit",     "bypass", "ignore",
                                           "welcomelist", "passlist", "safelist", "goodlist",  "weiss",  "erlaub",
                                           "vertrau",     "zugelass", "blanche",  "blanca",    "bianca", "branca",
                                           "permitid",    "autoris",  "autoriz",  "consentit", "zaufan", "nomatch"};
constexpr std::string_view kPassTokens[] = {"safe", "good",     "clean",    "pass",   "passed",
                                            "ok",   "harmless", "goodguys", "goodips"};
constexpr std::string_view kPassInside[] = {"whitelist", "allowlist",  "safelist",   "passlist",    "goodlist",
                                            "trustlist", "exceptlist", "ignorelist", "welcomelist", "exemptlist"};
constexpr std::string_view kBlockStems[] = {
    "blacklist", "blackhole", "block",    "deny",  "denied",  "droplist", "dropped", "banlist",  "banned",  "reject",
    "badip",     "badguy",    "malic",    "abus",  "attack",  "spam",     "hostile", "disallow", "untrust", "unsafe",
    "distrust",  "threat",    "prohibit", "sperr", "schwarz", "noire",    "negra",   "verbot",   "bloque",  "interdit"};
constexpr std::string_view kBlockTokens[] = {"black", "drop", "drops", "ban", "bans", "bad", "evil", "nera", "shun"};
constexpr std::string_view kNegations[] = {"not", "non", "no", "never", "un", "dis", "nicht", "dont"};

// `knownGood_v4` -> known, good, v, 4
std::vector<std::string> tokens_of(std::string_view name) {
  constexpr size_t kLongest = 255;
  std::vector<std::string> tokens;
  char last = '\0';
  for (const char c : name.substr(0, kLongest)) {
    const bool is_letter = is_upper(c) || is_lower(c);
    const bool goes_on =
        (is_letter && (is_upper(last) || (is_lower(last) && is_lower(c)))) || (is_digit(c) && is_digit(last));
    if ((is_letter || is_digit(c)) && !goes_on) tokens.emplace_back();
    if (is_letter || is_digit(c)) tokens.back() += is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
    last = c;
  }
  return tokens;
}

Verdict verdict_of_token(std::string_view token) {
  const auto is_pass = [](std::string_view one) {
    return begins_with_one_of(one, kPassStems) || is_one_of(one, kPassTokens);
  };
  const auto is_block = [](std::string_view one) {
    return begins_with_one_of(one, kBlockStems) || is_one_of(one, kBlockTokens);
  };
  if (is_block(token)) return Verdict::block;
  for (const std::string_view negation : kNegations) {
    if (!token.starts_with(negation)) continue;
    const std::string_view rest = token.substr(negation.size());
    if (is_pass(rest)) return Verdict::block;
    if (is_block(rest)) return Verdict::pass;
  }
  return is_pass(token) || holds_one_of(token, kPassInside) ? Verdict::pass : Verdict::none;
}

}  // namespace verdict

Verdict verdict_of_word(std::string_view text) {
  using namespace verdict;
  return any_verdict(letters_of(text));
}

Verdict verdict_of_member(std::string_view name, std::string_view value) {
  using namespace verdict;
  const std::string called = letters_of(name), said = letters_of(value);
  if (said.empty() || called.empty()) return Verdict::none;
  const bool is_yes = is_one_of(said, kYes), is_no = is_one_of(said, kNo);
  if (is_yes || is_no) {
    if (is_one_of(called, kOffNames)) return is_yes ? Verdict::off : Verdict::none;
    if (is_one_of(called, kOnNames)) return is_no ? Verdict::off : Verdict::none;
    const bool is_pass =
        verdict_of_name(name) == Verdict::pass || called == "fp" || called.find("falsepositive") != std::string::npos;
    if (is_pass) return is_yes ? Verdict::pass : Verdict::none;
  }
  if (said == "white" || said == "black") return Verdict::none;  // colours: TLP:WHITE
  if (!is_one_of(called, kVerdictNames)) return sure_verdict(said);
  if (is_one_of(said, kMaybeOffWords)) return Verdict::off;
  return any_verdict(said);
}

Verdict verdict_of_name(std::string_view name) {
  using namespace verdict;
  Verdict verdict = Verdict::none;
  bool is_negated = false;
  for (const std::string& token : tokens_of(name)) {
    Verdict one = verdict_of_token(token);
    if (one != Verdict::none && is_negated) one = one == Verdict::pass ? Verdict::block : Verdict::pass;
    is_negated = is_one_of(token, kNegations);
    if (one == Verdict::pass || verdict == Verdict::none) verdict = one;
  }
  return verdict;
}

const char* why_not_of(Verdict verdict, weir_action action) {
  switch (verdict) {
    case Verdict::pass:
      return action == WEIR_DROP ? "an exception: it is marked as allowed" : nullptr;
    case Verdict::block:
      return action == WEIR_PASS ? "it is marked as blocked, and this list lets through" : nullptr;
    case Verdict::off:
      return "it is marked as disabled, removed or expired";
    case Verdict::none:
      break;
  }
  return nullptr;
}

const char* why_not_named(Verdict verdict, weir_action action) {
  if (verdict == Verdict::pass && action == WEIR_DROP)
    return "an exception: by its name its list is one of what is allowed";
  if (verdict == Verdict::block && action == WEIR_PASS)
    return "by its name its list is one of what is blocked, and this list lets through";
  return nullptr;
}

}  // namespace weir::control::feeds
