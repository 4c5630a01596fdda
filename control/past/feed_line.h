#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/digest.h"
#include "control/model/provenance.h"

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

// These lines (from 1) of a file, when it still holds the bytes with this digest and is not packed; else none. Reads
// all of the file.
std::map<uint32_t, FeedLine> read_feed_lines(const std::string& path, const Digest& digest, std::string_view format,
                                             const std::set<uint32_t>& lines);

}  // namespace weir::control
