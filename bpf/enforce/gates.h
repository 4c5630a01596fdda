#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bpf/program/plane.h"
#include "filter/read/view.h"

// The gates as the kernel's program asks them (bpf/program/gate_table.h), made from what stands in a snapshot: where it
// has a gate with tables there is one here, open and closed ones are the same. An overlay's are asked beside its
// base's: they have tables of all its keys, whatever it says of gates, and who passes none of them has no key in the
// overlay.
namespace weir::xdp {

class Gates {
 public:
  // Looks at every key, to know how many there are. Borrows the view.
  explicit Gates(const filter::SnapshotView& view);

  // Says in group.gate which tables there are, and that they begin at this page of the arena. Returns the page behind.
  uint32_t place(uint32_t first_page, weir_group& group) const;

  // Words of direct tables and values of hashed ones that it sets, each once for a key: the work that keys make.
  uint64_t fills() const { return fills_; }

  // Sets their bits, in an arena that is zero where place() put them.
  void fill(const weir_group& group, std::span<std::byte> arena) const;

 private:
  struct Table {
    uint8_t prefix_bits = 0;  // keys that tell as many, or more, are here
    bool direct = false;
    uint64_t n_keys = 0;
    std::vector<uint64_t> bits;  // direct: all of them, folded to the size that is asked
  };
  struct Gate {
    bool is_open = false;
    std::vector<Table> tables;  // by prefix, rising
  };

  template <class Visit>
  void visit_keys(const filter::ShapeView& shape, Visit visit) const;
  template <class Visit>
  void visit_networks(const filter::ShapeView& shape, Visit visit) const;
  template <class Visit>
  void visit_tables(unsigned family, int sides, unsigned bits, uint64_t address, Visit visit) const;

  const filter::SnapshotView& view_;
  Gate gates_[WEIR_GATES];
  uint64_t fills_ = 0;
  bool same_sides_[2] = {true, true};  // IPv4, IPv6: every key stands at both sides
};

}  // namespace weir::xdp
