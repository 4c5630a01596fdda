/* Not an XDP program: a test compiles this file for the BPF target, to prove that the snapshot format, the hash and the
 * layouts stay within what BPF C has (no libc, bounded loops, no 128-bit arithmetic). */
#include "filter/format/gate.h"
#include "filter/format/siphash.h"
#include "filter/format/snapshot.h"
#include "filter/layouts/bitmap.h"
#include "filter/layouts/line8.h"
#include "filter/layouts/page2.h"
#include "filter/layouts/page7.h"
#include "filter/layouts/ribbon.h"

/* 1 when the key may be present in a page of a filter. words: the key, as filter/format/key_shape.h lays it out. */
weir_u32 weir_format_check(const struct weir_snapshot_header* header, const struct weir_shape* shape,
                           const weir_u64* page, const weir_u8* bitmap, const weir_u64* words) {
  if (shape->layout == WEIR_LAYOUT_BITMAP) return weir_bitmap_check(bitmap, weir_bitmap_index(words[0]));
  const weir_u32 n_words = shape->family == 4 ? 1 : 2u + shape->with_port;
  const weir_u64 hash = weir_siphash13(header->secret, words, n_words);
  if (shape->layout == WEIR_LAYOUT_PAGE2) return weir_page2_check(page, shape->filter_lines, shape->k, hash);
  if (shape->layout == WEIR_LAYOUT_PAGE7) return weir_page7_check(page, hash);
  if (shape->layout == WEIR_LAYOUT_RIBBON) {
    return weir_ribbon_check(page, shape->filter_lines / WEIR_LINES_PER_PAGE, hash);
  }
  const weir_u32 line = weir_hash_range(hash, shape->filter_lines) % WEIR_LINES_PER_PAGE;
  return weir_line8_check(page + line * (WEIR_LINE_BYTES / 8), hash);
}
