#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "control/ctl/text.h"
#include "control/tell/answer/walk.h"

// What explain shows of a key, of a packet and of a frame alike.
namespace weir::control::ctl {

std::string bits_text(const AskedKey& key);  // page 12, line 3: bits 5 77; line 9: bits 0 64
// What the filter said: bits that are set, or a ribbon's that add up to zero.
const char* filter_said(const AskedKey& key);

// The entries of which `alone` is this, as rows of a table.
Table origin_table();
Table table_of(const std::vector<Origin>& origins, bool alone, Table table);
void show_table(const char* title, const Table& table);  // none when it is empty
void show_more(size_t shown, size_t all);
// Says which addresses `policy.own` holds, and which entries it is cut out of.
void show_own(const OwnClaims& own);
// Where entries come from: the first ones.
void show_provenance(const std::vector<Origin>& origins);
// 12, of 2026-11-26T00:53:00Z (asked for, by alice)
std::string moment_text(const Moment& moment);

}  // namespace weir::control::ctl
