#pragma once

namespace verbatim::ulp::ipoib {

/// `verbatim-ulpd ipoib`: an interface of IP over InfiniBand.
int run_ipoib(int argc, char** argv);

}  // namespace verbatim::ulp::ipoib
