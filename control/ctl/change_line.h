#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/ctl/line/command.h"
#include "control/tell/answer/change.h"

// What `add`, `del` and `flush` share.
namespace weir::control::ctl {

// The KEY argument of `add` and `del`.
constexpr const char* kKeysHelp =
    "an address, prefix, range, a.b.c.d:port, [v6]:port, or in quotes a flow: 'src 10.0.0.0/8 dst 203.0.113.9 proto "
    "tcp dport 443' or '{dst: 203.0.113.9, proto: udp}'; - reads them from stdin, one a line";

// Entries as the API takes them. Of stdin (-) each line that is no comment. Empty: an error, which was said.
std::optional<std::vector<std::string>> read_keys(const std::vector<std::string>& keys);

void print_change(const ChangeAnswer& answer);

// `add` and `allow`: their options, and what runs. action: of the list that is meant where none is named, drop or pass.
Run configure_add(Options& options, const char* action, const char* list_help);

}  // namespace weir::control::ctl
