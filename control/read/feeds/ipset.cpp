#include <map>
#include <memory>

#include "control/read/feeds/take.h"

// What `ipset save` prints: `create SET TYPE ...`, then `add SET ENTRY [timeout SECONDS] [nomatch] ...` a line.
namespace weir::control::feeds {
namespace ipset {

constexpr size_t kMostSets = 1024;  // whose default timeout is known

// Of each set, where it is not 0.
using Timeouts = std::map<std::string, uint64_t, std::less<>>;

// The first word that is no option like -exist.
std::string_view next_argument(std::string_view& line) {
  std::string_view word;
  do {
    word = next_word(line);
  } while (word.size() > 1 && word[0] == '-' && word != "-A" && word != "-N");
  return word;
}

Outcome create(std::string_view line, Timeouts& timeouts) {
  const std::string_view set = next_argument(line);
  for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) {
    if (word != "timeout") continue;
    const auto seconds = duration_seconds(next_word(line));
    if (!seconds) return "the timeout is not a number of seconds";
    if (timeouts.size() < kMostSets && *seconds != 0) timeouts[std::string(set)] = *seconds;
  }
  return {};
}

// `-A CHAIN -s PREFIX ... -j TARGET`, as iptables-save has it. line: what stands behind the `-A`.
bool is_rule(std::string_view line) {
  next_argument(line);  // the chain
  const std::string_view rest = trim(line);
  return rest.starts_with('-') || rest.starts_with('!') || rest.find(" -j ") != std::string_view::npos;
}

// ENTRY is one part: those of several (hash:ip,port has a protocol, hash:net,net two networks) are no entries of a
// list of addresses.
Outcome add(std::string_view line, uint32_t number, const Options& options, const Timeouts& timeouts, ListDraft& list) {
  const std::string_view set = next_argument(line);
  const std::string_view entry = next_argument(line);
  if (entry.empty()) return "no `add SET ENTRY`";
  if (entry.find(',') != std::string_view::npos) {
    return Outcome::skip("an entry of several parts: write it as a flow in the policy");
  }
  const auto usual = timeouts.find(set);
  uint64_t timeout = usual == timeouts.end() ? 0 : usual->second;
  for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) {
    if (word == "nomatch") return Outcome::skip("`nomatch`: an exception, which a pass list says");
    if (word == "comment") break;  // a text until the end
    if (word != "timeout") continue;
    const auto seconds = duration_seconds(next_word(line));
    if (!seconds) return "the timeout is not a number of seconds";
    timeout = *seconds;
  }
  return take(entry, {number, timeout == 0 ? kNever : expires_after(timeout, options)}, options, list);
}

Outcome read_line(std::string_view line, uint32_t number, const Options& options, Timeouts& timeouts, ListDraft& list) {
  if (line[0] == '#') return {};
  std::string_view verb = next_argument(line);
  if (verb == "ipset") verb = next_argument(line);
  if (verb == "-A" && is_rule(line)) return "a rule of iptables, not an entry of a set";
  if (verb == "add" || verb == "-A") return add(line, number, options, timeouts, list);
  if (verb == "create" || verb == "-N") return create(line, timeouts);
  if (verb == "COMMIT" || verb == "flush" || verb == "destroy" || verb == "quit") return {};
  return "neither `create` nor `add`";
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

Read start(const Options& options) {
  auto timeouts = std::make_shared<Timeouts>();
  return [options, timeouts](std::string_view part, ListDraft& list) {
    read_lines(part, list, [&](std::string_view line, uint32_t number) {
      return read_line(line, number, options, *timeouts, list);
    });
  };
}

}  // namespace ipset

extern const Format kIpsetFormat;
const Format kIpsetFormat = {"ipset", "what `ipset save` prints; a timeout counts from when the file was written",
                             ipset::recognise, ipset::start};

}  // namespace weir::control::feeds
