#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "common/diagnostic.h"
#include "common/yaml/events.h"
#include "common/yaml/keys.h"

// YAML with places: every node knows its line and column, scalars stay text, quoted or not (yaml-cpp would read 010 as
// 8, and `null` as nothing), and duplicate keys, unknown keys and wrong kinds become Diagnostics with a way out.
namespace weir::yaml {

enum class Kind : uint8_t { null, scalar, sequence, map };

struct Member;

struct Node {
  Kind kind = Kind::null;
  bool quoted = false;  // scalar written in quotes: for messages alone
  uint32_t line = 0;    // from 1; of an alias: where the alias stands (what lies inside it: where it was written)
  uint32_t column = 0;
  std::string text;             // scalar
  std::vector<Node> items;      // sequence
  std::vector<Member> members;  // map, in file order; keys are scalars, each once
};

struct Member {
  Node key;
  Node value;
};

struct Document {
  std::string path;                   // as the user named it: the file of every Diagnostic
  std::string text;                   // the whole file
  std::vector<uint32_t> line_starts;  // offset of each line in text
  Node root;

  Location where(const Node& node) const { return {path, node.line, node.column}; }
  // As messages have it: users of urls hidden, cut at 200 bytes.
  std::string source_line(uint32_t line) const;
};

// Reads the first YAML document of a file (of at most 64 MiB, nesting at most 64 deep; aliases may copy
// 1 Mi nodes, and 128 MiB). Empty when it could not; the reason is in diagnostics. Duplicate keys are errors too, but
// the document comes back without them, so that one run can report the rest: test diagnostics.ok(), not only the
// result. parse: who turns text into events. It is not believed what no YAML can say.
std::optional<Document> read_document(const std::string& path, Diagnostics& diagnostics,
                                      const Parse& parse = parse_here);
// The same from memory.
std::optional<Document> parse_document(std::string path, std::string text, Diagnostics& diagnostics,
                                       const Parse& parse = parse_here);

// Reads one map through the rows of its section: asks for its members by name, then finish() reports the members that
// have no row (with the nearest known name as a hint). Every method that fails adds an error with the node's place and
// returns empty / false. To ask for a key that has no row, or not as its row has it, is a mistake of the program, and
// so is a row that nobody asked for by finish().
class MapReader {
 public:
  // node may be null (absent section): then nothing is found. The section's keys outlive the reader.
  MapReader(const Document& document, const Node* node, const Section& section, Diagnostics& diagnostics);

  const Node* find(std::string_view key);                 // any kind; absent or without a value = nullptr
  const Node* require(std::string_view key);              // absent = error at the map
  std::optional<std::string> text(std::string_view key);  // scalar as written
  // Limits and words are those of the row.
  std::optional<bool> boolean(std::string_view key);         // true | false
  std::optional<uint64_t> integer(std::string_view key);     // empty, too: it is one of the row's words
  std::optional<double> number(std::string_view key);        // 0.5, 50%, 10x
  std::optional<uint64_t> size_bytes(std::string_view key);  // 4096, 64KiB, 1GiB
  std::optional<uint64_t> seconds(std::string_view key);     // 30s, 10m, 1h, 7d
  std::optional<size_t> choice(std::string_view key);        // index
  const Node* sequence(std::string_view key);
  const Node* map(std::string_view key);
  MapReader section(std::string_view key);                 // of the map that it is
  MapReader item(std::string_view key, const Node& node);  // of the map that an item of the sequence is

  // Read as the row has it; an enum has the row's words in their order.
  template <class Value>
  std::optional<Value> value(std::string_view key);
  // The same into `into`, when it is there and right.
  template <class Value>
  void take(std::string_view key, Value& into) {
    if (const auto read = value<Value>(key)) into = *read;
  }
  template <class Value>
  void take(std::string_view key, std::optional<Value>& into) {
    if (const auto read = value<Value>(key)) into = read;
  }

  void error(const Node& at, std::string message, std::string hint = "");
  void warning(const Node& at, std::string message, std::string hint = "");
  void finish();

 private:
  const Key& ask(std::string_view key, unsigned forms);
  const Node* value_of(std::string_view key) const;
  std::optional<uint64_t> whole(std::string_view key);
  std::optional<double> number_with_unit(const Key& key, const Node& found);

  const Document& document_;
  const Node* node_;
  Section section_;
  Diagnostics& diagnostics_;
  std::vector<bool> asked_;  // for each row
};

template <class Value>
std::optional<Value> MapReader::value(std::string_view key) {
  if constexpr (std::is_same_v<Value, bool>) {
    return boolean(key);
  } else if constexpr (std::is_same_v<Value, std::string>) {
    return text(key);
  } else if constexpr (std::is_floating_point_v<Value>) {
    return number(key);
  } else {
    const auto number = std::is_enum_v<Value> ? choice(key) : whole(key);
    return number ? std::optional(static_cast<Value>(*number)) : std::nullopt;
  }
}

}  // namespace weir::yaml
