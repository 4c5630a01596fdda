#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/diagnostic.h"
#include "common/yaml/events.h"

// YAML with places: every node knows its line and column, scalars stay text (yaml-cpp would read 010 as 8), and
// duplicate keys, unknown keys and wrong kinds become Diagnostics with a way out.
namespace weir::yaml {

enum class Kind : uint8_t { null, scalar, sequence, map };

struct Member;

struct Node {
  Kind kind = Kind::null;
  bool quoted = false;  // scalar written in quotes: never a null, a bool or a number
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
  // As messages show it: control characters replaced, users of urls hidden, cut at 200 bytes.
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

// Walks one map: asks for its members by name, then finish() reports the members nobody asked for (with the nearest
// known name as a hint). Every method that fails adds an error with the node's place and returns empty / false.
class MapReader {
 public:
  // node may be null (absent section): then nothing is found. what: how errors call it, e.g. "the list".
  MapReader(const Document& document, const Node* node, std::string what, Diagnostics& diagnostics);

  const Node* find(std::string_view key);                 // any kind; null and absent = nullptr
  const Node* require(std::string_view key);              // absent = error at the map
  std::optional<std::string> text(std::string_view key);  // scalar as written
  std::optional<bool> boolean(std::string_view key);      // true | false
  std::optional<uint64_t> integer(std::string_view key, uint64_t least, uint64_t most);
  std::optional<double> number(std::string_view key, double least, double most);
  std::optional<double> number_of(std::string_view key, std::string_view unit, double least, double most);  // 50%, 10x
  std::optional<uint64_t> size_bytes(std::string_view key, uint64_t least, uint64_t most);  // 4096, 64KiB, 1GiB
  std::optional<uint64_t> seconds(std::string_view key, uint64_t least, uint64_t most);     // 30s, 10m, 1h, 7d
  std::optional<size_t> choice(std::string_view key, std::initializer_list<std::string_view> names);  // index
  const Node* sequence(std::string_view key);
  const Node* map(std::string_view key);
  // Members that exist in the design but are not built yet: the error `KEY: not supported yet` when present.
  void not_supported_yet(std::initializer_list<std::string_view> keys);

  void error(const Node& at, std::string message, std::string hint = "");
  void warning(const Node& at, std::string message, std::string hint = "");
  void finish();

 private:
  const Document& document_;
  const Node* node_;
  std::string what_;
  Diagnostics& diagnostics_;
  std::vector<std::string> known_;      // keys somebody asked for
  std::vector<std::string> not_built_;  // keys that are not_supported_yet
};

}  // namespace weir::yaml
