#pragma once

namespace verbatim::ulp::rpcrdma {

/// The main functions of `verbatim-ulpd nfs-serve` and `verbatim-ulpd nfs-client`: NFS over RDMA
/// for servers and clients that speak TCP.
int run_nfs_serve(int argc, char** argv);
int run_nfs_client(int argc, char** argv);

}  // namespace verbatim::ulp::rpcrdma
