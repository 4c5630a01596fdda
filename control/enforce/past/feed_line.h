#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/digest.h"
#include "control/policy/model/provenance.h"
#include "control/policy/read/feed_parts.h"

// What stands in a line of a feed beside its entry: for people who ask why it is there.
namespace weir::control {

struct FeedLine {
  std::string text;                 // in ASCII, shortened
  std::string comment;              // what follows the entry: `SBL123` of `192.0.2.0/24 ; SBL123`
  std::vector<FeedColumn> columns;  // of csv and of an object of JSON
};

// line: any bytes, without its end. format: that the feed was read as. names: the line with the names of columns;
// empty: there is none.
FeedLine understand_feed_line(std::string_view line, std::string_view format, std::string_view names = {});

// Lines of files that are not packed. Finding the first line of a file reads all of it; then it is known where which
// lines are, and others take one read.
class FeedLines {
 public:
  // These lines, from 1, when the file still holds the bytes with this digest; else none.
  std::map<uint32_t, FeedLine> read(const std::string& path, const Digest& digest, std::string_view format,
                                    const std::set<uint32_t>& lines);

 private:
  // Where lines are in one file; of one that is packed, or holds other bytes, nothing.
  struct Index {
    FileIdentity file;
    Digest digest = {};
    std::vector<uint32_t> line_at;  // of every kBlock-th byte: the number of its line
    std::string names;              // of columns; empty: none
  };
  static Index make_index(FeedParts& file, std::string_view format);
  static constexpr size_t kBlock = size_t{64} << 10;
  static constexpr size_t kMostFiles = 256;

  std::map<std::string, Index> known_;  // by path
};

}  // namespace weir::control
