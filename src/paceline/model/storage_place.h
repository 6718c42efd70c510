#pragma once

// Where checkpoints may lie: a directory that all hosts see, or a bucket of an object store. This
// judges the name alone, the same for a script, an agent and a master; nothing is looked at.

#include <string>
#include <string_view>

namespace paceline {

struct StoragePlace {
  // "s3://BUCKET/PREFIX", or a directory as it was given, which may be a relative one.
  std::string text;
  std::string bucket;  // "": it is a directory
  std::string prefix;  // in the bucket; "": all of it
  // Why no checkpoint can be there, and what to write instead; both "": one can.
  std::string problem;
  std::string fix;
};

// What a name means, as people write it. A name that begins with a scheme which nothing serves
// (gs://, file://, S3://) is no relative directory: the checkpoints would be on one host alone.
// pathlib makes one slash of two, so "s3:/bucket" is the bucket, too.
StoragePlace JudgePlace(std::string_view given);

// Whether `place` is what agents and masters tell each other: an absolute directory, or a bucket.
bool IsWholePlace(std::string_view place);

}  // namespace paceline
