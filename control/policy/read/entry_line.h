#pragma once

#include <string>
#include <string_view>

#include "common/result.h"
#include "control/policy/model/list.h"

// One entry as one line of text: what `controlctl add` takes and the journal keeps.
//   203.0.113.7   198.51.100.0/24   203.0.113.10-203.0.113.99   203.0.113.7:443   [2001:db8::7]:443
//   src 10.0.0.0/8 dst 203.0.113.9 proto tcp dport 8000-8010 tcp-flags syn/syn,ack
namespace weir::control {

// Appends the entry to the list, as an Entry of its `match` or of the sides that it names, or as a Flow. Returns the
// one text that is written for all that mean the same in this list: what its `match` says is left out. Error: the
// reason, then the way out.
Result<std::string> read_entry_line(std::string_view text, bool allow_any, ListDraft& list);

// The same from the YAML map that stands for an entry in a policy file, as in {dst: 203.0.113.9, proto: udp}. It is
// parsed by this process: for controlctl alone.
Result<std::string> entry_line_of_map(std::string_view map);

}  // namespace weir::control
