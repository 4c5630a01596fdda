#pragma once

#include "common/clock.h"
#include "tests/unit/eventually.h"

// While it lives, all clocks of the programs' code stand still (common/clock.h), and go on as the test says.
class OwnClocks {
 public:
  OwnClocks() { weir::hold_clocks(); }
  ~OwnClocks() { weir::let_clocks_go(); }
  OwnClocks(const OwnClocks&) = delete;

  void pass(weir::Clock::duration time) const { weir::move_clocks(time); }
  // Steps of time pass until test() holds; each comes once whoever waits has had a moment.
  template <class Test>
  bool pass_until(weir::Clock::duration step, Test test) const {
    return eventually([&] {
      if (test()) return true;
      pass(step);
      return false;
    });
  }
};
