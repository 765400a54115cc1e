#pragma once

#include "dropin/ibverbs/program.h"
#include "dropin/ibverbs/refusal.h"

namespace verbatim::dropin {

/// Runs `call(program)` with this process's program. Returns 0 or an errno value; refusals are
/// logged under `name`.
template <typename Call>
int with_program(const char* name, Call call) {
  const auto own = program();
  if (!own) return refused(name, own.error());
  const auto done = call(**own);
  return done ? 0 : refused(name, done.error());
}

}  // namespace verbatim::dropin
