#pragma once

// Checkpoints in an object store with the S3 protocol. The client is boto3 in a process of its own
// (python -m paceline.s3_client; docs/adr/0011), which handles credentials, endpoints, retries, TLS
// and multipart uploads. docs/formats/s3_client.md specifies its requests.

#include <memory>
#include <string>

#include "paceline/base/result.h"
#include "paceline/ckpt/store/store.h"
#include "paceline/ckpt/store/stores.h"

namespace paceline::ckpt {

// `place` is "s3://bucket" or "s3://bucket/prefix". kInvalid for other names. Starts no process
// yet.
Result<std::unique_ptr<Store>> OpenS3(const std::string& place, const StoreHost& host);

}  // namespace paceline::ckpt
