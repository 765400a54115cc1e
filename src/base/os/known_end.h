#pragma once

#include "base/os/process_token.h"

namespace verbatim {

/// While it exists, `process_lives` of this thread takes the process for dead: a pidfd that was
/// opened while it lived has said so. Another process may have its number by now.
class KnownEnd {
 public:
  explicit KnownEnd(ProcessToken ended);
  ~KnownEnd();
  KnownEnd(const KnownEnd&) = delete;
  KnownEnd& operator=(const KnownEnd&) = delete;
};

}  // namespace verbatim
