#include "control/read/feeds/apart.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weir::control::feeds {

namespace {

static_assert(sizeof(Entry<Ipv4>) <= sizeof(Entry<Ipv6>));
constexpr uint64_t kMostParserMemory = uint64_t{256} << 20;
constexpr std::chrono::seconds kMostTime{30};  // for a part of a feed; some milliseconds are enough
constexpr uint32_t kCpuSeconds = 3600;         // for a feed
constexpr size_t kMostSamples = ParseAnswer::kMostSamples, kMostSampleText = ParseAnswer::kMostText;

template <class Addr>
void copy_out(std::byte* to, const std::vector<Entry<Addr>>& entries) {
  if (!entries.empty()) memcpy(static_cast<void*>(to), entries.data(), entries.size() * sizeof(Entry<Addr>));
}

void copy_text(char (&to)[kMostSampleText + 1], const std::string& text) {
  memset(to, 0, sizeof to);
  text.copy(to, kMostSampleText);
}

// --- in the parser ---

bool answer_one(int socket, std::span<std::byte> shared) {
  ParseRequest ask = {};
  if (confine::hear(socket, std::as_writable_bytes(std::span(&ask, 1))) != sizeof ask) return false;  // nobody asks
  if (ask.format >= formats().size() || ask.text_bytes > kMostTextBytes || ask.area > 1) return false;
  ListDraft draft;
  draft.feed.lines = ask.lines;
  const std::string_view text(reinterpret_cast<const char*>(shared.data()), ask.text_bytes);
  formats()[ask.format].read(text, {ask.directions, ask.allow_any != 0}, draft);
  ParseAnswer answer = {};
  answer.lines = draft.feed.lines - ask.lines;
  answer.bad = draft.feed.bad;
  answer.n_v4 = static_cast<uint32_t>(draft.v4.size());
  answer.n_v6 = static_cast<uint32_t>(draft.v6.size());
  if (draft.v4.size() + draft.v6.size() > kMostEntries) return false;
  std::byte* entries = shared.data() + kMostTextBytes + ask.area * kAreaBytes;
  copy_out(entries, draft.v6);
  copy_out(entries + draft.v6.size() * sizeof(Entry<Ipv6>), draft.v4);
  answer.n_samples = static_cast<uint32_t>(std::min(draft.feed.samples.size(), kMostSamples));
  for (uint32_t i = 0; i < answer.n_samples; i++) {
    answer.samples[i].line = draft.feed.samples[i].line;
    copy_text(answer.samples[i].text, draft.feed.samples[i].text);
    copy_text(answer.samples[i].reason, draft.feed.samples[i].reason);
  }
  return confine::tell(socket, std::as_bytes(std::span(&answer, 1)));
}

void parse(int socket, std::span<std::byte> shared) {
  while (answer_one(socket, shared)) {
  }
}

// --- in controld, who believes nothing ---

constexpr const char* kSenseless = "the process that parses it gave what no feed holds";

std::string printable(const char (&text)[kMostSampleText + 1]) {
  std::string result(text, strnlen(text, kMostSampleText));
  for (char& c : result) {
    if (c < ' ' || c > '~') c = '?';
  }
  return result;
}

// As a feed's entry may be, with these options.
template <class Addr>
bool is_sound(const Entry<Addr>& entry, const Options& options, uint64_t lines_before, uint64_t lines) {
  const bool is_any = entry.first == 0 && entry.last == static_cast<Addr>(~Addr{0});
  return entry.first <= entry.last && (!is_any || options.allow_any) && entry.directions == options.directions &&
         entry.source == 1 && entry.expires == kNever && entry.line > lines_before &&
         entry.line <= lines_before + lines;
}

// The copy is judged, not what the process may still change.
template <class Addr>
bool take_entries(const std::byte* from, uint32_t n, const Options& options, uint64_t lines_before, uint64_t lines,
                  std::vector<Entry<Addr>>& to) {
  const size_t had = to.size();
  const auto* entries = reinterpret_cast<const Entry<Addr>*>(from);
  to.insert(to.end(), entries, entries + n);
  return std::all_of(to.begin() + static_cast<ptrdiff_t>(had), to.end(),
                     [&](const Entry<Addr>& entry) { return is_sound(entry, options, lines_before, lines); });
}

}  // namespace

const confine::Job kParseJob = {"weir-feed", kCpuSeconds, parse};

Result<ParseAnswer> Parser::receive() {
  ParseAnswer answer = {};
  if (!std::exchange(part_.is_asked, false)) return answer;
  const Result<size_t> got = confine::receive(helper_, std::as_writable_bytes(std::span(&answer, 1)),
                                              std::chrono::steady_clock::now() + kMostTime);
  if (!got) return Error{got.error()};
  const uint64_t entries = uint64_t{answer.n_v4} + answer.n_v6;
  const bool is_sound = *got == sizeof answer && answer.lines <= part_.text_bytes && entries <= kMostEntries &&
                        answer.bad <= answer.lines && answer.n_samples <= kMostSamples;
  return is_sound ? Result<ParseAnswer>(answer) : Result<ParseAnswer>(Error{kSenseless});
}

Result<void> Parser::take(const ParseAnswer& answer, const Part& part, ListDraft& list) const {
  const uint64_t before = list.feed.lines;
  const std::byte* from = helper_.shared.bytes().data() + kMostTextBytes + part.area * kAreaBytes;
  if (!take_entries(from, answer.n_v6, part.options, before, answer.lines, list.v6) ||
      !take_entries(from + answer.n_v6 * sizeof(Entry<Ipv6>), answer.n_v4, part.options, before, answer.lines,
                    list.v4)) {
    return Error{kSenseless};
  }
  list.feed.lines += answer.lines;
  list.feed.entries += uint64_t{answer.n_v4} + answer.n_v6;
  list.feed.bad += answer.bad;
  for (uint32_t i = 0; i < answer.n_samples && list.feed.samples.size() < kMostSamples; i++) {
    const ParseAnswer::Sample& sample = answer.samples[i];
    list.feed.samples.push_back({sample.line, printable(sample.text), printable(sample.reason)});
  }
  return {};
}

Result<void> Parser::read(const Format& format, std::string_view text, const Options& options, ListDraft& list) {
  if (text.size() > kMostTextBytes) return Error{"a part of a feed is too long for its parser"};
  const Result<ParseAnswer> answer = receive();  // after it the process reads no text any more
  if (!answer) return Error{answer.error()};
  const Part before = part_;
  part_ = {options, text.size(), 1 - before.area, false};
  memcpy(helper_.shared.bytes().data(), text.data(), text.size());
  const ParseRequest ask = {static_cast<uint32_t>(&format - formats().data()),
                            static_cast<uint32_t>(text.size()),
                            list.feed.lines + answer->lines,
                            part_.area,
                            options.directions,
                            static_cast<uint8_t>(options.allow_any)};
  if (const Result<void> asked = confine::ask(helper_, std::as_bytes(std::span(&ask, 1))); !asked) return asked;
  part_.is_asked = true;
  return take(*answer, before, list);
}

Result<void> Parser::finish(ListDraft& list) {
  const Result<ParseAnswer> answer = receive();
  if (!answer) return Error{answer.error()};
  return take(*answer, part_, list);
}

Result<Parser> Parser::make(const confine::Helpers& helpers) {
  Result<confine::Helper> helper = helpers.make(kParseJob, kSharedBytes, kMostParserMemory);
  if (!helper) return Error{helper.error()};
  return Parser(std::move(*helper));
}

}  // namespace weir::control::feeds
