#include "paceline/cli/submit/yaml.h"

#include "gtest/gtest.h"

namespace paceline::cli {
namespace {

TEST(ToYaml, IsReadAsTheSameValue) {
  const auto value = ParseOrderedJson(R"({"kind": "ElasticJob", "n": 8, "on": "yes", "empty": {},
    "args": ["--lr", "1e-3", "a b", ""], "containers": [{"name": "train", "env": [{"name": "A",
    "value": "1"}]}, {"name": "side"}], "nested": [[1, 2], "x"], "text": "two\nlines",
    "image": "me/train:7", "colon": "a:",
    "not": null})");
  EXPECT_EQ(ToYaml(value), R"(kind: ElasticJob
"n": 8
"on": "yes"
empty: {}
args:
  - "--lr"
  - "1e-3"
  - "a b"
  - ""
containers:
  - name: train
    env:
      - name: A
        value: "1"
  - name: side
nested:
  - - 1
    - 2
  - x
text: "two\nlines"
image: me/train:7
colon: "a:"
not: null
)");
}

}  // namespace
}  // namespace paceline::cli
