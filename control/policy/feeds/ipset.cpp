#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "control/policy/feeds/named_sets.h"
#include "control/policy/feeds/take.h"
#include "control/policy/feeds/verdict.h"

// What `ipset save` prints: `create SET TYPE ...`, then `add SET ENTRY [timeout SECONDS] [nomatch] ...` a line.
namespace weir::control::feeds {
namespace ipset {

constexpr size_t kMostSets = 1024;  // whose options are known
constexpr const char* kExceptionWhy = "`nomatch`: an exception, which a pass list says";

// What `create` says of all entries of a set.
struct Usual {
  uint64_t timeout = 0;  // seconds of an entry that says nothing else; 0: it stays
  std::string netmask;   // each entry is the network of this length that begins there; empty: what it says
};
struct Sets : std::map<std::string, Usual, std::less<>> {  // those that say anything
  std::set<std::string, std::less<>> added;                // names of sets that entries were added to
};

// The first word that is no option like -exist.
std::string_view next_argument(std::string_view& line) {
  std::string_view word;
  do {
    word = next_word(line);
  } while (word.size() > 1 && word[0] == '-' && word != "-A" && word != "-N");
  return word;
}

Outcome create(std::string_view line, const Options& options, Sets& sets) {
  const std::string_view set = next_argument(line), type = next_argument(line);
  if (options.sets != nullptr) options.sets->declare(set, type);
  Usual usual;
  for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) {
    if (word == "netmask") usual.netmask = next_word(line);
    if (word != "timeout") continue;
    const auto seconds = duration_seconds(next_word(line));
    if (!seconds) return "the timeout is not a number of seconds";
    usual.timeout = *seconds;
  }
  const bool says_anything = usual.timeout != 0 || !usual.netmask.empty();
  if (sets.size() < kMostSets && says_anything) sets[std::string(set)] = usual;
  return {};
}

// `-A CHAIN -s PREFIX ... -j TARGET`, as iptables-save has it. line: what stands behind the `-A`.
bool is_rule(std::string_view line) {
  next_argument(line);  // the chain
  const std::string_view rest = trim(line);
  return rest.starts_with('-') || rest.starts_with('!') || rest.find(" -j ") != std::string_view::npos;
}

// The text between the quotes that follow `comment`, taken off the line; without quotes, all that is left of it.
std::string_view next_comment(std::string_view& line) {
  line = trim(line);
  const bool is_quoted = line.starts_with('"');
  const size_t end = is_quoted ? line.find('"', 1) : std::string_view::npos;
  const std::string_view text = line.substr(is_quoted ? 1 : 0, end == std::string_view::npos ? end : end - 1);
  line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  return text;
}

// ENTRY is one part: those of several (hash:ip,port has a protocol, hash:net,net two networks) are no entries of a
// list of addresses.
Outcome add(std::string_view line, uint32_t number, const Options& options, const Sets& sets, ListDraft& list) {
  const std::string_view set = next_argument(line);
  const std::string_view entry = next_argument(line);
  if (entry.empty()) return "no `add SET ENTRY`";
  if (entry.find(',') != std::string_view::npos) {
    return Outcome::skip("an entry of several parts: write it as a flow in the policy");
  }
  if (options.sets == nullptr) {  // who asks set by set chooses sets
    if (const char* why = why_not_named(verdict_of_name(set), options.action)) return Outcome::skip(why);
  }
  const auto found = sets.find(set);
  const Usual usual = found == sets.end() ? Usual() : found->second;
  uint64_t timeout = usual.timeout;
  std::string_view comment;
  for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) {
    if (word == "nomatch") {
      if (options.sets != nullptr) options.sets->exception(set, entry);
      return Outcome::skip(kExceptionWhy);
    }
    if (word == "comment") comment = next_comment(line);
    if (word != "timeout") continue;
    const auto seconds = duration_seconds(next_word(line));
    if (!seconds) return "the timeout is not a number of seconds";
    timeout = *seconds;
  }
  const size_t n_v4 = list.v4.size();
  const At at = {number, timeout == 0 ? kNever : expires_after(timeout, options)};
  const bool is_network = usual.netmask.empty() || entry.find_first_of("/-") != std::string_view::npos;
  const char* why_bad =
      is_network ? take(entry, at, options, list) : take_prefix(entry, usual.netmask, at, options, list);
  if (why_bad == nullptr && options.sets != nullptr) options.sets->took(set, list, n_v4, comment);
  return why_bad;
}

// Of a line that begins with `add`: what of it is no entry is told to those who ask set by set.
Outcome add_to_set(std::string_view line, uint32_t number, const Options& options, const Sets& sets, ListDraft& list) {
  const Outcome outcome = add(line, number, options, sets, list);
  if (outcome.kind == Outcome::fine || options.sets == nullptr) return outcome;
  const std::string_view set = next_argument(line);
  if (outcome.why != kExceptionWhy) options.sets->left_out(set, next_argument(line), outcome.why);
  return outcome;
}

Outcome of_no_set(std::string_view line, const char* why, const Options& options) {
  if (options.sets != nullptr) options.sets->left_out("", trim(line), why);
  return why;
}

// `del`, and `flush`, `destroy`, `swap` or `rename` behind an `add`, take entries away that were added.
const char* why_undone(std::string_view verb, std::string_view set, const std::set<std::string, std::less<>>& added) {
  const bool has_added = set.empty() ? !added.empty() : added.contains(set);
  constexpr std::string_view kAlways[] = {"del", "-D", "swap", "-W"};
  constexpr std::string_view kBehindEntries[] = {"flush", "-F", "destroy", "-X", "rename", "-E"};
  const bool undoes =
      std::find(std::begin(kAlways), std::end(kAlways), verb) != std::end(kAlways) ||
      (has_added && std::find(std::begin(kBehindEntries), std::end(kBehindEntries), verb) != std::end(kBehindEntries));
  return undoes ? "takes entries away again" : nullptr;
}

Outcome read_line(std::string_view line, uint32_t number, const Options& options, Sets& sets, ListDraft& list) {
  if (line[0] == '#') return {};
  const std::string_view whole = line;
  std::string_view verb = next_argument(line);
  if (verb == "ipset") verb = next_argument(line);
  if (verb == "-A" && is_rule(line)) return of_no_set(whole, "a rule of iptables, not an entry of a set", options);
  std::string_view rest = line;
  if (const char* why = why_undone(verb, next_argument(rest), sets.added); why != nullptr && options.sets == nullptr) {
    list.fault = FeedFault{fmt::format("{} on line {}: {}", why, number, shortened(whole, 80)),
                           "take what is in the sets now: `ipset save`"};
    return why;
  }
  rest = line;
  const bool adds = verb == "add" || verb == "-A";
  if (const std::string_view set = next_argument(rest);
      adds && sets.added.size() < kMostSets && !sets.added.contains(set)) {
    sets.added.emplace(set);
  }
  if (verb == "add" || verb == "-A") return add_to_set(line, number, options, sets, list);
  if (verb == "create" || verb == "-N") return create(line, options, sets);
  if (verb == "COMMIT" || verb == "flush" || verb == "destroy" || verb == "quit") return {};
  return of_no_set(whole, "neither `create` nor `add`", options);
}

bool is_like(std::string_view line) {
  std::string_view verb = next_argument(line);
  if (verb == "ipset") verb = next_argument(line);
  if (verb == "-A" && is_rule(line)) return false;
  const std::string_view set = next_argument(line), entry = next_argument(line);
  constexpr std::string_view kOfNftables = " element rule table set chain ";
  if (verb == "add" || verb == "-A") {
    return !entry.empty() && kOfNftables.find(" " + std::string(set) + " ") == std::string_view::npos;
  }
  return (verb == "create" || verb == "-N") && entry.find(':') != std::string_view::npos;
}

std::string recognise(std::string_view beginning) {
  return recognise_lines(beginning, is_like, "is `create SET TYPE` or `add SET ENTRY`");
}

Read start(const Options& options, std::string_view /*beginning*/) {
  auto sets = std::make_shared<Sets>();
  return [options, sets](std::string_view part, ListDraft& list) {
    read_lines(part, list,
               [&](std::string_view line, uint32_t number) { return read_line(line, number, options, *sets, list); });
  };
}

}  // namespace ipset

extern const Format kIpsetFormat;
const Format kIpsetFormat = {"ipset", "what `ipset save` prints; a timeout counts from when the file was written",
                             ipset::recognise, ipset::start};

}  // namespace weir::control::feeds
