#include "control/policy/feeds/reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "control/policy/feeds/format.h"

namespace weir::control::feeds {
bool Reading::read(std::string_view bytes, bool is_end, ListDraft& list) {
  if (!has_begun_ && beginning_.empty() && unpacker_ == nullptr && !bytes.empty()) unpacker_ = Unpacker::of(bytes);
  if (unpacker_ != nullptr) return unpack(bytes, is_end, list);
  if (!bytes.empty()) take_text(bytes, list);
  if (is_end) end(list);
  return false;
}

bool Reading::unpack(std::string_view bytes, bool is_end, ListDraft& list) {
  if (list.fault) return false;
  unpacked_.resize(kMostTextBytes);
  if (!bytes.empty() || is_end) unpacker_->give(bytes, is_end);
  const size_t got = unpacker_->take(std::span(unpacked_).subspan(n_unpacked_));
  n_unpacked_ += got;
  unpacked_bytes_ += got;
  if (unpacked_bytes_ > kMostUnpackedBytes) {
    list.fault = FeedFault{fmt::format("is {} data that unpacks to more than 4 GiB", unpacker_->name()),
                           "look at the file: no list is as long"};
    return false;
  }
  if (n_unpacked_ == unpacked_.size()) {
    take_text({unpacked_.data(), n_unpacked_}, list);
    n_unpacked_ = 0;
    return !list.fault;
  }
  if (unpacker_->is_broken() || (is_end && !unpacker_->is_whole())) {
    list.fault = FeedFault{
        fmt::format("is {} data that is {}", unpacker_->name(), unpacker_->is_broken() ? "broken" : "cut off"),
        "get the file again", !unpacker_->is_broken()};
    return false;
  }
  if (!is_end) return false;
  if (n_unpacked_ > 0) take_text({unpacked_.data(), n_unpacked_}, list);
  n_unpacked_ = 0;
  end(list);
  return false;
}

// What it is, and what reads it.
void Reading::begin(ListDraft& list, std::string_view beginning) {
  has_begun_ = true;
  const Content* content = content_of(beginning);
  if (content != nullptr && content->is_json && (format_ == nullptr || format_->is_json)) content = nullptr;
  if (content != nullptr) {
    list.fault = FeedFault{fmt::format("is {}, no list of addresses", content->what), content->hint};
  }
  if (format_ == nullptr) {
    Recognised recognised = content == nullptr ? recognise(beginning) : Recognised{&plain_format(), ""};
    format_ = recognised.format;
    why_ = std::move(recognised.why);
    if (recognised.fault) list.fault = std::move(recognised.fault);
  }
  const bool may_be_prose = format_ == &plain_format() || format_ == find_format("csv");
  if (may_be_prose && !list.fault) list.fault = error_answer(beginning);
  list.feed.format = format_->name;
  list.feed.why = why_;
  read_ = format_->start(options_, beginning);
}

void Reading::take_text(std::string_view text, ListDraft& list) {
  if (list.fault) return;
  if (has_begun_) return take_parts(text, list);
  if (beginning_.size() + text.size() < kBeginningBytes) {
    beginning_ += text;
    return;
  }
  take_beginning(text, list);
}

// behind: what follows the text that was kept.
void Reading::take_beginning(std::string_view behind, ListDraft& list) {
  std::string kept = std::exchange(beginning_, {});
  if (!kept.empty()) kept += behind;
  std::string_view text = kept.empty() ? behind : std::string_view(kept);
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  begin(list, text);
  if (!list.fault && !text.empty()) take_parts(text, list);
}

void Reading::take_parts(std::string_view text, ListDraft& list) {
  ends_in_newline_ = text.back() == '\n';
  if (format_->parts == Parts::bytes) return read_(text, list);
  take_lines(text, list);
}

void Reading::take_lines(std::string_view text, ListDraft& list) {
  if (had_return_) lone_returns_ += text[0] != '\n' && text[0] != '\r';
  for (size_t at = text.find('\r'); at != std::string_view::npos; at = text.find('\r', at + 1)) {
    lone_returns_ += at + 1 < text.size() && text[at + 1] != '\n' && text[at + 1] != '\r';
  }
  had_return_ = text.back() == '\r';

  if (skipping_) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
    skipping_ = false;
  }
  if (!rest_.empty()) {
    const size_t end = text.find('\n');
    const size_t more = end == std::string_view::npos ? text.size() : end + 1;
    rest_.append(text.substr(0, more));
    text.remove_prefix(more);
    if (end == std::string_view::npos && rest_.size() < kMostTextBytes) return;
    skipping_ = end == std::string_view::npos;
    read_(std::string_view(rest_).substr(0, std::min(rest_.size(), kMostTextBytes)), list);
    rest_.clear();
  }
  const size_t last = text.rfind('\n');
  const size_t whole = last == std::string_view::npos ? 0 : last + 1;
  if (whole != 0) read_(text.substr(0, whole), list);
  rest_.assign(text.substr(whole));
  if (rest_.size() < kMostTextBytes) return;
  skipping_ = true;
  read_(rest_, list);
  rest_.clear();
}

void Reading::end(ListDraft& list) {
  if (!has_begun_ && !list.fault) take_beginning({}, list);
  if (list.fault) return;
  if (!rest_.empty()) read_(rest_, list);
  rest_.clear();
  read_({}, list);
  const uint64_t newlines = list.feed.lines - (ends_in_newline_ ? 0 : 1);
  if (list.fault || format_->parts != Parts::lines || lone_returns_ <= newlines) return;
  list.fault = FeedFault{
      fmt::format("ends its lines by CR alone ({} CR, {} LF): to weir all is one line", lone_returns_, newlines),
      "end lines by LF: tr '\\r' '\\n'"};
}

}  // namespace weir::control::feeds
