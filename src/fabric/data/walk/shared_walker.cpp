#include "fabric/data/movers.h"
#include "fabric/data/walk/repair.h"
#include "fabric/data/walk/walker.h"

namespace verbatim::fabric {

template class Walker<SharedPolicy>;

}  // namespace verbatim::fabric
