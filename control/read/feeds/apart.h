#pragma once

#include "common/confine/helpers.h"
#include "control/read/feeds/format.h"

// Feeds are anybody's bytes: controld parses each in a process of its own (common/confine/helpers.h). Whoever takes one
// over can make up entries of this one feed, which its guard judges as any others.
namespace weir::control::feeds {

extern const confine::Job kParseJob;  // for confine::Helpers::start

constexpr size_t kMostTextBytes = size_t{256} << 10;     // that a parser takes at once
constexpr size_t kMostEntries = kMostTextBytes / 3 + 1;  // `::` and the end of its line

// What goes to and fro, beside the text and the entries, which lie in shared memory: the text in its first
// kMostTextBytes; behind them two areas for entries by turns, so that those of one part are taken while the next part
// is parsed: n_v6 Entry<Ipv6>, then n_v4 Entry<Ipv4>.
struct ParseRequest {
  uint32_t format;  // place in formats()
  uint32_t text_bytes;
  uint64_t lines;  // of the feed, before this text
  uint32_t area;   // 0 or 1, where its entries go
  uint8_t directions;
  uint8_t allow_any;
};
struct ParseAnswer {
  static constexpr size_t kMostSamples = 5, kMostText = 80;  // control/model/feed.h
  struct Sample {
    uint32_t line;
    char text[kMostText + 1];
    char reason[kMostText + 1];
  };
  uint64_t lines, bad;  // of this text
  uint32_t n_v4, n_v6, n_samples;
  Sample samples[kMostSamples];
};
constexpr size_t kAreaBytes = kMostEntries * sizeof(Entry<Ipv6>);
constexpr size_t kSharedBytes = kMostTextBytes + 2 * kAreaBytes;

// One process, for one feed. It ends with this.
class Parser {
 public:
  static Result<Parser> make(const confine::Helpers& helpers);
  // helper: a process that answers as above, and kSharedBytes.
  explicit Parser(confine::Helper helper) : helper_(std::move(helper)) {}
  // As Format::read, of at most kMostTextBytes, but that the list gets what the text before held: finish() gives the
  // rest. Error: the process ended, or what it gave is no feed's.
  Result<void> read(const Format& format, std::string_view text, const Options& options, ListDraft& list);
  Result<void> finish(ListDraft& list);

 private:
  struct Part {  // that is being parsed
    Options options;
    size_t text_bytes = 0;
    uint32_t area = 0;
    bool is_asked = false;
  };
  Result<ParseAnswer> receive();
  Result<void> take(const ParseAnswer& answer, const Part& part, ListDraft& list) const;

  confine::Helper helper_;
  Part part_;
};

}  // namespace weir::control::feeds
