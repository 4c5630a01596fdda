#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "common/fd.h"
#include "common/wire.h"
#include "tests/agreement/choices.h"

// What somebody may send who wishes no good: real snapshots, messages and requests, with a few bytes that are not
// theirs.
namespace weir::hostile {

using Bytes = std::vector<std::byte>;

// A memory file that nobody can change any more.
Fd sealed(const Bytes& bytes);

// Changes some bytes: bits, numbers at the edge of their range, lines from elsewhere. near: most of the changes lie in
// the first so many bytes.
void mutate(agreement::Choices& choices, Bytes& bytes, size_t near);

// Snapshots of random policies, small enough to send many.
std::vector<Bytes> good_snapshots(size_t n, uint64_t seed);

// A publication of a variant of the snapshot: mostly a sealed memory file with the right digest, so that what is wrong
// lies deeper.
struct Publication {
  wire::PublishBody body;
  Fd fd;  // may be none
};
Publication publication_of(agreement::Choices& choices, const Bytes& snapshot, wire::Generation generation);

// A message to an enforcer, and an answer of one to that request; as bytes on the wire.
Bytes message_of(agreement::Choices& choices);
Bytes answer_of(agreement::Choices& choices, const wire::Message& request);

// A line to controld.
std::string request_of(agreement::Choices& choices);

}  // namespace weir::hostile
