#include "ulp/target_tree/lio.h"

namespace verbatim::ulp::target_tree {

constexpr Kind kLio{};
constexpr Kind kRdmaCm{};

}  // namespace verbatim::ulp::target_tree
