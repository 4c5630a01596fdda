#include "common/yaml/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <exception>
#include <sstream>
#include <unordered_map>

#include "common/files.h"

namespace weir::yaml {
namespace {

constexpr size_t kMaxFileBytes = size_t{64} << 20;
// Nested deeper than any policy, and far from yaml-cpp's own guard (500 levels of recursion).
constexpr size_t kMaxDepth = 64;
// Nodes copied for anchors and aliases: nine lines of them can ask for a billion.
constexpr size_t kMaxCopies = size_t{1} << 20;
// Longer source lines are cut in messages.
constexpr size_t kShownLine = 200;

// Thrown by Builder through yaml-cpp, caught where yaml-cpp was called: nothing else throws here.
struct Stop {
  uint32_t line, column;
  const char* message;
  const char* hint;
};

// yaml-cpp counts from 0.
uint32_t line_of(const YAML::Mark& mark) {
  return mark.is_null() ? 0 : static_cast<uint32_t>(mark.line) + 1;
}
uint32_t column_of(const YAML::Mark& mark) {
  return mark.is_null() ? 0 : static_cast<uint32_t>(mark.column) + 1;
}

// Makes the tree of one document from yaml-cpp's events.
class Builder : public YAML::EventHandler {
 public:
  Builder(Document& document, Diagnostics& diagnostics) : document_(document), diagnostics_(diagnostics) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ == 0) return;
    stop(mark, "more text after the end of the YAML document",
         "a file holds one document: look for a stray bracket or a second `---`");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(make(Kind::null, mark), anchor); }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Node node = make(Kind::scalar, mark);
    refuse_tag(mark, tag);
    node.quoted = tag == "!";  // yaml-cpp's name for "in quotes, or a block scalar"
    node.text = value;
    add(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) stop(mark, "the alias names a node that it is part of", "write the value out");
    count_copy(found->second, open_.size(), mark);
    Node node = found->second;
    node.line = line_of(mark);
    node.column = column_of(mark);
    add(std::move(node), 0);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(Kind::sequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { end(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    begin(Kind::map, mark, tag, anchor);
  }
  void OnMapEnd() override { end(); }

 private:
  struct Open {  // a sequence or map that has not ended yet
    Node node;
    YAML::anchor_t anchor;
    bool has_key = false;  // map: key waits for its value
    Node key = {};
  };

  [[noreturn]] static void stop(const YAML::Mark& mark, const char* message, const char* hint) {
    throw Stop{line_of(mark), column_of(mark), message, hint};
  }

  static void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    stop(mark, "YAML tags (`!name`) have no meaning here", "write the value without the tag");
  }

  // Counts a copy of node that will stand inside depth open nodes.
  void count_copy(const Node& node, size_t depth, const YAML::Mark& mark) {
    if (depth > kMaxDepth) stop_too_deep(mark);
    if (++copies_ > kMaxCopies)
      stop(mark, "aliases ask for more than 1048576 values", "use fewer, or a feed (`file:`)");
    for (const Node& item : node.items) count_copy(item, depth + 1, mark);
    for (const auto& [key, value] : node.members) count_copy(value, depth + 1, mark);
  }

  [[noreturn]] static void stop_too_deep(const YAML::Mark& mark) {
    stop(mark, "nested more than 64 deep", "look for brackets that are never closed");
  }

  static Node make(Kind kind, const YAML::Mark& mark) {
    Node node;
    node.kind = kind;
    node.line = line_of(mark);
    node.column = column_of(mark);
    return node;
  }

  void begin(Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (open_.size() >= kMaxDepth) stop_too_deep(mark);
    refuse_tag(mark, tag);
    Node node = make(kind, mark);
    if (expects_key()) refuse_key(node);
    open_.push_back(Open{std::move(node), anchor});
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

  void add(Node node, YAML::anchor_t anchor) {
    if (anchor != 0) {
      count_copy(node, open_.size(), {});
      anchors_[anchor] = node;
    }
    if (open_.empty()) {
      document_.root = std::move(node);
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
  std::unordered_map<YAML::anchor_t, Node> anchors_;
  size_t copies_ = 0;
  size_t documents_ = 0;
};

Diagnostic error_at(const Document& document, uint32_t line, uint32_t column, std::string message, std::string hint) {
  return {Severity::error, Location{document.path, line, column}, std::move(message), document.source_line(line),
          std::move(hint)};
}

// yaml-cpp takes 0x04 for the end of the file and guesses UTF-16 from NULs: neither gets that far.
bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t' && c != '\n' && c != '\r') || byte == 0x7f;
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

std::string syntax_hint(const std::string& source_line) {
  const size_t text = source_line.find_first_not_of(" \t");
  if (source_line.substr(0, text).find('\t') != std::string::npos) return "indent with blanks, never with tabs";
  if (source_line.find("::") != std::string::npos || source_line.find("]:") != std::string::npos) {
    return "put quotes around an IPv6 address that has brackets or ends in a colon";
  }
  return "look at indentation, quotes and brackets here and on the line before";
}

}  // namespace

std::string Document::source_line(uint32_t line) const {
  if (line == 0 || line > line_starts.size()) return "";
  const size_t begin = line_starts[line - 1];
  std::string found = text.substr(begin, text.find('\n', begin) - begin);
  if (!found.empty() && found.back() == '\r') found.pop_back();
  if (line == 1 && found.starts_with("\xef\xbb\xbf")) found.erase(0, 3);
  if (found.size() > kShownLine) found = found.substr(0, kShownLine) + "...";
  std::replace_if(found.begin(), found.end(), is_control, '?');
  return found;
}

std::optional<Document> read_document(const std::string& path, Diagnostics& diagnostics) {
  Result<std::string> text = read_file(path, kMaxFileBytes);
  if (!text) {
    diagnostics.add({Severity::error, {path}, text.error(), "", "name a YAML file that can be read"});
    return std::nullopt;
  }
  return parse_document(path, std::move(*text), diagnostics);
}

std::optional<Document> parse_document(std::string path, std::string text, Diagnostics& diagnostics) {
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
  try {
    std::istringstream stream(document.text);
    YAML::Parser parser(stream);
    Builder builder(document, diagnostics);
    if (parser.HandleNextDocument(builder)) parser.HandleNextDocument(builder);
    return document;
  } catch (const Stop& stop) {
    diagnostics.add(error_at(document, stop.line, stop.column, stop.message, stop.hint));
  } catch (const YAML::Exception& e) {
    const std::string source = document.source_line(line_of(e.mark));
    diagnostics.add(error_at(document, line_of(e.mark), column_of(e.mark), "not YAML: " + e.msg, syntax_hint(source)));
  } catch (const std::exception& e) {
    diagnostics.add({Severity::error, {document.path}, std::string("cannot read this YAML: ") + e.what(), "", ""});
  }
  return std::nullopt;
}

}  // namespace weir::yaml
