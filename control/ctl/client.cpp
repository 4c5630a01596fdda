#include "control/ctl/client.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>

#include "common/files.h"
#include "common/paths.h"
#include "common/unix_socket.h"
#include "control/ctl/command.h"

namespace weir::control::ctl {

namespace {

// A reload reads, compiles and then waits for targets; nothing takes minutes.
constexpr int kAnswerMs = 120'000;
// The panic switch waits for no reload; it reports after 10 s at the latest.
constexpr int kPanicAnswerMs = 15'000;

}  // namespace

Result<Document> call_controld(const std::string& socket, const Request& request) {
  const bool is_panic = request.command == "bypass";  // has a socket that nothing else can hold up
  const std::string path = is_panic ? panic_socket_of(socket) : socket;
  const int patience_ms = is_panic ? kPanicAnswerMs : kAnswerMs;
  Result<Fd> fd = unix_socket::connect(path, unix_socket::Kind::stream, patience_ms);
  if (!fd) {
    return Error{"cannot reach controld: " + fd.error() +
                 "\nhint: start it with `controld --config weir.yaml --socket " + socket +
                 "`, or name its socket with --socket"};
  }
  // A failed send still reads: controld may have answered (request too long) before it closed.
  const std::string line = write_json(request).line();
  for (std::string_view left = line; !left.empty();) {
    const ssize_t put = send(fd->get(), left.data(), left.size(), MSG_NOSIGNAL);
    if (put < 0) break;
    left.remove_prefix(static_cast<size_t>(put));
  }
  std::string text;
  char chunk[65536];
  while (true) {
    const ssize_t got = recv(fd->get(), chunk, sizeof chunk, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error("no answer from controld on " + socket);
    if (got == 0) break;
    text.append(chunk, static_cast<size_t>(got));
  }
  if (text.empty()) return Error{"controld on " + socket + " closed without an answer"};
  Result<Document> answer = Document::parse(text);
  if (!answer) return Error{"controld on " + socket + " answered something that is not a JSON object"};
  return answer;
}

std::optional<Document> ask(const Context& context, const Request& request) {
  Result<Document> answer = call_controld(context.socket, request);
  if (answer) return std::move(*answer);
  if (context.json) fmt::print("{}", failure_line(answer.error()));
  fmt::print(stderr, "controlctl: {}\n", answer.error());
  return std::nullopt;
}

bool is_printed(const Context& context, const Document& answer) {
  const std::string version = answer.text("version").value_or("");
  if (version != WEIR_VERSION) {
    fmt::print(stderr, "controlctl: warning: this is version {}, controld is {}\n", WEIR_VERSION, version);
  }
  const std::optional<std::string> error = answer.text("error");
  if (context.json) {
    fmt::print("{}", answer.line());
  } else if (error && !answer.contains("ok")) {
    fmt::print(stderr, "controlctl: {}\n", *error);
  } else {
    return false;
  }
  return true;
}

int not_understood(const std::string& error) {
  fmt::print(stderr, "controlctl: the answer of controld is not understood: {}\n", error);
  return kFailed;
}

void warn_of_unknown(const std::vector<std::string>& members) {
  for (const std::string& member : members) {
    if (member == "version" || member == "error") continue;  // of every answer
    fmt::print(stderr, "controlctl: warning: the answer of controld is not understood: member {} is unknown\n", member);
  }
}

int exit_code(const Document& answer) {
  const bool has_ok = answer.contains("ok");
  if (has_ok && answer.has_false("targets", "acknowledged")) return kNotAcknowledged;
  return answer.contains("error") || !answer.flag("ok").value_or(true) ? kFailed : kOk;
}

}  // namespace weir::control::ctl
