#pragma once

// Checkpoints in an object store that speaks S3. The client is boto3 in a process of its own
// (python -m paceline._storage.s3_client; docs/adr/0011): credentials, endpoints, retries, TLS and
// multipart uploads are its business, and docs/formats/s3_client.md has what is said to it.

#include <memory>
#include <string>

#include "paceline/base/result.h"
#include "paceline/ckpt/store/store.h"
#include "paceline/ckpt/store/stores.h"

namespace paceline::ckpt {

// "s3://bucket" or "s3://bucket/prefix". kInvalid: no such name. Nothing is started yet.
Result<std::unique_ptr<Store>> OpenS3(const std::string& place, const StoreHost& host);

}  // namespace paceline::ckpt
