#pragma once

#include <optional>

#include "common/confine/helpers.h"
#include "control/policy/feeds/reading.h"

// Feeds are anybody's bytes: controld parses each in a process of its own (common/confine/helpers.h). Whoever takes one
// over can make up entries of this one feed, which its guard judges as any others.
namespace weir::control::feeds {

extern const confine::Job kParseJob;  // for confine::Helpers::start

// Text that one answer is about: a part, and what was kept to recognise the format.
constexpr size_t kMostAtOnce = kMostTextBytes + kBeginningBytes;
// `::` and the end of its line, and what was open before (CSV: lines within quotes).
constexpr size_t kMostEntries = kMostAtOnce / 3 + 68;

// What goes to and fro, beside the bytes and the entries, which lie in shared memory: bytes of the file in its first
// kMostTextBytes; behind them two areas for entries by turns, so that those of one part are taken while the next part
// is parsed: n_v6 Entry<Ipv6>, then n_v4 Entry<Ipv4>. Packed bytes may hold more text than is read at once: then the
// answer says so, and the next request has no bytes.
struct ParseRequest {
  static constexpr size_t kMostSettings = 255;
  static constexpr uint32_t kAuto = UINT32_MAX;
  uint32_t format;  // place in formats(), or kAuto
  uint32_t bytes;
  uint64_t lines;  // of the feed, before this text
  uint32_t area;   // 0 or 1, where its entries go
  uint32_t written;
  uint8_t directions;
  uint8_t source;
  uint8_t action;  // weir_action
  uint8_t allow_any;
  uint8_t is_end;
  char settings[kMostSettings + 1];
};
struct ParseAnswer {
  static constexpr size_t kMostSamples = LineSample::kKinds * kSamplesOfAKind,
                          kMostText = 80;  // control/policy/model/feed.h
  static constexpr size_t kMostWhy = 400, kMostNotes = 4;
  struct Sample {
    uint32_t line;
    LineSample::Kind kind;
    char text[kMostText + 1];
    char reason[kMostText + 1];
  };
  struct Note {
    char reason[kMostWhy + 1], hint[kMostWhy + 1];
  };
  uint64_t lines, bad, skipped, host_bits;  // of this text
  uint32_t n_v4, n_v6, n_samples, n_notes;
  uint32_t format;  // that it is read as; ParseRequest::kAuto: not known yet
  uint8_t has_more, is_fault, is_cut_off, ends_in_newline;
  Sample samples[kMostSamples];
  Note notes[kMostNotes];
  char why[kMostWhy + 1];                        // ListDraft::feed
  char fault[kMostWhy + 1], hint[kMostWhy + 1];  // ListDraft::fault
};
constexpr size_t kAreaBytes = kMostEntries * sizeof(Entry<Ipv6>);
constexpr size_t kSharedBytes = kMostTextBytes + 2 * kAreaBytes;

// One process, for one file. It ends with this.
class Parser {
 public:
  // As Reading has them.
  struct How {
    const Format* format = nullptr;  // null: `auto`
    Options options;
  };
  static Result<Parser> make(const confine::Helpers& helpers, How how);
  // helper: a process that answers as above, and kSharedBytes.
  Parser(confine::Helper helper, How how) : helper_(std::move(helper)), how_(std::move(how)) {}
  // The next bytes of the file, at most kMostTextBytes. The list gets what those before held: finish() gives the rest.
  // Error: the process ended, or what it gave is no feed's.
  Result<void> read(std::string_view bytes, ListDraft& list);
  Result<void> finish(ListDraft& list);
  bool ends_in_newline() const { return ends_in_newline_; }

 private:
  Result<ParseAnswer> receive() const;
  Result<void> ask(uint32_t bytes, bool is_end, uint64_t lines);
  Result<void> take(const ParseAnswer& answer, uint32_t area, ListDraft& list);
  Result<void> wait_for_last(ListDraft& list, std::optional<ParseAnswer>& last);

  confine::Helper helper_;
  How how_;
  uint32_t area_ = 0;      // of what is being parsed
  bool is_asked_ = false;  // something is
  bool is_end_ = false;
  bool ends_in_newline_ = true;
};

}  // namespace weir::control::feeds
