#include "paceline/data/lease/blame.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

const Blamed kOne{.range = {10, 20}, .failed_on = {{3, 17}, {4, 18}}, .failures = 2};
const Blamed kSuspect{.range = {20, 30}, .is_suspect = true};

TEST(BlameBookTest, ANewBlameIsInThePlaceOfWhatItOverlaps) {
  BlameBook book;
  book.Put(kOne);
  book.Put(kSuspect);
  EXPECT_EQ(book.All(), (std::vector<Blamed>{kOne, kSuspect}));
  const Blamed half{.range = {25, 30}, .is_suspect = true};
  book.Put(half);
  EXPECT_EQ(book.All(), (std::vector<Blamed>{kOne, half}));
  book.Erase({15, 16});
  EXPECT_EQ(book.All(), (std::vector<Blamed>{half}));
}

TEST(BlameBookTest, WhatIsLeftOfASuspectStaysSuspectAndOtherBlameIsForgotten) {
  BlameBook book;
  book.Put(kOne);
  book.Put(kSuspect);
  book.Done({10, 12});
  EXPECT_EQ(book.All(), (std::vector<Blamed>{kSuspect}));
  book.Done({24, 25});
  EXPECT_EQ(book.All(), (std::vector<Blamed>{{.range = {20, 24}, .is_suspect = true},
                                             {.range = {25, 30}, .is_suspect = true}}));
  book.Done({0, 100});
  EXPECT_TRUE(book.All().empty());
}

TEST(BlameBookTest, TextsAreReadBackAndOthersRefused) {
  for (const Blamed& blamed : {kOne, kSuspect}) {
    const auto read = BlameFromText(BlameToText(blamed));
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->failed_on, blamed.failed_on);
    EXPECT_EQ(read->is_suspect, blamed.is_suspect);
  }
  for (const char* text : {"x", "suspect\n3", "\n3/", "\n/4", "\n3/4/5", "suspect \n"}) {
    EXPECT_FALSE(BlameFromText(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace paceline
