#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "control/base/json/fields.h"

// JSON of what members() describes. This folder alone includes the JSON library.
namespace weir::control {

// A JSON object.
class Document {
 public:
  // Error: it is no JSON object.
  static Result<Document> parse(std::string_view text);
  Document(Document&&) noexcept;
  Document& operator=(Document&&) noexcept;
  ~Document();

  // One line with its end. Bytes that are no UTF-8 (names of files) become U+FFFD; what printable.h hides is escaped.
  std::string line() const;

  bool contains(const char* name) const;
  // Of a member that may be missing, or be something else.
  std::optional<bool> flag(const char* name) const;
  std::optional<std::string> text(const char* name) const;
  // Whether an element of the array `name` has this member, and it is false.
  bool has_false(const char* name, const char* member) const;
  bool has_elements(const char* name) const;  // the array `name`

  // What a visit of members() wrote or read.
  class Writer {
   public:
    Writer();
    ~Writer();
    Fields& fields();
    Document take();

   private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };
  class Reader {
   public:
    explicit Reader(const Document& document);
    ~Reader();
    Fields& fields();
    // The first member that is missing, or is not what it should be: "member targets[0].socket is missing".
    const std::optional<std::string>& error() const;
    // Members of the document that nobody asked for, as "targets[].colour", once the visit is over.
    std::vector<std::string> unknown() const;

   private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };

 private:
  struct Impl;
  explicit Document(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

template <class T>
Document write_json(const T& value) {
  Document::Writer writer;
  members(writer.fields(), const_cast<T&>(value));  // a Writer changes nothing
  return writer.take();
}

// unknown: members that T does not have; null: nobody asks. Error: Reader::error().
template <class T>
Result<T> read_json(const Document& document, std::vector<std::string>* unknown = nullptr) {
  Document::Reader reader(document);
  T value;
  members(reader.fields(), value);
  if (reader.error()) return Error{*reader.error()};
  if (unknown != nullptr) *unknown = reader.unknown();
  return value;
}

}  // namespace weir::control
