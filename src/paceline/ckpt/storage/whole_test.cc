#include "paceline/ckpt/storage/whole.h"

#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/base/json.h"
#include "paceline/base/test_dir.h"
#include "paceline/ckpt/image/arena.h"
#include "paceline/ckpt/image/save.h"
#include "paceline/ckpt/storage/export_hf.h"
#include "paceline/ckpt/storage/storage.h"
#include "paceline/ckpt/store/posix.h"

namespace paceline::ckpt {
namespace {

// Two ranks: "model.w" split by columns, "model.b" on both, "opt.m" on rank 1 only.
class WholeTest : public testing::Test {
 protected:
  WholeTest() {
    std::iota(w_.begin(), w_.end(), uint8_t{0});
    for (uint32_t rank = 0; rank < 2; ++rank) SaveRank(rank);
    const Result<Manifest> done =
        Commit(store_.get(), {.order = {.saved = {1, 5},
                                        .world_size = 2,
                                        .name = "step-5-g1",
                                        .shards = {{Rank(0), Rank(0)}, {Rank(1), Rank(1)}}},
                              .job_id = "job"});
    EXPECT_TRUE(done.ok()) << done.failure().message;
  }

  void SaveRank(uint32_t rank) {
    std::vector<TensorBox> boxes = {
        {.key = "model.b", .dtype = DType::kU8, .shape = {3}},
        {.key = "model.w", .dtype = DType::kU8, .shape = {4, 3}, .offset = {0, rank * 3}}};
    std::vector<uint8_t> columns;
    for (size_t row = 0; row < 4; ++row) {
      for (size_t column = 0; column < 3; ++column) {
        columns.push_back(w_[row * 6 + rank * 3 + column]);
      }
    }
    std::vector<const void*> sources = {b_.data(), columns.data()};
    if (rank == 1) {
      boxes.push_back({.key = "opt.m", .dtype = DType::kU8, .shape = {}});
      sources.push_back(b_.data());
    }
    const Image layout = *LayOut(boxes, {});
    auto arena = *Arena::OpenOrMake(memory_.path() + "/a" + std::to_string(rank),
                                    {"job", "boot", rank}, {1'000'000, 2});
    for (const uint32_t slot : {0u, 1u}) ASSERT_TRUE(arena->Reserve(slot).ok());
    ASSERT_TRUE(Save(arena.get(), layout, sources,
                     {.saved = {1, 5}, .notes = R"({"schema":"paceline.notes/1"})"})
                    .ok());
    const ArenaImage image = arena->Sealed().front();
    MemorySource file(arena->FileOf(image));
    MemorySource notes(arena->NotesOf(image));
    ASSERT_TRUE(
        WriteShard(
            store_.get(),
            {.name = "step-5-g1", .job_id = "job", .saved = {1, 5}, .rank = rank, .file_of = rank},
            {.file = &file,
             .file_hashes = arena->FileHashesOf(image),
             .notes = &notes,
             .notes_hashes = arena->NotesHashesOf(image)},
            nullptr)
            .ok());
  }

  Result<std::unique_ptr<WholeReader>> Open() {
    return WholeReader::Open(store_.get(), "step-5-g1");
  }

  const TestDir dir_;
  const TestDir memory_{TestDir::InMemory()};
  const std::unique_ptr<Store> store_ = MakePosixStore(dir_.path());
  std::vector<uint8_t> w_ = std::vector<uint8_t>(24);
  const std::vector<uint8_t> b_ = {7, 8, 9};
};

TEST_F(WholeTest, TensorsAreWholeHoweverTheyWereCut) {
  const auto reader = Open();
  ASSERT_TRUE(reader.ok()) << reader.failure().message;
  ASSERT_EQ((*reader)->tensors().size(), 3u);
  EXPECT_EQ((*reader)->tensors().at("model.w").shape, (std::vector<uint64_t>{4, 6}));
  std::vector<uint8_t> w(24);
  std::vector<uint8_t> b(3);
  const std::vector<WholeReader::Wanted> wanted = {
      {"model.w", std::as_writable_bytes(std::span(w))},
      {"model.b", std::as_writable_bytes(std::span(b))}};
  ASSERT_TRUE((*reader)->Read(wanted).ok());
  EXPECT_EQ(w, w_);
  EXPECT_EQ(b, b_);
  const std::vector<WholeReader::Wanted> unknown = {{"x", std::as_writable_bytes(std::span(b))}};
  EXPECT_EQ((*reader)->Read(unknown).failure().kind, FailureKind::kNotFound);
  const std::vector<WholeReader::Wanted> small = {
      {"model.w", std::as_writable_bytes(std::span(w)).first(23)}};
  EXPECT_EQ((*reader)->Read(small).failure().kind, FailureKind::kInvalid);
}

TEST_F(WholeTest, AHuggingFaceFolderHasTheWeightsAndAnIndex) {
  auto reader = Open();
  ASSERT_TRUE(reader.ok());
  const std::string out = dir_.path() + "/hf";
  // A small limit, so that the export has two files.
  const auto done = ExportHf(reader->get(), {.folder = out, .file_bytes_max = 10});
  ASSERT_TRUE(done.ok()) << done.failure().message;
  EXPECT_EQ(done->files.size(), 2u);
  EXPECT_EQ(done->left_out, 1u);
  std::ifstream file(out + "/model.safetensors.index.json");
  const std::string index_text(std::istreambuf_iterator<char>(file), {});
  const auto index = ParseJson(index_text);
  EXPECT_EQ(index["metadata"]["total_size"], 27);
  EXPECT_EQ(index["weight_map"]["w"], "model-00002-of-00002.safetensors");
  std::ifstream tensors(out + "/model-00002-of-00002.safetensors", std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(tensors), {});
  const auto head = ParseHead(text, text.size());
  ASSERT_TRUE(head.ok()) << head.failure().message;
  EXPECT_EQ(std::vector<uint8_t>(text.end() - 24, text.end()), w_);
  EXPECT_EQ(ExportHf(reader->get(), {.folder = out}).failure().kind, FailureKind::kExists);
  const auto whole = ExportHf(reader->get(), {.folder = out + "1"});
  ASSERT_TRUE(whole.ok()) << whole.failure().message;
  EXPECT_EQ(whole->files, std::vector<std::string>{"model.safetensors"});
  const auto other = ExportHf(reader->get(), {.folder = out + "2", .entry = "net"});
  EXPECT_EQ(other.failure().kind, FailureKind::kNotFound);
  EXPECT_NE(other.failure().message.find("model, opt"), std::string::npos);
}

TEST(ExportedNamesTest, PartsOfWrappersAreLeftOutWhereNoNameBecomesDouble) {
  const std::map<std::string, std::string> expected = {
      {"body.w", "body._orig_mod._checkpoint_wrapped_module.w"},
      {"_orig_mod", "_orig_mod"},
      {"head._orig_mod.w", "head._orig_mod.w"},
      {"head.w", "head.w"},
      {"module._original.w", "module._original.w"}};
  EXPECT_EQ(ExportedNames({"body._orig_mod._checkpoint_wrapped_module.w", "_orig_mod",
                           "head._orig_mod.w", "head.w", "module._original.w"}),
            expected);
}

TEST_F(WholeTest, BatchesKeepTheOrderAndTheBound) {
  const std::map<std::string, WholeTensor> tensors = {{"a", {.shape = {}, .bytes = 4}},
                                                      {"b", {.shape = {}, .bytes = 4}},
                                                      {"c", {.shape = {}, .bytes = 99}},
                                                      {"d", {.shape = {}, .bytes = 1}}};
  EXPECT_EQ(Batches(tensors, 8), (std::vector<std::vector<std::string>>{{"a", "b"}, {"c"}, {"d"}}));
  EXPECT_TRUE(Batches({}, 8).empty());
}

}  // namespace
}  // namespace paceline::ckpt
