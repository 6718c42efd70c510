// Ends gRPC before the test program does. It tears down what its last user leaves on threads of its
// own, and a process that ends meanwhile is told by the leak checker that half a TLS handshake was
// never freed (seen once in many runs, on a machine that was busy).

#include <grpc/grpc.h>
#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

class GrpcEnvironment : public testing::Environment {
 public:
  void SetUp() override { grpc_init(); }
  // This is the last user now, so it waits for all the rest.
  void TearDown() override { grpc_shutdown_blocking(); }
};

[[maybe_unused]] const testing::Environment* const kEnvironment =
    testing::AddGlobalTestEnvironment(new GrpcEnvironment);

}  // namespace
}  // namespace paceline::wire
