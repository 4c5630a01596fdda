#include <fmt/format.h>

#include <memory>
#include <optional>
#include <vector>

#include "control/policy/feeds/format.h"
#include "control/policy/feeds/named_sets.h"
#include "control/policy/feeds/take.h"
#include "control/policy/feeds/verdict.h"

// nftables sets, as `nft list ruleset` prints them or a script has them: what stands in `elements = { ... }`,
// `define NAME = { ... }` and `add element ... { ... }`, where line ends mean nothing; and `define NAME = ADDRESS`.
namespace weir::control::feeds {
namespace nft {

constexpr size_t kMostToken = 128, kMostTokens = 24;  // of an element; no address needs as many
constexpr size_t kMostQuoted = 512;                   // of a comment; nft takes 128 bytes

// What an element may have besides: statements of any number of words. Before `: VALUE` it is the key of a map.
bool begins_extra(std::string_view word) {
  return word == "comment" || word == "counter" || word == "limit" || word == "ct" || word == "quota" || word == "last";
}
bool ends_extra(std::string_view word) {
  return word == "timeout" || word == "expires" || word == ":" || begins_extra(word);
}

class Reader {
 public:
  explicit Reader(Options options) : options_(std::move(options)) {}

  void read(std::string_view part, ListDraft& list) {
    const uint64_t before = list.entries();
    if (part.empty()) {
      end(list);
    } else {
      for (const char c : part) take_letter(c, list);
    }
    list.feed.entries += list.entries() - before;
  }

 private:
  void take_letter(char c, ListDraft& list) {
    has_text_ = true;
    if (c == '\n') list.feed.lines++;
    if (in_comment_) {
      in_comment_ = c != '\n';
      if (in_comment_) return;
    } else if (in_quotes_) {
      in_quotes_ = c != '"';
      if (in_quotes_ && options_.sets != nullptr && quoted_.size() < kMostQuoted) quoted_ += c;
      return;
    }
    const bool is_continued = last_ == '\\';
    last_ = c;
    switch (c) {
      case '\\':  // the line goes on behind its end
        return end_token();
      case '=':
        if (in_elements_) break;
        end_token();
        token_ = "=";
        return end_token();
      case '#':
        in_comment_ = true;
        return end_token();
      case '"':
        in_quotes_ = true;
        quoted_.clear();
        return end_token();
      case '{':
        return open(list);
      case '}':
        return close(list);
      case ',':
        return in_elements_ ? end_element(list) : end_token();
      case ';':
        return end_statement(list);
      case '\n':
        end_token();
        if (!in_elements_ && !is_continued && !goes_on()) end_statement(list);
        return;
      default:
        if (is_blank(c)) return end_token();
    }
    if (token_.empty() && tokens_.empty()) line_ = static_cast<uint32_t>(list.feed.lines + 1);
    if (token_.size() < kMostToken) token_ += c;
  }

  // A statement whose brace may stand on the next line.
  bool goes_on() const { return !tokens_.empty() && tokens_.back() == "="; }

  void end_token() {
    if (token_.empty()) return;
    if (tokens_.size() < kMostTokens) {
      tokens_.push_back(std::move(token_));
    } else if (!in_elements_) {
      tokens_.erase(tokens_.begin() + 2);  // of a long statement its first and its last words count
      tokens_.push_back(std::move(token_));
    } else {
      is_long_ = true;
    }
    token_.clear();
  }

  // One without braces: `define NAME = ADDRESS`, or the `timeout TIME` of a set.
  void end_statement(ListDraft& list) {
    end_token();
    if (tokens_.size() > 3 && tokens_[0] == "define" && tokens_[2] == "=") {
      const std::string defined = tokens_[1];
      tokens_.erase(tokens_.begin(), tokens_.begin() + 3);
      const size_t n_v4 = list.v4.size();
      set_verdict_ = verdict_of_name(defined);
      Outcome outcome = take_element(list);
      if (options_.sets != nullptr && outcome.kind == Outcome::fine) options_.sets->took(defined, list, n_v4, "");
      if (outcome.kind == Outcome::bad) outcome = Outcome::skip(outcome.why);  // names stand for anything
      add_outcome(outcome, list.feed, line_, shown());
    } else if (tokens_.size() == 2 && tokens_[0] == "timeout") {
      set_timeout_ = duration_seconds(tokens_[1]);
    } else if (options_.sets != nullptr && !set_.empty() && tokens_.size() > 1 && tokens_[0].starts_with("type")) {
      std::string type;  // `type ipv4_addr . inet_service`, `typeof ip saddr`
      for (size_t i = 1; i < tokens_.size(); i++) type += (i == 1 ? "" : " ") + tokens_[i];
      options_.sets->declare(set_, type);
    } else if (has_address()) {
      add_skipped_line(list.feed, line_, shown(), "a rule with an address: weir reads sets");
    }
    tokens_.clear();
  }

  bool has_address() const {
    return std::any_of(tokens_.begin(), tokens_.end(), [](const std::string& token) {
      return token.size() > 2 && token.find_first_of(".:") != std::string::npos && is_entry(token);
    });
  }

  bool begins_elements() const {
    const size_t n = tokens_.size();
    if (n >= 2 && tokens_[n - 1] == "=" && (tokens_[n - 2] == "elements" || tokens_[0] == "define")) return true;
    const size_t verb = n > 0 && tokens_[0] == "nft" ? 1 : 0;
    return n >= verb + 2 && (tokens_[verb] == "add" || tokens_[verb] == "create") && tokens_[verb + 1] == "element";
  }

  // `delete element inet filter NAME {`: they are no entries of it, and those that were added are not any more.
  bool deletes_elements() const {
    const size_t verb = !tokens_.empty() && tokens_[0] == "nft" ? 1 : 0;
    return tokens_.size() >= verb + 2 && (tokens_[verb] == "delete" || tokens_[verb] == "destroy") &&
           tokens_[verb + 1] == "element";
  }

  // What stands in these braces belongs to this set: `set NAME {`, `add set inet filter NAME {`, `define NAME = {`,
  // `add element inet filter NAME {`, and `elements = {` to that around it.
  void name_set() {
    const size_t n = tokens_.size();
    const size_t verb = n > 0 && tokens_[0] == "nft" ? 1 : 0;
    const bool is_added = n > verb + 2 && (tokens_[verb] == "add" || tokens_[verb] == "create");
    const std::string_view what = n == 0 ? std::string_view() : is_added ? tokens_[verb + 1] : tokens_[0];
    if (what == "define" && n > 1) {
      set_ = tokens_[1];
    } else if (n > 1 && (what == "set" || what == "map" || what == "element")) {
      set_ = tokens_[n - 1];
    } else if (!in_elements_) {
      set_.clear();
    }
    set_verdict_ = verdict_of_name(set_);
  }

  void open(ListDraft& list) {
    end_token();
    if (in_elements_) return add_bad_line(list.feed, line_, shown(), "a brace inside of elements");
    in_elements_ = begins_elements();
    is_deleted_ = !in_elements_ && deletes_elements();
    in_elements_ |= is_deleted_;
    name_set();
    quoted_.clear();
    opened_ = static_cast<uint32_t>(list.feed.lines + 1);
    depth_ += in_elements_ ? 0 : 1;
    tokens_.clear();
  }

  void close(ListDraft& list) {
    if (in_elements_) {
      end_element(list);
      in_elements_ = false;
    } else {
      end_statement(list);
      depth_ -= depth_ > 0 ? 1 : 0;
      set_timeout_.reset();
      set_.clear();
      set_verdict_ = Verdict::none;
    }
    tokens_.clear();
  }

  void end_element(ListDraft& list) {
    end_token();
    if (!tokens_.empty()) {
      const size_t n_v4 = list.v4.size(), n_v6 = list.v6.size();
      const Outcome outcome = take_element(list);
      if (options_.sets != nullptr) tell_set(outcome, list, n_v4, n_v6);
      add_outcome(outcome, list.feed, line_, shown());
    } else if (options_.sets != nullptr && !quoted_.empty()) {
      options_.sets->left_out(set_, '"' + quoted_ + '"', "a name, no address");
    }
    tokens_.clear();
    quoted_.clear();
    is_long_ = false;
  }

  void tell_set(const Outcome& outcome, const ListDraft& list, size_t n_v4, size_t n_v6) {
    if (outcome.kind != Outcome::fine) return options_.sets->left_out(set_, shown(), outcome.why);
    if (list.v4.size() != n_v4 || list.v6.size() != n_v6) options_.sets->took(set_, list, n_v4, quoted_);
  }

  Outcome take_element(ListDraft& list) {
    if (is_long_) return "too many words for an element";
    if (is_deleted_ && options_.sets == nullptr && !list.fault) {
      list.fault = FeedFault{fmt::format("takes elements away again on line {}: {}", line_, shortened(shown(), 80)),
                             "take what is in the sets now: `nft list ruleset`"};
    }
    if (is_deleted_) return Outcome::skip("an element that is deleted");
    if (options_.sets == nullptr) {  // who asks set by set chooses sets
      if (const char* why = why_not_named(set_verdict_, options_.action)) return Outcome::skip(why);
    }
    const std::string& key = tokens_[0];
    if (key[0] == '$' || key[0] == '@') return Outcome::skip("the name of another set");
    std::string_view last, port;
    At at = {line_, set_timeout_ ? expires_after(*set_timeout_, options_) : kNever};
    for (size_t i = 1; i < tokens_.size(); i++) {
      const std::string_view next = i + 1 < tokens_.size() ? std::string_view(tokens_[i + 1]) : std::string_view();
      if (tokens_[i] == "-") {
        last = next;
        i++;
      } else if (tokens_[i] == ".") {
        if (!is_number(next) || !port.empty()) return Outcome::skip("more than an address and a port");
        port = next;
        i++;
      } else if (tokens_[i] == "timeout" || tokens_[i] == "expires") {  // what is left of it stands behind it
        const auto seconds = duration_seconds(next);
        if (!seconds && next != "never") return "the timeout is no time";
        at.expires = seconds ? expires_after(*seconds, options_) : kNever;
        i++;
      } else if (tokens_[i] == ":") {
        // Of a map of verdicts; `jump`, `goto` and other values are rules of their own.
        if (options_.sets != nullptr) return Outcome::skip("an element of a map");  // which is no set
        const Verdict verdict = verdict_of_word(next);
        if (verdict != (options_.action == WEIR_DROP ? Verdict::block : Verdict::pass)) {
          return Outcome::skip("an element of a map, whose value is no verdict of this list");
        }
        i++;
      } else if (begins_extra(tokens_[i])) {
        while (i + 1 < tokens_.size() && !ends_extra(tokens_[i + 1])) i++;
      } else {
        return "neither an address nor what nft says of one";
      }
    }
    if (!last.empty()) return take_range(key, last, at, options_, list);
    if (!port.empty()) return take_port(key, port, at, options_, list);
    return take(key, at, options_, list);
  }

  std::string shown() const {
    std::string all;
    for (const std::string& token : tokens_) all += (all.empty() ? "" : " ") + token;
    return all;
  }

  void end(ListDraft& list) {
    if (!in_elements_) end_statement(list);
    if (has_text_ && last_line_is_open()) list.feed.lines++;
    if (in_elements_) {
      list.fault = FeedFault{fmt::format("ends inside of the elements that begin on line {}", opened_),
                             "get the file again: it is cut off", true};
    } else if (depth_ > 0 || in_quotes_) {
      list.fault = FeedFault{"ends inside of a table or a set", "get the file again: it is cut off", true};
    }
  }
  bool last_line_is_open() const { return in_comment_ || in_quotes_ || last_ != '\n'; }

  const Options options_;
  std::vector<std::string> tokens_;  // of this statement, or of this element
  std::string token_;
  std::string set_;                      // that this belongs to, where it is asked for; empty: none is known
  std::string quoted_;                   // the last text in quotes: the comment of this element
  std::optional<uint64_t> set_timeout_;  // seconds: of elements that say nothing else
  uint32_t line_ = 0, opened_ = 0;
  unsigned depth_ = 0;
  char last_ = '\n';
  Verdict set_verdict_ = Verdict::none;  // of the set's name
  bool is_deleted_ = false;              // these elements are
  bool in_elements_ = false, in_comment_ = false, in_quotes_ = false, is_long_ = false, has_text_ = false;
};

bool is_like(std::string_view line) {
  const std::string_view whole = line;
  const std::string_view verb = next_word(line), second = next_word(line);
  if (verb.starts_with("elements=") || (verb == "elements" && second.starts_with("="))) return true;
  if (verb == "table" || verb == "set") return whole.ends_with('{');
  if (verb == "define") return whole.find('=') != std::string_view::npos;
  return (verb == "add" || verb == "create") && (second == "element" || second == "table" || second == "set");
}

std::string recognise(std::string_view beginning) {
  constexpr unsigned kAsked = 32;
  unsigned number = 0;
  for (unsigned asked = 0; !beginning.empty() && asked < kAsked;) {
    const std::string_view line = trim(next_line(beginning));
    number++;
    if (line.empty() || line[0] == '#') continue;
    if (is_like(line)) return fmt::format("line {} is of nftables", number);
    if (is_plain_entry(line)) return "";
    asked++;
  }
  return "";
}

Read start(const Options& options, std::string_view /*beginning*/) {
  auto reader = std::make_shared<Reader>(options);
  return [reader](std::string_view part, ListDraft& list) { reader->read(part, list); };
}

}  // namespace nft

extern const Format kNftFormat;
const Format kNftFormat = {
    "nft",
    "nftables: `elements = { ... }`, `define NAME = { ... }`, `add element ... { ... }`; a timeout "
    "counts from when the file was written",
    nft::recognise, nft::start, Parts::bytes};

}  // namespace weir::control::feeds
