#include "common/yaml/yaml.h"

#include <algorithm>
#include <exception>
#include <new>
#include <unordered_map>

#include "common/files.h"
#include "common/printable.h"

namespace weir::yaml {
namespace {

constexpr size_t kMaxFileBytes = size_t{64} << 20;
// Nested deeper than any policy, and far from yaml-cpp's own guard (500 levels of recursion).
constexpr size_t kMaxDepth = 64;
// Nodes copied for anchors and aliases: nine lines of them can ask for a billion.
constexpr size_t kMaxCopies = size_t{1} << 20;
// The same in bytes of memory: a long text that is copied often is few nodes.
constexpr size_t kMaxCopiedBytes = size_t{128} << 20;
// Longer source lines are cut in messages.
constexpr size_t kShownLine = 200;

// Thrown by Builder through whoever parses, caught where that was called: nothing else throws here.
struct Stop {
  uint32_t line, column;
  std::string message, hint;
};

// The same: no YAML text gives such events.
struct Senseless {};

// yaml-cpp takes 0x04 for the end of the file and guesses UTF-16 from NULs: neither gets that far.
bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t' && c != '\n' && c != '\r') || byte == 0x7f;
}

std::string syntax_hint(const std::string& source_line) {
  const size_t text = source_line.find_first_not_of(" \t");
  if (source_line.substr(0, text).find('\t') != std::string::npos) return "indent with blanks, never with tabs";
  if (source_line.find("::") != std::string::npos || source_line.find("]:") != std::string::npos) {
    return "put quotes around an IPv6 address that has brackets or ends in a colon";
  }
  return "look at indentation, quotes and brackets here and on the line before";
}

// Makes the tree of one document from events. Events that no YAML text of this size can have end it, too: they may come
// from a process that somebody took over.
class Builder {
 public:
  Builder(Document& document, Diagnostics& diagnostics) : document_(document), diagnostics_(diagnostics) {}

  void take(const Event& event) {
    refuse_senseless(event);
    switch (event.kind) {
      case Event::Kind::document:
        if (documents_++ == 0) return;
        stop(event, "more text after the end of the YAML document",
             "a file holds one document: look for a stray bracket or a second `---`");
      case Event::Kind::null:
        return take_null(event);
      case Event::Kind::scalar:
        return take_scalar(event);
      case Event::Kind::alias:
        return take_alias(event);
      case Event::Kind::sequence:
        return begin(Kind::sequence, event);
      case Event::Kind::map:
        return begin(Kind::map, event);
      case Event::Kind::sequence_end:
      case Event::Kind::map_end:
        return end();
      case Event::Kind::end:
        is_complete_ = true;
        return;
      case Event::Kind::error:
        throw Stop{event.line, event.column, "not YAML: " + shortened(event.text, kShownLine),
                   syntax_hint(document_.source_line(event.line))};
      case Event::Kind::no_memory:
        throw std::bad_alloc();
    }
  }

  bool is_complete() const { return is_complete_; }

 private:
  struct Open {  // a sequence or map that has not ended yet
    Node node;
    uint32_t anchor;
    bool has_key = false;  // map: key waits for its value
    Node key = {};
  };

  [[noreturn]] static void stop(const Event& at, const char* message, const char* hint) {
    throw Stop{at.line, at.column, message, hint};
  }

  // `[:,:]` says four things with two bytes; a scalar may be longer than it is written ("\L" are three bytes), and
  // UTF-16 is read, too.
  void refuse_senseless(const Event& event) {
    constexpr size_t kSome = 1024;
    const size_t written = document_.text.size();
    const bool is_node = event.kind >= Event::Kind::null && event.kind <= Event::Kind::map;
    const bool ends_node = event.kind == Event::Kind::sequence_end || event.kind == Event::Kind::map_end;
    text_bytes_ += event.text.size();
    bool is_sound = ++events_ <= 4 * written + kSome && text_bytes_ <= 2 * written + kSome &&
                    event.line <= document_.line_starts.size() && !is_complete_;
    // A node lies in a document, which is one node, and after the end of one nothing but another one comes.
    if (is_node) is_sound = is_sound && documents_ != 0 && (!open_.empty() || !has_root_);
    if (is_node && event.kind != Event::Kind::null) is_sound = is_sound && event.line != 0;
    if (ends_node) {
      const Kind ended = event.kind == Event::Kind::map_end ? Kind::map : Kind::sequence;
      is_sound = is_sound && !open_.empty() && open_.back().node.kind == ended && !open_.back().has_key;
    }
    if (event.kind == Event::Kind::end || event.kind == Event::Kind::document) is_sound = is_sound && open_.empty();
    if (!is_sound) throw Senseless{};
  }

  void take_scalar(const Event& event) {
    Node node = make(Kind::scalar, event);
    refuse_tag(event);
    node.quoted = event.tag == Event::Tag::quotes;
    node.text = event.text;
    add(std::move(node), event.anchor);
  }

  // yaml-cpp tells a plain `null` or `~` as it tells a value that is missing. Scalars are text: only the text itself
  // says which of both it is. The place of a missing value is that of its key, or of the token behind it.
  void take_null(const Event& event) {
    Node node = make(Kind::null, event);
    const std::string_view word = null_word(text_at(event), expects_key());
    const bool is_map = !open_.empty() && open_.back().node.kind == Kind::map;
    const bool is_its_key =
        is_map && !expects_key() && open_.back().key.line == event.line && open_.back().key.column == event.column;
    if (!word.empty() && !is_its_key) {
      node.kind = Kind::scalar;
      node.text = word;
    }
    add(std::move(node), event.anchor);
  }

  // The text of the file at the event's place, without the event's anchor.
  std::string_view text_at(const Event& event) const {
    constexpr std::string_view kBlanks = " \t\r\n", kMark = "\xef\xbb\xbf";
    if (event.line == 0) return {};
    std::string_view text = std::string_view(document_.text).substr(document_.line_starts[event.line - 1]);
    if (event.line == 1 && text.starts_with(kMark)) text.remove_prefix(kMark.size());
    text.remove_prefix(std::min<size_t>(event.column - 1, text.size()));
    if (!text.starts_with('&')) return text;
    text.remove_prefix(std::min(text.find_first_of(kBlanks), text.size()));
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    return text;
  }

  // The word that YAML takes for null and that the text begins with; empty: there is none. As a value it is none, when
  // a colon makes it the next key.
  static std::string_view null_word(std::string_view text, bool is_key) {
    for (const std::string_view word : {"null", "Null", "NULL", "~"}) {
      if (!text.starts_with(word)) continue;
      const size_t next = text.find_first_not_of(" \t", word.size());
      const bool is_next_key = next != text.npos && text[next] == ':';
      return is_key || !is_next_key ? word : std::string_view();
    }
    return {};
  }

  void take_alias(const Event& event) {
    const auto found = anchors_.find(event.anchor);
    if (found == anchors_.end()) stop(event, "the alias names a node that it is part of", "write the value out");
    count_copy(found->second, open_.size(), event);
    Node node = found->second;
    node.line = event.line;
    node.column = event.column;
    add(std::move(node), 0);
  }

  static void refuse_tag(const Event& event) {
    if (event.tag != Event::Tag::other) return;
    stop(event, "YAML tags (`!name`) have no meaning here", "write the value without the tag");
  }

  // Counts a copy of node that will stand inside depth open nodes.
  void count_copy(const Node& node, size_t depth, const Event& at) {
    if (depth > kMaxDepth) stop_too_deep(at);
    if (++copies_ > kMaxCopies) stop(at, "aliases ask for more than 1048576 values", "use fewer, or a feed (`file:`)");
    copied_bytes_ += sizeof node + node.text.size();
    for (const auto& [key, value] : node.members) copied_bytes_ += sizeof key + key.text.size();
    if (copied_bytes_ > kMaxCopiedBytes)
      stop(at, "aliases ask for more than 128 MiB of copies", "use fewer, or a feed (`file:`)");
    for (const Node& item : node.items) count_copy(item, depth + 1, at);
    for (const auto& [key, value] : node.members) count_copy(value, depth + 1, at);
  }

  [[noreturn]] static void stop_too_deep(const Event& at) {
    stop(at, "nested more than 64 deep", "look for brackets that are never closed");
  }

  static Node make(Kind kind, const Event& event) {
    Node node;
    node.kind = kind;
    node.line = event.line;
    node.column = event.column;
    return node;
  }

  void begin(Kind kind, const Event& event) {
    if (open_.size() >= kMaxDepth) stop_too_deep(event);
    refuse_tag(event);
    Node node = make(kind, event);
    if (expects_key()) refuse_key(node);
    open_.push_back(Open{std::move(node), event.anchor});
  }

  void end() {
    Open done = std::move(open_.back());
    open_.pop_back();
    if (done.node.kind == Kind::map) drop_duplicates(done.node);
    add(std::move(done.node), done.anchor);
  }

  bool expects_key() const { return !open_.empty() && open_.back().node.kind == Kind::map && !open_.back().has_key; }

  [[noreturn]] static void refuse_key(const Node& node) {
    throw Stop{node.line, node.column, "a key must be a plain text",
               "write `key: value`; put quotes around a value with brackets or colons"};
  }

  void add(Node node, uint32_t anchor) {
    if (anchor != 0) {
      count_copy(node, open_.size(), {});
      anchors_[anchor] = node;
    }
    if (open_.empty()) {
      document_.root = std::move(node);
      has_root_ = true;
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == Kind::sequence) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.has_key) {
      if (node.kind != Kind::scalar) refuse_key(node);
      parent.key = std::move(node);
      parent.has_key = true;
    } else {
      parent.node.members.push_back({std::move(parent.key), std::move(node)});
      parent.has_key = false;
    }
  }

  // The first of several members with one key stays, each later one is an error that names both lines.
  void drop_duplicates(Node& map) {
    std::unordered_map<std::string, uint32_t> line_of_key;
    std::erase_if(map.members, [&](const Member& member) {
      const Node& key = member.key;
      const auto [known, is_new] = line_of_key.emplace(key.text, key.line);
      if (is_new) return false;
      diagnostics_.add({Severity::error, document_.where(key),
                        "duplicate key `" + key.text + "`: it is on line " + std::to_string(known->second) +
                            " and again on line " + std::to_string(key.line),
                        document_.source_line(key.line), "keep one of them"});
      return true;
    });
  }

  Document& document_;
  Diagnostics& diagnostics_;
  std::vector<Open> open_;
  std::unordered_map<uint32_t, Node> anchors_;
  size_t copies_ = 0, copied_bytes_ = 0;
  size_t documents_ = 0, events_ = 0, text_bytes_ = 0;
  bool has_root_ = false, is_complete_ = false;
};

Diagnostic error_at(const Document& document, uint32_t line, uint32_t column, std::string message, std::string hint) {
  return {Severity::error, Location{document.path, line, column}, std::move(message), document.source_line(line),
          std::move(hint)};
}

std::optional<Diagnostic> find_control_character(const Document& document) {
  const std::string& text = document.text;
  const auto bad = std::find_if(text.begin(), text.end(), is_control);
  if (bad == text.end()) return std::nullopt;
  const auto offset = static_cast<uint32_t>(bad - text.begin());
  const auto& starts = document.line_starts;
  const auto line = static_cast<uint32_t>(std::upper_bound(starts.begin(), starts.end(), offset) - starts.begin());
  return error_at(document, line, offset - starts[line - 1] + 1,
                  "control character " + std::to_string(static_cast<unsigned char>(*bad)) + " in the file",
                  "save the file as UTF-8 text");
}

}  // namespace

namespace {

// User and password of an url are nobody's who reads messages: `https://...@example.net/`.
void hide_users(std::string& line) {
  constexpr std::string_view kBefore = "://";
  for (size_t at = 0; (at = line.find(kBefore, at)) != std::string::npos;) {
    at += kBefore.size();
    const size_t end = std::min(line.find_first_of("/?#\"' \t,}", at), line.size());
    const size_t host = line.rfind('@', end);
    if (host != std::string::npos && host >= at) line.replace(at, host - at, "...");
  }
}

}  // namespace

std::string Document::source_line(uint32_t line) const {
  if (line == 0 || line > line_starts.size()) return "";
  const size_t begin = line_starts[line - 1];
  std::string found = text.substr(begin, text.find('\n', begin) - begin);
  if (!found.empty() && found.back() == '\r') found.pop_back();
  if (line == 1 && found.starts_with("\xef\xbb\xbf")) found.erase(0, 3);
  hide_users(found);
  if (found.size() > kShownLine) found = shortened(found, kShownLine) + "...";
  return found;
}

std::optional<Document> read_document(const std::string& path, Diagnostics& diagnostics, const Parse& parse) {
  Result<std::string> text = read_file(path, kMaxFileBytes);
  if (!text) {
    diagnostics.add({Severity::error, {path}, text.error(), "", "name a YAML file that can be read"});
    return std::nullopt;
  }
  return parse_document(path, std::move(*text), diagnostics, parse);
}

std::optional<Document> parse_document(std::string path, std::string text, Diagnostics& diagnostics,
                                       const Parse& parse) {
  Document document{std::move(path), std::move(text), {0}, {}};
  if (document.text.size() > kMaxFileBytes) {
    diagnostics.add(
        {Severity::error, {document.path}, "the file is larger than 64 MiB", "", "move entries to feeds (`file:`)"});
    return std::nullopt;
  }
  for (size_t at = 0; (at = document.text.find('\n', at)) != std::string::npos;) {
    document.line_starts.push_back(static_cast<uint32_t>(++at));
  }
  if (auto bad = find_control_character(document)) {
    diagnostics.add(std::move(*bad));
    return std::nullopt;
  }
  Builder builder(document, diagnostics);
  Error error;
  std::string hint = "what is enforced stays; the kernel's log (journalctl -k) says when it ended a process";
  try {
    const Result<void> parsed = parse(document.text, [&](const Event& event) { builder.take(event); });
    if (parsed && builder.is_complete()) return document;
    error.message = parsed ? "the process that parses it came to no end" : parsed.error();
  } catch (const Stop& stop) {
    diagnostics.add(error_at(document, stop.line, stop.column, stop.message, stop.hint));
    return std::nullopt;
  } catch (const Senseless&) {
    error.message = kNoEvents;
  } catch (const std::bad_alloc&) {
    error.message = "it takes more memory than there is for it", hint = "move entries to feeds (`file:`)";
  } catch (const std::exception& e) {
    error.message = e.what(), hint = "";
  }
  diagnostics.add({Severity::error, {document.path}, "cannot read this YAML: " + error.message, "", hint});
  return std::nullopt;
}

}  // namespace weir::yaml
