// Shuts gRPC down before the test program ends. gRPC frees its last user's objects on its own
// threads. If the process ends meanwhile, the leak checker reports half a TLS handshake (seen once
// in many runs, on a busy machine).

#include <grpc/grpc.h>
#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

class GrpcEnvironment : public testing::Environment {
 public:
  void SetUp() override { grpc_init(); }
  // This is the last user, so it waits for all others.
  void TearDown() override { grpc_shutdown_blocking(); }
};

[[maybe_unused]] const testing::Environment* const kEnvironment =
    testing::AddGlobalTestEnvironment(new GrpcEnvironment);

}  // namespace
}  // namespace paceline::wire
