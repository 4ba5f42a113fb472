// An opaque handle of a device's queue of work. On CPU there is one, and work is done when the call returns.
#pragma once

namespace ftune {

struct Stream {
  void* handle = nullptr;
};

}  // namespace ftune
