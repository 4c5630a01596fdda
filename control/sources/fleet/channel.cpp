#include "control/sources/fleet/channel.h"

#include "control/base/json/json.h"

namespace weir::control::fleet {

void members(Fields& f, Follow& follow) {
  f({"fleet", "", ""}, follow.fleet);
  f({"node", "", ""}, follow.node);
  f.texts({"endpoints", "", ""}, follow.endpoints);
  f({"ca_pem", "", ""}, follow.ca_pem);
  f({"cert_pem", "", ""}, follow.cert_pem);
  f({"key_pem", "", ""}, follow.key_pem);
  f({"user", "", ""}, follow.user);
  f({"password", "", ""}, follow.password);
}

void members(Fields& f, Order& order) {
  f({"kind", "", ""}, order.kind);
  f({"text", "", ""}, order.text);
  f({"number", "", ""}, order.number);
  f({"digest", "", ""}, order.digest);
  f({"url", "", ""}, order.url);
  f({"bytes", "", ""}, order.bytes);
  f({"packed_bytes", "", ""}, order.packed_bytes);
  f({"list", "", ""}, order.list);
  f({"entry", "", ""}, order.entry);
  f({"comment", "", ""}, order.comment);
  f({"ttl_s", "", ""}, order.ttl_s);
}

void members(Fields& f, EntryNews& news) {
  f({"list", "", ""}, news.list);
  f({"entry", "", ""}, news.entry);
  f({"is_gone", "", ""}, news.is_gone);
  f({"ttl_s", "", ""}, news.ttl_s);
  f({"comment", "", ""}, news.comment);
}

void members(Fields& f, News& news) {
  f({"kind", "", ""}, news.kind);
  f({"text", "", ""}, news.text);
  f({"error", "", ""}, news.error);
  f({"digest", "", ""}, news.digest);
  f({"number", "", ""}, news.number);
  f({"bytes", "", ""}, news.bytes);
  f({"at", "", ""}, news.at);
  f({"is_whole", "", ""}, news.is_whole);
  f({"is_last", "", ""}, news.is_last);
  f.array({"entries", "", ""}, news.entries, "entry");
}

namespace {

template <class T>
Result<T> read(std::string_view text) {
  if (text.size() > kMostMessage) return Error{"a message is too long"};
  const Result<Document> document = Document::parse(text);
  if (!document) return Error{document.error()};
  return read_json<T>(*document);
}

}  // namespace

std::string text_of(const Follow& follow) {
  return write_json(follow).line();
}

std::string text_of(const Order& order) {
  return write_json(order).line();
}

std::string text_of(const News& news) {
  return write_json(news).line();
}

Result<Follow> read_follow(std::string_view text) {
  return read<Follow>(text);
}

Result<Order> read_order(std::string_view text) {
  return read<Order>(text);
}

Result<News> read_news(std::string_view text) {
  return read<News>(text);
}

}  // namespace weir::control::fleet
