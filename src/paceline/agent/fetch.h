#pragma once

// Carries out one fetch order: asks its sources in turn, goes on at the chunk where the last one
// broke off, reads from storage where a source says so. Blocks; IncomingImage::Cancel ends it.

#include <string>

#include "paceline/agent/incoming_image.h"
#include "paceline/wire/bulk_socket.h"
#include "paceline/wire/credentials.h"

namespace paceline::agent {

struct FetchMeans {
  wire::Credentials credentials;
  const wire::BulkTls* tls = nullptr;
  std::string directory;  // of checkpoints in storage
};

// Empty: it is sealed. Otherwise one sentence, and nothing of it is left.
std::string Fetch(IncomingImage* incoming, const FetchMeans& means);

}  // namespace paceline::agent
