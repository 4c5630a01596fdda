#include <cstdio>
#include <memory>

#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/tell/answer/explain.h"

namespace weir::control::ctl {

namespace cmd_test {

// As grep and ipset do it.
enum TestExit : int { kDrops = 0, kPasses = 1, kNotKnown = 2 };

struct Arguments {
  std::string key;
  bool quiet = false;
};

void show(const ExplainAnswer& answer) {
  if (!answer.now.empty()) print("{}\n", answer.now);
  if (answer.of_packet) print("{}: {}\n", answer.of_packet->packet, verdict_text(answer.of_packet->verdict));
  if (!answer.of_key) return;
  print("{} as source: {}\n", answer.of_key->key, verdict_text(answer.of_key->as_source));
  print("{} as destination: {}\n", answer.of_key->key, verdict_text(answer.of_key->as_destination));
}

bool drops(const ExplainAnswer& answer) {
  if (answer.of_packet) return answer.of_packet->verdict.action == "drop";
  return answer.of_key && (answer.of_key->as_source.action == "drop" || answer.of_key->as_destination.action == "drop");
}

int run(const Context& context, const Arguments& arguments) {
  Request asked{"explain"};
  asked.key = arguments.key;
  const std::optional<Document> document = ask(context, asked);
  if (!document) return kUnreachable;
  if (document->contains("error")) {
    (void)is_printed(context, *document);
    return kNotKnown;
  }
  const Result<ExplainAnswer> answer = read_json<ExplainAnswer>(*document);
  if (!answer) return not_understood(answer.error()), kNotKnown;
  if (!arguments.quiet && !is_printed(context, *document)) show(*answer);
  return drops(*answer) ? kDrops : kPasses;
}

Run configure(Options& options) {
  auto arguments = std::make_shared<Arguments>();
  options
      .argument("KEY", arguments->key,
                "an address, a.b.c.d:port, [v6]:port, or a packet: 'src 10.0.0.1 dst 203.0.113.9 proto tcp dport 443'")
      .required();
  options.flag("-q", arguments->quiet, "print nothing: the exit code says it");
  return [arguments](const Context& context) { return run(context, *arguments); };
}

}  // namespace cmd_test

const Command kTest = {
    "test", Group::look, "whether an address or a packet would drop: exit code 0 when it would, 1 when not",
    "An address would drop when a packet from it or to it would, in which nothing else matches. "
    "Exit code 2: this cannot be said, the key is wrong; 4: controld cannot be reached. With --json it "
    "prints what explain does.",
    cmd_test::configure};

}  // namespace weir::control::ctl
