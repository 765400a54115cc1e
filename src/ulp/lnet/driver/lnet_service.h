#pragma once

namespace verbatim::ulp::lnet {

/// `verbatim-ulpd lnet`. Besides what every daemon answers: {"ask":"ping","nid":...} and
/// {"ask":"test",...} begin, and answer with a number; {"ask":"result","number":N} tells what has
/// become of it.
int run_lnet(int argc, char** argv);

}  // namespace verbatim::ulp::lnet
