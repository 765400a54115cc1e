// Calls of libibverbs that datagrams alone need, of the adapter in ulp/rdma/fake.
#include "ulp/rdma/fake/fake_adapter_for_test.h"

using verbatim::ulp::rdma::FakeAdapter;

extern "C" {

ibv_ah* ibv_create_ah(ibv_pd* domain, ibv_ah_attr* to) {
  FakeAdapter::get().note("address handle", 1);
  return new ibv_ah{.context = domain->context, .pd = domain, .handle = to->dlid};
}
int ibv_destroy_ah(ibv_ah* handle) {
  FakeAdapter::get().note("address handle", -1);
  delete handle;
  return 0;
}
int ibv_attach_mcast(ibv_qp*, const ibv_gid*, uint16_t) {
  FakeAdapter::get().note("group", 1);
  return 0;
}
int ibv_detach_mcast(ibv_qp*, const ibv_gid*, uint16_t) {
  FakeAdapter::get().note("group", -1);
  return 0;
}

}  // extern "C"
