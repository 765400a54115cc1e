#include <infiniband/verbs.h>

/// Linked with libibverbs in the way that the build says. It is never started.
int main() { return ibv_get_device_list(nullptr) == nullptr ? 1 : 0; }
