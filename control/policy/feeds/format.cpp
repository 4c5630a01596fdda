#include "control/policy/feeds/format.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "control/policy/feeds/json_records.h"
#include "control/policy/feeds/structures.h"
#include "control/policy/feeds/take.h"
#include "control/policy/feeds/words.h"

namespace weir::control::feeds {

// In the order of formats().
#define WEIR_FEED_FORMATS(row)                                                                                         \
  row(Spamhaus) row(Stix) row(MispEvent) row(Aws) row(Gcp) row(Azure) row(Cloudflare) row(Fastly) row(Github)          \
      row(Oracle) row(CrowdSec) row(Misp) row(JsonLines) row(Json) row(Rir) row(Suricata) row(Mikrotik) row(HostsDeny) \
          row(Rbldnsd) row(Ipset) row(Nft) row(Nginx) row(IpRoute) row(Zeek) row(P2p) row(Dat) row(Access) row(Iprep)  \
              row(Csv) row(Plain)

#define WEIR_DECLARE_FORMAT(name) extern const Format k##name##Format;
WEIR_FEED_FORMATS(WEIR_DECLARE_FORMAT)
#undef WEIR_DECLARE_FORMAT

namespace {

#define WEIR_FORMAT_ROW(name) &k##name##Format,
constexpr const Format* kFormats[] = {WEIR_FEED_FORMATS(WEIR_FORMAT_ROW)};
#undef WEIR_FORMAT_ROW

}  // namespace

std::span<const Format* const> formats() {
  return kFormats;
}

const Format& plain_format() {
  return kPlainFormat;
}

const Format* find_format(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Format* f) { return f->name == name; });
  return found == std::end(kFormats) ? nullptr : *found;
}

Recognised recognise(std::string_view beginning) {
  for (const Format* format : kFormats) {
    // Formats of words and names take lines of structures; those behind it take whatever has columns or lines.
    const bool is_asked = format == &kIpsetFormat || format == &kAccessFormat;
    if (is_asked) {
      const Share share = format == &kIpsetFormat ? Share::most : Share::entries;
      if (auto fault = structure_fault(beginning, share)) {
        return {&kPlainFormat, "", std::move(fault)};
      }
    }
    if (std::string why = format->recognise(beginning); !why.empty()) return {format, std::move(why)};
  }
  return {&kPlainFormat, "it looks like no other format"};
}

std::string_view find_setting(std::string_view settings, std::string_view name) {
  while (!settings.empty()) {
    const size_t end = std::min(settings.find(','), settings.size());
    const std::string_view one = settings.substr(0, end);
    settings.remove_prefix(std::min(end + 1, settings.size()));
    const size_t equals = one.find('=');
    if (equals != std::string_view::npos && one.substr(0, equals) == name) return one.substr(equals + 1);
  }
  return {};
}

void read_text(const Format& format, std::string_view text, const Options& options, ListDraft& list) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const Read read = format.start(options, text);
  if (!text.empty()) read(text, list);
  read({}, list);
}

namespace {

using namespace std::string_view_literals;  // with NULs in them

struct Magic {
  size_t offset;
  std::string_view bytes;
  Content content;
};

constexpr const char* kUnpack = "unpack it before weir reads it";
constexpr const char* kOther = "name the file that holds the addresses";
constexpr const char* kAsText = "save it as UTF-8 text";
constexpr const char* kPage = "an error page, or a list for people: look for the address of the list itself";
constexpr const char* kStructured = "take the list as plain text, an entry a line";

// The numbers of file(1).
constexpr Magic kMagics[] = {
    {0, "\x1f\x8b"sv, {"gzip data", "pack it once"}},
    {0, "PK\x03\x04"sv, {"a zip archive", "unpack it before weir reads it: unzip"}},
    {0, "PK\x05\x06"sv, {"an empty zip archive", kOther}},
    {0,
     "\xfd"
     "7zXZ\0"sv,
     {"xz data", "pack it once"}},
    {0, "\x28\xb5\x2f\xfd"sv, {"zstd data", "pack it once"}},
    {0, "BZh"sv, {"bzip2 data", "unpack it before weir reads it: bzip2 -d"}},
    {0, "7z\xbc\xaf\x27\x1c"sv, {"a 7z archive", kUnpack}},
    {0, "Rar!\x1a\x07"sv, {"a RAR archive", kUnpack}},
    {0, "\x04\x22\x4d\x18"sv, {"lz4 data", kUnpack}},
    {0, "\x1f\x9d"sv, {"compress data", kUnpack}},
    {0, "LZIP"sv, {"lzip data", kUnpack}},
    {257, "ustar"sv, {"a tar archive", "unpack it before weir reads it: tar -x"}},
    {0, "%PDF-"sv, {"a PDF document", kOther}},
    {0,
     "\x7f"
     "ELF"sv,
     {"a program", kOther}},
    {0, "SQLite format 3\0"sv, {"an SQLite database", kOther}},
    {0, "\xff\xfe\0\0"sv, {"UTF-32 text", kAsText}},
    {0, "\0\0\xfe\xff"sv, {"UTF-32 text", kAsText}},
    {0, "\xff\xfe"sv, {"UTF-16 text", kAsText}},
    {0, "\xfe\xff"sv, {"UTF-16 text", kAsText}},
};

constexpr Content kUtf16 = {"UTF-16 text", kAsText};
constexpr Content kBinary = {"binary data", kOther};
constexpr Content kHtml = {"an HTML page", kPage};
constexpr Content kXml = {"XML", kStructured};
constexpr Content kJson = {"JSON", "name a format that reads it: `controlctl formats`", true};

std::string_view without_blanks(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n\v\f");
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

// Text has NULs in remarks at most. Every second byte: letters of UTF-16.
const Content* content_by_nuls(std::string_view beginning) {
  constexpr size_t kLooked = 1024;
  const std::string_view text = beginning.substr(0, kLooked);
  size_t nuls[2] = {};
  for (size_t i = 0; i < text.size(); i++) nuls[i % 2] += text[i] == '\0';
  if ((nuls[0] + nuls[1]) * 4 < text.size() || text.empty()) return nullptr;
  return std::min(nuls[0], nuls[1]) * 8 < std::max(nuls[0], nuls[1]) ? &kUtf16 : &kBinary;
}

const Content* markup_in(std::string_view text) {
  if (text.size() < 2 || text[0] != '<') return nullptr;
  const bool is_letter = (text[1] >= 'a' && text[1] <= 'z') || (text[1] >= 'A' && text[1] <= 'Z');
  if (!is_letter && text[1] != '!' && text[1] != '?') return nullptr;
  std::string head(text);
  std::transform(head.begin(), head.end(), head.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  for (const char* tag : {"<!doctype html", "<html", "<head", "<body"}) {
    if (head.find(tag) != std::string::npos) return &kHtml;
  }
  return &kXml;
}

// --- answers in prose ---

// So an answer is worded that holds no list. The last ones are remarks of lists, too: they count on lines without
// entry.
constexpr std::string_view kErrorPhrases[] = {"too many requests",
                                              "rate limit",
                                              "ratelimit",
                                              "rate-limit",
                                              "quota",
                                              "access denied",
                                              "unauthorized",
                                              "unauthorised",
                                              "not authorized",
                                              "not authorised",
                                              "not authenticated",
                                              "not allowed to",
                                              "not permitted",
                                              "permission denied",
                                              "authentication",
                                              "service unavailable",
                                              "temporarily unavailable",
                                              "bad gateway",
                                              "gateway time",
                                              "internal server error",
                                              "try again",
                                              "retry later",
                                              "retry after",
                                              "retry-after",
                                              "api key",
                                              "api-key",
                                              "apikey",
                                              "invalid key",
                                              "invalid token",
                                              "log in",
                                              "login required",
                                              "has been blocked",
                                              "have been blocked",
                                              "your ip",
                                              "your address",
                                              "maintenance",
                                              "captcha",
                                              "throttl",
                                              "payment required",
                                              "moved permanently",
                                              "http/1.",
                                              "http/2",
                                              "limit exceeded",
                                              "exceeded the",
                                              "license",
                                              "licence",
                                              "contact support",
                                              "bitte warten",
                                              "berschritten",
                                              "patientez",
                                              "intente",
                                              "zu viele anfragen",
                                              "zugriff verweigert",
                                              "nicht erlaubt",
                                              "trop de requ",
                                              "acces refuse",
                                              "demasiadas",
                                              "acceso denegado"};
constexpr std::string_view kWeakErrorPhrases[] = {"error",    "forbidden", "denied",      "not found", "expired",
                                                  "exceeded", "invalid",   "failed",      "blocked",   "subscri",
                                                  "fehler",   "erreur",    "unavailable", "timed out"};

bool begins_with_status(std::string_view line) {
  return line.size() > 4 && (line[0] == '4' || line[0] == '5') && is_number(line.substr(0, 3)) && line[3] == ' ';
}

size_t words_in(std::string_view text) {
  size_t words = 0;
  while (!next_word(text).empty()) words++;
  return words;
}

}  // namespace

std::optional<FeedFault> error_answer(std::string_view text) {
  constexpr size_t kLongestAnswer = 4096, kFewEntries = 3, kProse = 3;
  if (text.size() > kLongestAnswer) return std::nullopt;
  size_t entries = 0, lines = 0;
  std::string_view error;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = trim(next_line(rest));
    if (line.starts_with("//") || line.starts_with('!')) continue;
    line = trim(line.substr(0, line.find_first_of("#;")));
    if (line.empty()) continue;
    std::string_view further = line;
    const std::string_view first = next_word(further);
    const std::string_view field = first.substr(0, first.find_first_of(",|"));
    const bool is_row = field.size() < first.size();  // of a table, whose fields are anybody's words
    const bool has_entry = is_entry(field);
    entries += has_entry;
    lines++;
    if (has_entry && is_row) continue;
    const std::string small = lower(line);
    const bool says = has_entry ? words_in(further) >= (lines == 1 && rest.empty() ? 2 : kProse) &&
                                      words::holds_one_of(small, kErrorPhrases)
                                : words::holds_one_of(small, kErrorPhrases) || begins_with_status(line) ||
                                      (words_in(line) > 1 && words::holds_one_of(small, kWeakErrorPhrases));
    if (says && error.empty()) error = line;
  }
  if (error.empty() || entries > kFewEntries) return std::nullopt;
  return FeedFault{"is an error answer, no list: " + shortened(error, 100),
                   "look at what its server says, and at the address of the list"};
}

const Content* content_of(std::string_view beginning) {
  for (const Magic& magic : kMagics) {
    if (beginning.size() > magic.offset && beginning.substr(magic.offset).starts_with(magic.bytes)) {
      return &magic.content;
    }
  }
  if (const Content* content = content_by_nuls(beginning)) return content;
  if (beginning.starts_with("\xef\xbb\xbf")) beginning.remove_prefix(3);
  const std::string_view text = without_blanks(beginning);
  if (const Content* content = markup_in(text)) return content;
  return begins_json(text) ? &kJson : nullptr;
}

}  // namespace weir::control::feeds
