#include "control/policy/feeds/unpack.h"

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

namespace weir::control::feeds {
namespace {

using namespace std::string_view_literals;  // with NULs in them

// What unpacking may take; the process that does it has not much more. xz -9 takes 65 MiB.
constexpr uint64_t kMostMemory = uint64_t{128} << 20;
constexpr int kMostWindowBits = 27;  // of zstd: the same

class Gzip : public Unpacker {
 public:
  Gzip() { is_broken_ = inflateInit2(&stream_, kWindowBits + kGzipHeader) != Z_OK; }
  ~Gzip() override { inflateEnd(&stream_); }
  void give(std::string_view bytes, bool) override {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
  }
  size_t take(std::span<char> out) override {
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    while (!is_broken_ && stream_.avail_out > 0) {
      if (is_between_) {  // files may stand one behind the other, and zeroes or line ends behind them
        while (stream_.avail_in > 0 && is_padding(*stream_.next_in)) stream_.next_in++, stream_.avail_in--;
        if (stream_.avail_in == 0) break;
        is_between_ = false;
        is_broken_ = inflateReset(&stream_) != Z_OK;
        continue;
      }
      const int result = inflate(&stream_, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {
        is_between_ = true;
      } else if (result == Z_BUF_ERROR) {
        break;  // no more bytes
      } else if (result != Z_OK) {
        is_broken_ = true;
      }
    }
    return out.size() - stream_.avail_out;
  }
  const char* name() const override { return "gzip"; }
  bool is_broken() const override { return is_broken_; }
  bool is_whole() const override { return is_between_; }

 private:
  static constexpr int kWindowBits = 15, kGzipHeader = 16;
  static bool is_padding(Bytef byte) { return byte == 0 || byte == '\r' || byte == '\n'; }

  z_stream stream_ = {};
  bool is_broken_ = false, is_between_ = false;
};

class Xz : public Unpacker {
 public:
  Xz() { is_broken_ = lzma_stream_decoder(&stream_, kMostMemory, LZMA_CONCATENATED) != LZMA_OK; }
  ~Xz() override { lzma_end(&stream_); }
  void give(std::string_view bytes, bool is_end) override {
    stream_.next_in = reinterpret_cast<const uint8_t*>(bytes.data());
    stream_.avail_in = bytes.size();
    is_end_ = is_end;
  }
  size_t take(std::span<char> out) override {
    stream_.next_out = reinterpret_cast<uint8_t*>(out.data());
    stream_.avail_out = out.size();
    while (!is_broken_ && !is_whole_ && stream_.avail_out > 0) {
      const lzma_ret result = lzma_code(&stream_, is_end_ ? LZMA_FINISH : LZMA_RUN);
      is_whole_ = result == LZMA_STREAM_END;
      is_broken_ = result != LZMA_OK && result != LZMA_STREAM_END && result != LZMA_BUF_ERROR;
      if (result == LZMA_BUF_ERROR || (stream_.avail_in == 0 && !is_end_)) break;
    }
    return out.size() - stream_.avail_out;
  }
  const char* name() const override { return "xz"; }
  bool is_broken() const override { return is_broken_; }
  bool is_whole() const override { return is_whole_; }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool is_broken_ = false, is_whole_ = false, is_end_ = false;
};

class Zstd : public Unpacker {
 public:
  Zstd() : stream_(ZSTD_createDCtx()) {
    is_broken_ =
        stream_ == nullptr || ZSTD_isError(ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kMostWindowBits)) != 0;
  }
  ~Zstd() override { ZSTD_freeDCtx(stream_); }
  void give(std::string_view bytes, bool) override { in_ = {bytes.data(), bytes.size(), 0}; }
  size_t take(std::span<char> out) override {
    ZSTD_outBuffer room = {out.data(), out.size(), 0};
    while (!is_broken_ && room.pos < room.size) {
      const size_t before = room.pos, given = in_.pos;
      if (is_whole_ && in_.pos == in_.size) break;
      const size_t result = ZSTD_decompressStream(stream_, &room, &in_);
      is_broken_ = ZSTD_isError(result) != 0;
      is_whole_ = result == 0;
      if (room.pos == before && in_.pos == given) break;
    }
    return room.pos;
  }
  const char* name() const override { return "zstd"; }
  bool is_broken() const override { return is_broken_; }
  bool is_whole() const override { return is_whole_; }

 private:
  ZSTD_DCtx* stream_;
  ZSTD_inBuffer in_ = {nullptr, 0, 0};
  bool is_broken_ = false, is_whole_ = false;
};

}  // namespace

std::unique_ptr<Unpacker> Unpacker::of(std::string_view beginning) {
  if (beginning.starts_with("\x1f\x8b"sv)) return std::make_unique<Gzip>();
  if (beginning.starts_with("\xfd"
                            "7zXZ\0"sv)) {
    return std::make_unique<Xz>();
  }
  if (beginning.starts_with("\x28\xb5\x2f\xfd"sv)) return std::make_unique<Zstd>();
  return nullptr;
}

}  // namespace weir::control::feeds
