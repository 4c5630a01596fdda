#include "tests/agreement/publication.h"

#include <fcntl.h>

#include <algorithm>

#include "control/compile/merge/merge.h"
#include "control/compile/plan/flow_index.h"
#include "control/compile/plan/plan.h"
#include "control/compile/seal.h"
#include "filter/build/builder.h"

namespace weir::agreement {
namespace {

Fd copy_of(const Fd& fd) {
  return Fd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
}

wire::Message message_of(const control::Publication& publication, bool with_base) {
  wire::PublishBody body;
  body.generation = publication.generation;
  std::copy(publication.digest.begin(), publication.digest.end(), body.digest);
  body.size_bytes = publication.size_bytes;
  wire::Message message;
  message.fd = copy_of(publication.snapshot);
  if (const control::Publication* base = publication.base.get()) {
    body.base = base->generation;
    std::copy(base->digest.begin(), base->digest.end(), body.base_digest);
    if (with_base) message.base_fd = copy_of(base->snapshot);
  }
  message.body.assign(wire::bytes_of(body).begin(), wire::bytes_of(body).end());
  return message;
}

}  // namespace

Result<control::Publication> snapshot_of(const control::Policy& policy, uint64_t secret, wire::Generation generation) {
  control::Merged merged = control::merge(policy);
  if (auto ok = control::index_flows(policy, merged); !ok) return Error{ok.error()};
  Result<control::Planned> planned = control::plan(merged, policy);
  if (!planned) return Error{planned.error()};
  weir_snapshot_header& header = planned->layout.header;
  header.secret[0] = secret;
  header.secret[1] = ~secret;
  header.epoch = generation.epoch;
  header.number = generation.number;
  Result<control::Draft> draft = control::make_draft(header.total_bytes);
  if (!draft) return Error{draft.error()};
  if (auto ok = filter::build_snapshot(planned->input, planned->layout, draft->mapping.bytes()); !ok) {
    return Error{ok.error()};
  }
  control::Publication publication;
  publication.generation = generation;
  publication.size_bytes = draft->mapping.size();
  Result<control::Sealed> sealed = control::seal(std::move(*draft));
  if (!sealed) return Error{sealed.error()};
  publication.snapshot = std::move(sealed->fd);
  publication.digest = sealed->digest;
  return publication;
}

Result<void> send_to(const Publish& enforcer, const control::Publication& publication) {
  wire::PublishedBody answer = enforcer(message_of(publication, false));
  if (answer.needs_base != 0 && publication.base != nullptr) answer = enforcer(message_of(publication, true));
  if (answer.ok != 0 && answer.generation == publication.generation) return {};
  return Error{std::string(wire::step_name(answer.failed_step)) + ": " + wire::get_text(answer.reason)};
}

}  // namespace weir::agreement
