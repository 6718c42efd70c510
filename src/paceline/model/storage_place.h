#pragma once

// Where checkpoints may be: a directory that all hosts see, or a bucket of an object store. Checks
// the name only, equally for scripts, agents and masters; nothing is read.

#include <string>
#include <string_view>

namespace paceline {

struct StoragePlace {
  // "s3://BUCKET/PREFIX", or a directory as given, possibly a relative one.
  std::string text;
  std::string bucket;  // "": a directory
  std::string prefix;  // in the bucket; "": the whole bucket
  // Why checkpoints cannot be there, and a fix; both "" if they can.
  std::string problem;
  std::string fix;
};

// Interprets a name as users write it. A name with an unsupported scheme (gs://, file://, S3://) is
// an error and not a relative directory, which would be on one host only. pathlib makes one slash
// of two, so "s3:/bucket" is the bucket, too.
StoragePlace JudgePlace(std::string_view given);

// Whether `place` has the form used between agents and masters: an absolute directory, or a bucket.
bool IsWholePlace(std::string_view place);

}  // namespace paceline
