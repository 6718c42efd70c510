#pragma once

// Carries out one fetch order: asks its sources in turn, goes on at the chunk where the last one
// broke off, reads from storage where a source says so. What is in storage may be on this host's
// disk as well, which comes first. Blocks; IncomingImage::Cancel ends it.

#include <string>

#include "paceline/agent/memory/incoming_image.h"
#include "paceline/agent/memory/opened_store.h"
#include "paceline/wire/bulk/bulk_socket.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::agent {

struct FetchMeans {
  wire::Credentials credentials;
  const wire::BulkTls* tls = nullptr;
  std::string directory;         // of checkpoints in storage, …
  OpenedStore* store = nullptr;  // … and who opens it
  std::string local_tier;        // folder; "": there is none
};

// Empty: it is sealed. Otherwise one sentence, and nothing of it is left.
std::string Fetch(IncomingImage* incoming, const FetchMeans& means);

}  // namespace paceline::agent
