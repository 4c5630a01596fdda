#pragma once

#include <memory>
#include <string>
#include <vector>

#include "control/policy/feeds/format.h"
#include "control/policy/feeds/unpack.h"

namespace weir::control::feeds {

constexpr size_t kMostTextBytes = size_t{256} << 10;  // that a format reads at once
constexpr uint64_t kMostUnpackedBytes = 0xffff'ffff;  // as of a file that is not packed: line numbers fit 32 bits

// From the bytes of a file to its entries: unpacked, recognised, cut into lines, read.
class Reading {
 public:
  // format: null: `auto`.
  Reading(const Format* format, Options options) : format_(format), options_(std::move(options)) {}

  // The next bytes, as many as a part of a file has (kMostTextBytes), or none; is_end: there are no more. True: as much
  // text was read as a format reads at once, and there is more in these bytes, which are to stay: call again without
  // any.
  bool read(std::string_view bytes, bool is_end, ListDraft& list);

  const Format* format() const { return format_; }  // null: it is not known yet
  const std::string& why() const { return why_; }   // `auto`: what it was told by
  bool ends_in_newline() const { return ends_in_newline_; }

 private:
  bool unpack(std::string_view bytes, bool is_end, ListDraft& list);
  void take_text(std::string_view text, ListDraft& list);
  void take_beginning(std::string_view behind, ListDraft& list);
  void begin(ListDraft& list, std::string_view beginning);
  void take_parts(std::string_view text, ListDraft& list);
  void take_lines(std::string_view text, ListDraft& list);
  void end(ListDraft& list);

  const Format* format_;
  const Options options_;
  bool has_begun_ = false, ends_in_newline_ = true;
  std::string beginning_;  // until there is as much of it as it is recognised by
  std::string why_;
  Read read_;
  std::unique_ptr<Unpacker> unpacker_;
  std::vector<char> unpacked_;  // text that waits until there is a whole part of it
  size_t n_unpacked_ = 0;
  uint64_t unpacked_bytes_ = 0;
  std::string rest_;         // of a line whose end has not come yet
  bool skipping_ = false;    // to the end of a line that is too long
  bool had_return_ = false;  // the text so far ends in CR
  uint64_t lone_returns_ = 0;
};

}  // namespace weir::control::feeds
