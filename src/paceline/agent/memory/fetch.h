#pragma once

// Executes one fetch order: tries its sources in turn, resumes at the chunk where the last one
// stopped, and reads from storage if a source says so. For storage it first tries this host's disk.
// Blocks; IncomingImage::Cancel ends it.

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
  OpenedStore* store = nullptr;  // … and its store
  std::string local_tier;        // folder; "": there is none
};

// Returns "" if the image is sealed, else one sentence; the partial image is removed then.
std::string Fetch(IncomingImage* incoming, const FetchMeans& means);

}  // namespace paceline::agent
