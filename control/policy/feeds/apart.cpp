#include "control/policy/feeds/apart.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/clock.h"
#include "control/policy/feeds/take.h"

namespace weir::control::feeds {

namespace {

static_assert(sizeof(Entry<Ipv4>) <= sizeof(Entry<Ipv6>));
constexpr uint64_t kMostParserMemory = uint64_t{256} << 20;
constexpr std::chrono::seconds kMostTime{30};  // for a part of a feed; some milliseconds are enough
constexpr uint32_t kCpuSeconds = 3600;         // for a feed
constexpr size_t kMostSamples = ParseAnswer::kMostSamples;

template <class Addr>
void copy_out(std::byte* to, const std::vector<Entry<Addr>>& entries) {
  if (!entries.empty()) memcpy(static_cast<void*>(to), entries.data(), entries.size() * sizeof(Entry<Addr>));
}

template <size_t N>
void copy_text(char (&to)[N], const std::string& text) {
  memset(to, 0, N);
  text.copy(to, N - 1);
}

// --- in the parser ---

uint32_t place_of(const Format* format) {
  if (format == nullptr) return ParseRequest::kAuto;
  return static_cast<uint32_t>(std::find(formats().begin(), formats().end(), format) - formats().begin());
}

Reading begin_reading(const ParseRequest& ask) {
  Options options = {.directions = ask.directions, .allow_any = ask.allow_any != 0, .source = ask.source};
  options.action = ask.action == WEIR_PASS ? WEIR_PASS : WEIR_DROP;
  options.written = ask.written;
  options.settings.assign(ask.settings, strnlen(ask.settings, sizeof ask.settings));
  const Format* format = ask.format == ParseRequest::kAuto ? nullptr : formats()[ask.format];
  return Reading(format, std::move(options));
}

// draft: of the call before; it keeps its memory.
bool answer_one(int socket, std::span<std::byte> shared, std::optional<Reading>& reading, ListDraft& draft) {
  ParseRequest ask = {};
  if (confine::hear(socket, std::as_writable_bytes(std::span(&ask, 1))) != sizeof ask) return false;  // nobody asks
  if ((ask.format >= formats().size() && ask.format != ParseRequest::kAuto) || ask.bytes > kMostTextBytes ||
      ask.area > 1) {
    return false;
  }
  if (!reading) reading.emplace(begin_reading(ask));
  draft.v4.clear();
  draft.v6.clear();
  draft.feed = {};
  draft.fault.reset();
  draft.feed.lines = ask.lines;
  const std::string_view bytes(reinterpret_cast<const char*>(shared.data()), ask.bytes);
  ParseAnswer answer = {};
  answer.has_more = reading->read(bytes, ask.is_end != 0, draft);
  answer.lines = draft.feed.lines - ask.lines;
  answer.bad = draft.feed.bad;
  answer.skipped = draft.feed.skipped;
  answer.host_bits = draft.feed.host_bits;
  answer.n_v4 = static_cast<uint32_t>(draft.v4.size());
  answer.n_v6 = static_cast<uint32_t>(draft.v6.size());
  if (draft.v4.size() + draft.v6.size() > kMostEntries) return false;
  std::byte* entries = shared.data() + kMostTextBytes + ask.area * kAreaBytes;
  copy_out(entries, draft.v6);
  copy_out(entries + draft.v6.size() * sizeof(Entry<Ipv6>), draft.v4);
  answer.n_samples = static_cast<uint32_t>(std::min(draft.feed.samples.size(), kMostSamples));
  for (uint32_t i = 0; i < answer.n_samples; i++) {
    answer.samples[i].line = draft.feed.samples[i].line;
    answer.samples[i].kind = draft.feed.samples[i].kind;
    copy_text(answer.samples[i].text, draft.feed.samples[i].text);
    copy_text(answer.samples[i].reason, draft.feed.samples[i].reason);
  }
  answer.n_notes = static_cast<uint32_t>(std::min(draft.feed.notes.size(), ParseAnswer::kMostNotes));
  for (uint32_t i = 0; i < answer.n_notes; i++) {
    copy_text(answer.notes[i].reason, draft.feed.notes[i].reason);
    copy_text(answer.notes[i].hint, draft.feed.notes[i].hint);
  }
  answer.format = place_of(reading->format());
  answer.ends_in_newline = reading->ends_in_newline();
  copy_text(answer.why, reading->why());
  if (draft.fault) {
    answer.is_fault = 1;
    answer.is_cut_off = draft.fault->is_cut_off;
    copy_text(answer.fault, draft.fault->reason);
    copy_text(answer.hint, draft.fault->hint);
  }
  return confine::tell(socket, std::as_bytes(std::span(&answer, 1)));
}

void parse(int socket, std::span<std::byte> shared) {
  std::optional<Reading> reading;
  ListDraft draft;
  while (answer_one(socket, shared, reading, draft)) {
  }
}

// --- in controld, who believes nothing ---

constexpr const char* kSenseless = "the process that parses it gave what no feed holds";

template <size_t N>
std::string text_in(const char (&text)[N]) {
  return shortened({text, strnlen(text, N - 1)}, N);
}

// As a feed's entry may be, with these options.
template <class Addr>
bool is_sound(const Entry<Addr>& entry, const Options& options, uint64_t lines) {
  const bool is_any = entry.first == 0 && entry.last == static_cast<Addr>(~Addr{0});
  return entry.first <= entry.last && (!is_any || options.allow_any) && entry.directions == options.directions &&
         entry.source == options.source && entry.line >= 1 && entry.line <= lines + 1;  // the line may not be over yet
}

// The copy is judged, not what the process may still change.
template <class Addr>
bool take_entries(const std::byte* from, uint32_t n, const Options& options, uint64_t lines,
                  std::vector<Entry<Addr>>& to) {
  const size_t had = to.size();
  const auto* entries = reinterpret_cast<const Entry<Addr>*>(from);
  to.insert(to.end(), entries, entries + n);
  return std::all_of(to.begin() + static_cast<ptrdiff_t>(had), to.end(),
                     [&](const Entry<Addr>& entry) { return is_sound(entry, options, lines); });
}

}  // namespace

const confine::Job kParseJob = {"weir-feed", kCpuSeconds, parse};

Result<ParseAnswer> Parser::receive() const {
  ParseAnswer answer = {};
  const Result<size_t> got =
      confine::receive(helper_, std::as_writable_bytes(std::span(&answer, 1)), Clock::now() + kMostTime);
  if (!got) return Error{got.error()};
  const uint64_t entries = uint64_t{answer.n_v4} + answer.n_v6;
  const bool is_sound = *got == sizeof answer && answer.lines <= kMostAtOnce + 1 && entries <= kMostEntries &&
                        answer.bad <= kMostAtOnce && answer.skipped <= kMostAtOnce && answer.host_bits <= kMostAtOnce &&
                        answer.n_samples <= kMostSamples && answer.n_notes <= ParseAnswer::kMostNotes &&
                        std::all_of(answer.samples, answer.samples + std::min<size_t>(answer.n_samples, kMostSamples),
                                    [](const auto& sample) { return sample.kind < LineSample::kKinds; }) &&
                        (answer.format < formats().size() || answer.format == ParseRequest::kAuto);
  return is_sound ? Result<ParseAnswer>(answer) : Result<ParseAnswer>(Error{kSenseless});
}

Result<void> Parser::ask(uint32_t bytes, bool is_end, uint64_t lines) {
  ParseRequest request = {};
  request.format = place_of(how_.format);
  request.bytes = bytes;
  request.lines = lines;
  request.area = area_ = 1 - area_;
  request.written = how_.options.written;
  request.directions = how_.options.directions;
  request.source = how_.options.source;
  request.action = how_.options.action;
  request.allow_any = how_.options.allow_any;
  request.is_end = is_end;
  copy_text(request.settings, how_.options.settings);
  is_asked_ = true;
  return confine::ask(helper_, std::as_bytes(std::span(&request, 1)));
}

Result<void> Parser::take(const ParseAnswer& answer, uint32_t area, ListDraft& list) {
  const uint64_t lines = list.feed.lines + answer.lines;
  const std::byte* from = helper_.shared.bytes().data() + kMostTextBytes + area * kAreaBytes;
  if (!take_entries(from, answer.n_v6, how_.options, lines, list.v6) ||
      !take_entries(from + answer.n_v6 * sizeof(Entry<Ipv6>), answer.n_v4, how_.options, lines, list.v4)) {
    return Error{kSenseless};
  }
  list.feed.lines = lines;
  list.feed.entries += uint64_t{answer.n_v4} + answer.n_v6;
  list.feed.bad += answer.bad;
  list.feed.skipped += answer.skipped;
  list.feed.host_bits += answer.host_bits;
  for (uint32_t i = 0; i < answer.n_samples; i++) {
    const ParseAnswer::Sample& sample = answer.samples[i];
    keep_sample(list.feed, {sample.line, text_in(sample.text), text_in(sample.reason), sample.kind});
  }
  for (uint32_t i = 0; i < answer.n_notes; i++) {
    list.feed.notes.push_back({text_in(answer.notes[i].reason), text_in(answer.notes[i].hint)});
  }
  if (answer.format != ParseRequest::kAuto) list.feed.format = formats()[answer.format]->name;
  list.feed.why = text_in(answer.why);
  ends_in_newline_ = answer.ends_in_newline != 0;
  if (answer.is_fault != 0 && !list.fault)
    list.fault = FeedFault{text_in(answer.fault), text_in(answer.hint), answer.is_cut_off != 0};
  return {};
}

// Until the process has nothing more to read. Its last answer is not taken yet: its entries lie in area_.
Result<void> Parser::wait_for_last(ListDraft& list, std::optional<ParseAnswer>& last) {
  while (is_asked_) {
    const Result<ParseAnswer> answer = receive();
    if (!answer) return Error{answer.error()};
    is_asked_ = false;
    last = *answer;
    if (answer->has_more == 0) break;
    const uint32_t area = area_;
    if (auto asked = ask(0, is_end_, list.feed.lines + answer->lines); !asked) return asked;
    if (auto taken = take(*answer, area, list); !taken) return taken;
  }
  return {};
}

Result<void> Parser::read(std::string_view bytes, ListDraft& list) {
  if (bytes.size() > kMostTextBytes) return Error{"a part of a feed is too long for its parser"};
  std::optional<ParseAnswer> last;
  if (auto waited = wait_for_last(list, last); !waited) return waited;  // after it the process reads no bytes any more
  const uint32_t area = area_;
  memcpy(helper_.shared.bytes().data(), bytes.data(), bytes.size());
  const uint64_t lines = list.feed.lines + (last ? last->lines : 0);
  if (auto asked = ask(static_cast<uint32_t>(bytes.size()), false, lines); !asked) return asked;
  return last ? take(*last, area, list) : Result<void>();
}

Result<void> Parser::finish(ListDraft& list) {
  for (const bool is_end : {false, true}) {
    std::optional<ParseAnswer> last;
    if (auto waited = wait_for_last(list, last); !waited) return waited;
    if (last) {
      if (auto taken = take(*last, area_, list); !taken) return taken;
    }
    if (is_end) break;
    is_end_ = true;
    if (auto asked = ask(0, true, list.feed.lines); !asked) return asked;
  }
  return {};
}

Result<Parser> Parser::make(const confine::Helpers& helpers, How how) {
  if (how.options.settings.size() > ParseRequest::kMostSettings)
    return Error{"the settings of its format are too long"};
  Result<confine::Helper> helper = helpers.make(kParseJob, kSharedBytes, kMostParserMemory);
  if (!helper) return Error{helper.error()};
  return Parser(std::move(*helper), std::move(how));
}

}  // namespace weir::control::feeds
