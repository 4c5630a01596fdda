#include "control/daemon/web.h"

#include "common/log/log.h"
#include "control/daemon/daemon.h"
#include "control/tell/page/page.h"

namespace weir::control {

namespace {

constexpr std::chrono::seconds kTryAgain{10};

struct WebPage {
  const char* path;
  const char* type;
  void (*answer)(Web::Pages& pages, const web::Request& request, web::Reply reply);
};

// A file that is a part of this program.
template <auto content>
void tell_file(Web::Pages&, const web::Request&, web::Reply reply) {
  reply({200, "", std::string(content())});
}

constexpr WebPage kWebPages[] = {
    {page::kPagePath, "text/html; charset=utf-8",
     [](Web::Pages& pages, const web::Request& request, web::Reply reply) {
       pages.front.answer(request, std::move(reply));
     }},
    {"/metrics", metrics::kTextType,
     [](Web::Pages& pages, const web::Request& request, web::Reply reply) {
       pages.metrics.answer(request, std::move(reply));
     }},
    {page::kStylePath, "text/css; charset=utf-8", tell_file<page::style>},
    {page::kScriptPath, "text/javascript; charset=utf-8", tell_file<page::script>},
    {page::kIconPath, "image/svg+xml", tell_file<page::icon>},
};

std::vector<web::Route> web_routes(Web::Pages& pages) {
  std::vector<web::Route> all;
  for (const WebPage& one : kWebPages) {
    all.push_back({one.path, one.type, [&pages, &one](const web::Request& request, web::Reply reply) {
                     one.answer(pages, request, std::move(reply));
                   }});
  }
  return all;
}

}  // namespace

Web::Web(Loop& loop, Daemon& daemon, std::optional<MetricsSettings> named)
    : loop_(loop), daemon_(daemon), named_(named), pages_{{loop, daemon}, {loop, daemon}} {
  follow();
}

void Web::follow() {
  const std::optional<ListenAddress> wanted = named_ ? named_->listen : daemon_.metrics().listen;
  again_.reset();
  if (wanted == served_) return note("");
  if (!wanted) {
    log::info("metrics are served no more", {{"cause", "the policy says off"}});
    server_.reset();
    served_.reset();
    return note("");
  }
  const Result<void> moved = move_to(*wanted);
  if (!moved && moved.error() != last_error_) {
    log::warning("metrics cannot be served; `metrics: {listen: ...}` in the policy, or --metrics, names another place",
                 {{"place", text_of(*wanted)},
                  {"error", moved.error()},
                  {"again_in_s", kTryAgain.count()},
                  {"stay_on", served_ ? text_of(server_->address()) : "none"}});
  }
  note(moved ? "" : moved.error());
  if (!moved) again_ = loop_.timer(Clock::now() + kTryAgain, [this] { follow(); });
}

// What is served stays until the new place is there; but the same port of other addresses is had only without it.
Result<void> Web::move_to(const ListenAddress& address) {
  Result<std::unique_ptr<web::Server>> server = web::Server::start(loop_, address, web_routes(pages_));
  if (!server && server_ != nullptr && server_->address().port == address.port) {
    server_.reset();
    server = web::Server::start(loop_, address, web_routes(pages_));
    if (!server) {
      const std::string error = server.error();
      server = web::Server::start(loop_, *served_, web_routes(pages_));
      if (server) {
        server_ = std::move(*server);
      } else {
        served_.reset();
      }
      return Error{error};
    }
  }
  if (!server) return Error{server.error()};
  server_ = std::move(*server);
  served_ = address;
  const std::string place = text_of(server_->address());
  if (is_loopback(address)) {
    log::info("metrics are served", {{"url", "http://" + place + "/metrics"}});
  } else {
    log::warning(
        "metrics are served: whoever reaches this address reads them, without a password; "
        "docs/operate/metrics.md tells how to keep others out",
        {{"url", "http://" + place + "/metrics"}});
  }
  return {};
}

void Web::note(const std::string& error) {
  last_error_ = error;
  daemon_.note({server_ == nullptr ? "" : text_of(server_->address()), error});
}

}  // namespace weir::control
