#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "common/result.h"
#include "control/policy/model/list.h"

// A book as bytes, so that it survives a restart: `explain` and `list` of a last good that is published again. Little
// endian, without alignment: a header, then the lists one after the other, each with its columns.
namespace weir::control {

std::string write_book(const Book& book);

// Bytes from disk, perhaps damaged: every length, value and order is checked. Error: what is wrong with them, also when
// another version of this program wrote them.
Result<Book> read_book(std::span<const std::byte> bytes);

}  // namespace weir::control
